package wire

import (
	"io"
	"time"
)

// Finish meets the peer for the last time and closes the connection. The peer
// may be late by limit.
func (w *Conn) Finish(own Dest, limit time.Duration) error {
	if err := w.Barrier("end", own, limit); err != nil {
		return err
	}
	w.endBeats()
	if w.structs {
		switch {
		case w.role == Client && w.unacked:
			return w.AwaitClose(w.timeout)
		case w.role == Client, w.unacked && w.ours: // a stock client waits for its server here
			return w.Close()
		}
		return w.AwaitClose(time.Second)
	}
	// Old perftests send a goodbye that is not read; closing with their word unread would reset the connection under
	// the peer's last read.
	w.c.SetDeadline(time.Now().Add(time.Second))
	w.c.Write([]byte("done\x00"))
	return w.drain()
}

// AwaitClose waits, at most for d, until the peer closes the connection. It is
// the end of a test in which the exchange has none.
func (w *Conn) AwaitClose(d time.Duration) error {
	w.endBeats()
	w.c.SetDeadline(time.Now().Add(d))
	return w.drain()
}

func (w *Conn) drain() error {
	if t, ok := w.c.(interface{ CloseWrite() error }); ok {
		t.CloseWrite()
	}
	io.Copy(io.Discard, io.LimitReader(w.c, 4096))
	return w.Close()
}
