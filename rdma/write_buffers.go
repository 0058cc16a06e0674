package rdma

import (
	"net"
	"slices"

	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

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
