package agent

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// sleeper is the connection of a process that stands still while it reads: it learns only then that its time is over,
// before it sees what has come.
type sleeper struct {
	net.Conn
	deadline time.Time
	stands   time.Duration // after the first Read began
	came     bool          // something was sent meanwhile
	reads    int
}

func (s *sleeper) SetReadDeadline(t time.Time) error { s.deadline = t; return nil }

func (s *sleeper) Read(b []byte) (int, error) {
	if s.reads++; s.reads == 1 {
		time.Sleep(s.stands)
	}
	if time.Now().After(s.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	if s.came {
		return copy(b, "x"), nil
	}
	time.Sleep(time.Until(s.deadline))
	return 0, os.ErrDeadlineExceeded
}

// TestPulse: a process that stood still for a little longer than the time in which something has to come counts what
// came. If nothing came, the other end is lost, unless nobody looked for much longer.
func TestPulse(t *testing.T) {
	for _, tt := range []struct {
		stands time.Duration
		came   bool
		want   error
		took   time.Duration
	}{
		{5 * time.Second, true, nil, 5 * time.Second},
		{6100 * time.Millisecond, true, nil, 6100 * time.Millisecond},
		{7900 * time.Millisecond, true, nil, 7900 * time.Millisecond},
		{time.Hour, true, nil, time.Hour},
		{0, false, os.ErrDeadlineExceeded, 6*time.Second + glance},
		{7 * time.Second, false, os.ErrDeadlineExceeded, 7*time.Second + glance},
		{time.Hour, false, os.ErrDeadlineExceeded, time.Hour + 6*time.Second + 2*glance},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			p := &pulse{Conn: &sleeper{stands: tt.stands, came: tt.came}, limit: 6 * time.Second}
			n, err := p.Read(make([]byte, 1))
			if spent := time.Since(began); !errors.Is(err, tt.want) || (n == 1) != tt.came || spent != tt.took {
				t.Errorf("it stands for %v, something came %v: %v after %v, want %v after %v", tt.stands, tt.came, err,
					spent, tt.want, tt.took)
			}
		})
	}
}
