package rsocket

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/dma"
)

// IOMap is memory that the device may use, and with ProtWrite the peer may write
// to. It belongs to its socket and ends with it.
type IOMap struct {
	s      *Socket
	b      []byte
	offset int64
	pin    *dma.Pinned
}

// Map registers b with the device of a connected socket. With ProtWrite the peer
// may write there, at offset: -1 is b's address. The peer learns of it with the next
// bytes that are sent; it must have room for mappings, the option OptIOMaps on this
// side before the connection. b must not be on a stack and stays in place until
// Unmap.
//
// C: riomap.
func (s *Socket) Map(b []byte, p Prot, offset int64) (*IOMap, error) {
	if len(b) == 0 {
		return nil, &ibv.ArgError{Arg: "memory", Got: "0 bytes", Want: "at least 1"}
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

// Offset is where the peer writes to.
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

// WriteAt writes b into memory that the peer has mapped, at its offset, and returns
// how much found room: EAGAIN if none did. What is sent after it arrives after it.
//
// C: riowrite.
func (s *Socket) WriteAt(b []byte, offset int64, f Flags) (n int, err error) {
	err = s.with(func(fd int) (err error) {
		n, err = s.lib.IOWrite(fd, b, offset, int(f))
		return err
	})
	return n, err
}
