package rsocket

import (
	"errors"
	"net/netip"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind/librdmacm"
	"github.com/pureverbs/pureverbs/internal/friend"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// lib is librdmacm and the load of its service threads.
type lib struct {
	*librdmacm.Sockets
	listening, connecting service

	finding sync.Mutex // held by a Listen while it compares the descriptors before and after
}

// verbs is the part of package ibv that is internal to this module.
var verbs = ibv.Internal.Show(friend.Mine)

// library opens librdmacm once.
var library = sync.OnceValues(func() (*lib, error) {
	s, err := librdmacm.OpenSockets(func(function string, errno syscall.Errno) error {
		return &Error{Op: function, Errno: errno}
	})
	if err != nil {
		return nil, err
	}
	l := &lib{Sockets: s}
	limit := limitOf(s.Version(), s.HasWriteCMEvent())
	l.listening.what, l.listening.limit = "listening sockets", limit
	l.connecting.what, l.connecting.limit = "connections that were accepted or do not block", limit
	return l, nil
})

// explainNew returns why this host cannot have a socket, if that is known, otherwise err.
func explainNew(err error) error {
	var e *Error
	if errors.As(err, &e) {
		if why := verbs.ExplainCM(e.Errno); why != error(e.Errno) {
			return &ibv.OpError{Op: e.Op, Err: why}
		}
	}
	return err
}

func newSockaddr(ap netip.AddrPort) (*sockaddr.Addr, error) {
	a, bad := sockaddr.New(ap)
	if bad != nil {
		return nil, (*ibv.ArgError)(bad)
	}
	return &a, nil
}
