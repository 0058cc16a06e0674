package rsocket

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/dma"
)

// IOMap is memory that the device may access and, with ProtWrite, the peer may write to. It belongs
// to its socket and ends with it.
type IOMap struct {
	s      *Socket
	b      []byte
	offset int64
	pin    *dma.Pinned
}

// Map registers b with the device of a connected socket. With ProtWrite the peer may write to it at
// offset; -1 means b's address. The peer learns of the mapping with the next bytes that are sent. This side must have
// set OptIOMaps, the number of mappings, before it connected. b must not be on a stack; it is pinned until Unmap.
//
// C: riomap.
func (s *Socket) Map(b []byte, p Prot, offset int64) (*IOMap, error) {
	if len(b) == 0 {
		return nil, &ibv.ArgError{Arg: "memory", Got: "0 bytes", Want: "at least 1"}
	}
	if err := s.stream("riomap"); err != nil {
		return nil, err
	}
	m := &IOMap{s: s, b: b}
	err := s.with(func(fd int) (err error) {
		m.pin = dma.Pin(b)
		if m.offset, err = s.lib.IOMap(fd, b, int(p), offset); err != nil {
			m.pin.Unpin()
			return err
		}
		s.mu.Lock()
		if s.maps == nil {
			s.maps = map[*IOMap]struct{}{}
		}
		s.maps[m] = struct{}{}
		s.mu.Unlock()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Offset returns the offset that the peer writes to.
func (m *IOMap) Offset() int64 { return m.offset }

// Unmap ends the mapping.
//
// C: riounmap.
func (m *IOMap) Unmap() error {
	return m.s.with(func(fd int) error {
		m.s.mu.Lock()
		_, ok := m.s.maps[m]
		delete(m.s.maps, m)
		m.s.mu.Unlock()
		if !ok {
			return ErrClosed
		}
		err := m.s.lib.IOUnmap(fd, m.b)
		m.pin.Unpin()
		return err
	})
}

// WriteAt writes b at an offset of memory that the peer has mapped, and returns how many bytes
// there was room for: 0 if the peer has not mapped the offset. The error is EAGAIN if there was no
// room to send. Data sent afterwards arrives afterwards.
//
// C: riowrite.
func (s *Socket) WriteAt(b []byte, offset int64, f Flags) (n int, err error) {
	if err := s.stream("riowrite"); err != nil {
		return 0, err
	}
	return s.count(func(fd int) (int, error) { return s.lib.IOWrite(fd, b, offset, int(f)) })
}
