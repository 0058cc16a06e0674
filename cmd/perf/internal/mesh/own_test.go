//go:build unix

package mesh

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
)

// TestFiles: a limit of open files that is too low for the hosts is an error before anything begins, which names the
// limit, the need and the way out. Exactly enough is enough.
func TestFiles(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if old.Cur != old.Max {
		t.Errorf("the soft limit is %d, the hard one %d: package os raises it", old.Cur, old.Max)
	}
	const limit = 200
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)
	list := func(n int) (hosts []Host) {
		for i := range n {
			hosts = append(hosts, Host{Name: fmt.Sprint("n", i)})
		}
		return hosts
	}
	for _, tc := range []struct {
		name  string
		c     Config
		fails bool
	}{
		{"hosts", Config{Hosts: list(limit - spareFiles)}, false},
		{"a host more", Config{Hosts: list(limit - spareFiles + 1)}, true},
		{"expected", Config{Expect: limit - spareFiles + 1}, true},
		{"a list of the launcher", Config{Launcher: roster.Place{Rank: -1, Nodes: "n[1-400]"}}, true},
		{"of a small one", Config{Launcher: roster.Place{Rank: -1, Nodes: "n[1-4]"}}, false},
		{"nobody knows", Config{}, false},
	} {
		err := tc.c.CheckFiles()
		few := (*FilesError)(nil)
		if errors.As(err, &few) != tc.fails || tc.fails && (few.Limit != limit || few.Need != few.Hosts+spareFiles) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if tc.fails && !strings.Contains(err.Error(), fmt.Sprintf("ulimit -Hn %d", few.Need)) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if _, err := Run(t.Context(), Config{Hosts: list(500)}); !errors.As(err, new(*FilesError)) {
		t.Errorf("Run: %v", err)
	}
}

// own are errors of dials that say nothing of the host.
func own(e error) error {
	return fmt.Errorf("connect to 10.0.0.1:18514: %w", &net.OpError{Op: "dial", Net: "tcp", Err: e})
}

// TestOwn_Dial: a dial that fails because of this process or its network makes no host a bad one.
func TestOwn_Dial(t *testing.T) {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL,
		syscall.EADDRINUSE, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EACCES, syscall.EPERM, syscall.EAFNOSUPPORT,
		&net.DNSError{Err: "server misbehaving", Name: "n1", IsTemporary: true},
		&net.DNSError{Err: "i/o timeout", Name: "n1", IsTimeout: true}} {
		m := &coordinator{ctx: t.Context(), res: &Result{}}
		m.enter(Host{Name: "n1"}, nil, own(e))
		_, bad := m.res.Sort()
		l := m.res.LostHosts
		if len(l) != 1 || l[0].Kind != Unasked || len(bad) > 0 ||
			!strings.Contains(l[0].Error, "rdmaperf mesh itself failed: ") {
			t.Errorf("%v: %+v, bad: %q", e, l, bad)
		}
		if e == syscall.EMFILE && !strings.Contains(l[0].Error, fmt.Sprintf("open files is %d", mostFiles())) {
			t.Errorf("%+v", l)
		}
		want := "1 hosts were not asked because rdmaperf mesh itself failed, 0 hosts were lost"
		if got := m.res.Absences(); got != want || m.res.unclearHosts()["n1"] == "" {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, e := range []error{syscall.ECONNREFUSED, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ECONNRESET,
		&net.DNSError{Err: "no such host", Name: "n1", IsNotFound: true}} {
		m := &coordinator{ctx: t.Context(), res: &Result{}}
		m.enter(Host{Name: "n1"}, nil, own(e))
		if _, bad := m.res.Sort(); m.res.LostHosts[0].Kind != Absent || !slices.Equal(bad, []string{"n1"}) {
			t.Errorf("%v: %+v, bad: %q", e, m.res.LostHosts, bad)
		}
	}
}

// scarce is a listener that takes few connections, and then fails.
type scarce struct {
	net.Listener
	left int
	err  error
}

func (s *scarce) Accept() (net.Conn, error) {
	if s.left == 0 {
		c, err := s.Listener.Accept()
		if err == nil {
			c.Close() // as one that nobody takes
			err = &net.OpError{Op: "accept", Net: "tcp", Err: s.err}
		}
		return nil, err
	}
	s.left--
	return s.Listener.Accept()
}

// TestOwn_Accept: hosts whose connections this process could not take are not bad, whether their number is known or
// not, and the others are measured.
func TestOwn_Accept(t *testing.T) {
	c := config(t)
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS} {
		for _, tt := range []struct {
			name   string
			place  roster.Place
			expect int
			hosts  int
		}{
			{"a list", roster.Place{Rank: -1, Nodes: "n[0-5]"}, 0, 3},
			{"a number", roster.Nowhere, 6, 1},
			{"nothing", roster.Nowhere, 0, 1},
		} {
			synctest.Test(t, func(t *testing.T) {
				c := c
				c.Launcher, c.Expect, c.Patience, c.Timeout = tt.place, tt.expect, 5*time.Second, 30*time.Second
				p := newParty(t, c)
				p.c.Listener = &scarce{p.hall, 3, e}
				for i := range 6 {
					p.join(t.Context(), worker(fmt.Sprint("n", i), roster.Nowhere, runner{}), nil)
				}
				res, err := Run(t.Context(), p.c)
				p.hall.Close()
				p.wg.Wait()
				if err != nil || res.came != 3 || len(res.LostHosts) != tt.hosts {
					t.Errorf("%v, %s: %v, %d came, lost: %v", e, tt.name, err, res.came, res.LostHosts)
				}
				for _, l := range res.LostHosts {
					if l.Kind != Unasked || !strings.Contains(l.Error, e.Error()) {
						t.Errorf("%v, %s: %+v", e, tt.name, l)
					}
				}
				good, bad := res.Sort()
				if len(bad) > 0 || len(good) != 3 {
					t.Errorf("%v, %s: good %q, bad %q", e, tt.name, good, bad)
				}
			})
		}
	}
}

// TestOwn_CutOff: if all hosts fall silent at the same time, it is this process that lost its network. If one is there,
// those that are silent are lost.
func TestOwn_CutOff(t *testing.T) {
	c := config(t)
	for _, all := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := c
			c.Expect, c.Timeout, c.Beat = 4, 30*time.Second, 2*time.Second
			p, dark := newParty(t, c), make(chan struct{})
			for i := range c.Expect {
				r, cut := runner{takes: time.Second}, dark
				if i == 0 && !all {
					cut = nil
				}
				p.join(t.Context(), worker(fmt.Sprint("n", i), roster.Place{Rank: i, Of: c.Expect}, r), cut)
			}
			time.AfterFunc(3*time.Second, func() { close(dark) })
			res, err := Run(t.Context(), p.c)
			p.hall.Close()
			p.wg.Wait()
			want := 3
			if all {
				want = 0
			}
			if _, bad := res.Sort(); len(bad) != want || (err != nil) != all ||
				all && !strings.Contains(err.Error(), "rdmaperf mesh itself lost all hosts") {
				t.Errorf("all: %v: %v, bad %q, lost %v", all, err, bad, res.LostHosts)
			}
			for i := range res.Pairs {
				if p := &res.Pairs[i]; all && p.Error != "" && !p.Skipped {
					t.Errorf("%s > %s: %s", p.From, p.To, p.Error)
				}
			}
		})
	}
}
