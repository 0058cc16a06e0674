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
	list []stranger
}

type stranger struct {
	net.Conn
	came time.Time
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
		if time.Since(s.list[0].came) < s.Time {
			return false
		}
		s.list[0].Close()
		s.list = s.list[1:]
	}
	s.list = append(s.list, stranger{c, time.Now()})
	return true
}

// Known takes one off the list, and reports whether it was there: otherwise it had to go, and is closed.
func (s *Strangers) Known(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.list)
	s.list = slices.DeleteFunc(s.list, func(s stranger) bool { return s.Conn == c })
	return len(s.list) < n
}
