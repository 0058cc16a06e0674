package rdma

import (
	"io"
	"net"
	"slices"

	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// ReadFrom sends what r has, until its end. It holds nothing that others wait for while r.Read runs, so other
// goroutines can write meanwhile. A deadline ends it at once while it waits for the peer, and otherwise when r.Read
// returns. The bytes that r.Read returned in that last call are lost.
func (s *Stream) ReadFrom(r io.Reader) (total int64, err error) {
	if s.tcp != nil {
		return s.tcp.ReadFrom(r)
	}
	total, err = link.CopyFrom(s.l, r, turn.Bound{Deadline: &s.write})
	return total, s.fail("readfrom", err)
}

// WriteTo writes to w what arrives, until the peer has sent all. Nothing is copied on this side: w sees the memory
// that the adapter wrote, until w.Write returns. A deadline ends WriteTo at once while it waits for the peer, and
// otherwise when w.Write returns. While w.Write runs, other goroutines can read what comes next. Bytes that w has
// refused are lost.
func (s *Stream) WriteTo(w io.Writer) (total int64, err error) {
	if s.tcp != nil {
		return s.tcp.WriteTo(w)
	}
	total, err = link.CopyTo(s.l, w, turn.Bound{Deadline: &s.read})
	return total, s.fail("writeto", err)
}

// WriteBuffers writes the slices of v one after another, as if they were one: they are copied together
// into as few frames as they fill, and posted with one doorbell for every 16. It leaves v as it is.
func (s *Stream) WriteBuffers(v net.Buffers) (total int64, err error) {
	if s.tcp != nil {
		v = slices.Clone(v) // which the next call empties
		return v.WriteTo(s.tcp.TCPConn)
	}
	total, err = s.l.Writer.WriteAll(turn.Bound{Deadline: &s.write}, v)
	return total, s.fail("write", err)
}
