package rdma

import (
	"runtime"
	"runtime/debug"
	"weak"

	"github.com/pureverbs/pureverbs/internal/leak"
)

// Objects that the program has to close or release are recorded in package leak, with the place that made them, if it
// is enabled. Messages and buffers, which are on the hot path, only with PUREVERBS_LEAKS=1.

// watch records that the program has v until r.Done, and reports it if the garbage collector finds it before.
func watch[T any](v *T, r *leak.Record) {
	if r != nil {
		runtime.AddCleanup(v, (*leak.Record).Collected, r)
	}
}

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
	c := l.view.Value()
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

// firstRelease is the text of a panic about the place of an earlier release, for objects that leak.Hot records.
func firstRelease(place string) string {
	if place == "" {
		return ""
	}
	return ", first at\n" + place
}

// releasedHere returns the place of a release, if leak.Hot records it.
func releasedHere() string {
	if !leak.Hot() {
		return ""
	}
	return string(debug.Stack())
}
