package wire

import (
	"net"
	"slices"
	"sync"
	"time"
)

// Strangers are the connections that have not proved themselves. The oldest has to go for one too many, once it has had
// some time: of many agents that come together, none is turned away.
type Strangers struct {
	Most int
	Time time.Duration
	mu   sync.Mutex
	list []net.Conn
	came []time.Time
}

// Admit makes room for one, and waits for it if it has to.
func (s *Strangers) Admit(c net.Conn) {
	for !s.admit(c) {
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *Strangers) admit(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == s.Most {
		if time.Since(s.came[0]) < s.Time {
			return false
		}
		s.list[0].Close()
		s.list, s.came = s.list[1:], s.came[1:]
	}
	s.list, s.came = append(s.list, c), append(s.came, time.Now())
	return true
}

// Known takes one off the list.
func (s *Strangers) Known(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.list, c); i >= 0 {
		s.list, s.came = slices.Delete(s.list, i, i+1), slices.Delete(s.came, i, i+1)
	}
}
