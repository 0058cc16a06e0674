package agent

import (
	"net"
	"slices"
	"sync"
)

// Strangers are the connections that have not proved themselves. The oldest has to go for one too many.
type Strangers struct {
	Most int
	mu   sync.Mutex
	list []net.Conn
}

// Admit makes room for one.
func (s *Strangers) Admit(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == s.Most {
		s.list[0].Close()
		s.list = s.list[1:]
	}
	s.list = append(s.list, c)
}

// Known takes one off the list.
func (s *Strangers) Known(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.list, c); i >= 0 {
		s.list = slices.Delete(s.list, i, i+1)
	}
}
