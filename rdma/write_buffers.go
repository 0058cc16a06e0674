package rdma

import (
	"net"
	"slices"
)

// WriteBuffers writes the slices of v one after another, as if they were one: they are copied together
// into as few frames as they fill, and posted with one doorbell for every 16. It leaves v as it is.
func (s *Stream) WriteBuffers(v net.Buffers) (total int64, err error) {
	if s.tcp != nil {
		v = slices.Clone(v) // which the next call empties
		return v.WriteTo(s.tcp.TCPConn)
	}
	b := bound{Deadline: &s.write}
	if err := s.l.wr.turn.Enter(b); err != nil {
		return 0, s.fail("write", err)
	}
	defer s.l.wr.turn.Leave()
	s.l.wr.hold()
	defer s.l.wr.letGo()
	for _, p := range v {
		if len(p) == 0 && total > 0 {
			continue // a peer may have closed after all bytes
		}
		n, err := s.l.wr.writeBytes(b, p)
		total += int64(n)
		if err != nil {
			return total, s.fail("write", err)
		}
	}
	return total, nil
}
