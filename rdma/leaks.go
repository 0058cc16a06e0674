package rdma

import (
	"runtime"
	"weak"

	"github.com/pureverbs/pureverbs/internal/leak"
)

// endLost ends the connection of s if the program has lost s without closing it. As in package net, what nobody can use
// or close is not kept.
func endLost(s *Stream) {
	runtime.AddCleanup(s, func(l *link) {
		if !l.end.Closed() {
			go lose(l) // other cleanups wait for this function
		}
	}, s.l)
}

// lose is closeNow for a connection that the program has lost.
func lose(l *link) {
	if l.ended() == nil {
		warn(l.log, "rdma: the program has lost a connection that it did not close: it ends as by CloseNow",
			"local", l.local, "peer", l.remote)
	}
	l.closeNow()
}

// connOf returns the Conn of l, which is the same one as long as the program has it. The link does not keep it, so that
// a Conn that the program has lost is noticed.
// Preconditions: l.mu is held.
func connOf(l *link) *Conn {
	v, _ := l.view.(weak.Pointer[Conn])
	c := v.Value()
	if c == nil {
		c = &Conn{l}
		l.view = weak.Make(c)
	}
	return c
}

// openConn returns the Conn of l for Dial and Accept.
func openConn(l *link) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := connOf(l)
	l.opened = leak.Track("connection to " + l.remote.String())
	watch(c, l.opened)
	return c
}
