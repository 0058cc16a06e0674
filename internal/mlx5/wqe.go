package mlx5

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/work"
)

// NoOpcode is the verbs opcode of a WQE that no work request is posted as.
const NoOpcode = ^uint32(0)

// WQE is the decoded content of a send WQE. It is read from memory that anything may have overwritten, and so may have
// any content.
type WQE struct {
	// SendWR has the fields of the work request that are in the WQE. The flag Inline means that data is in the WQE, and
	// the flag Signaled that it asks for a completion. An SGE of no bytes has no place in a WQE. Of TSO there is the
	// MSS.
	work.SendWR

	Index     uint16 // of its first block, as completions name it
	QPN       uint32
	Device    uint8      // the device's opcode
	InlineLen uint32     // bytes of data that are in the WQE
	HeaderLen uint32     // bytes of a frame's header that do
	Change    *work.Bind // of a key, unless it is only invalidated
	Short     bool       // it ends before its announced end
}

// segments are the rest of a WQE.
type segments struct {
	b     []byte
	short bool
}

// next returns the next n bytes, nil if there are fewer.
func (s *segments) next(n int) []byte {
	if n > len(s.b) {
		s.b, s.short = nil, true
		return nil
	}
	b := s.b[:n]
	s.b = s.b[n:]
	return b
}

// words returns the next segment as two words.
func (s *segments) words() (first, second uint64) {
	if b := s.next(segSize); b != nil {
		return binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	}
	return 0, 0
}

// address reads what the form has.
func (w *WQE) address(s *segments, form Form, stream uint16) {
	switch form {
	case FormDatagram, FormDC:
		b := s.next(avSize)
		if b == nil {
			return
		}
		w.RemoteQPN = binary.BigEndian.Uint32(b[8:]) & numberMask
		if form == FormDC {
			w.DCKey, w.DCStream = binary.BigEndian.Uint64(b), stream
		} else {
			w.RemoteQKey = binary.BigEndian.Uint32(b)
		}
	case FormXRC:
		first, _ := s.words()
		w.RemoteSRQN = uint32(first >> 32)
	case FormFrame:
		b := s.next(segSize)
		if b == nil {
			return
		}
		if b[4]&ethChecksums != 0 {
			w.Flags |= sendIPCsum
		}
		n := binary.BigEndian.Uint16(b[12:])
		if work.FieldsOf(w.Opcode)&work.TSO != 0 {
			w.TSO = &work.TSOHeader{MSS: binary.BigEndian.Uint16(b[6:])}
		}
		w.HeaderLen = uint32(n)
		s.next((max(int(n), ethFirst) - ethFirst + segSize - 1) &^ (segSize - 1))
	}
}

// copied reads a copy of local memory.
func (w *WQE) copied(s *segments) {
	s.next(segSize) // where the device notes something
	w.data(s)
	if len(w.SGEs) == 2 {
		w.SGEs[0], w.SGEs[1] = w.SGEs[1], w.SGEs[0]
	}
}

// data reads data segments up to the end of the WQE.
func (w *WQE) data(s *segments) {
	for len(s.b) >= 4 && !s.short {
		n := binary.BigEndian.Uint32(s.b)
		if n&inlineSeg != 0 {
			w.Flags |= sendInline
			n &^= inlineSeg
			w.InlineLen += n
			s.next((4 + int(n) + segSize - 1) &^ (segSize - 1))
		} else if b := s.next(segSize); b != nil {
			w.SGEs = append(w.SGEs, sgeAt(b))
		}
	}
}

// sgeAt reads a data segment.
func sgeAt(b []byte) SGE {
	be := binary.BigEndian
	return SGE{Addr: be.Uint64(b[8:]), Length: be.Uint32(b), LKey: be.Uint32(b[4:])}
}

// umrOf returns the opcode of a UMR whose control segment has been read. Without a completion only the WQE is left, in
// which the bind of a window to nothing, with a key that ends with 0, is an invalidation.
func (s *segments) umrOf(completion uint64) uint32 {
	switch completion {
	case wcLocalInv:
		return abi.IBV_WR_LOCAL_INV
	case wcBindMW:
		return abi.IBV_WR_BIND_MW
	case wcDriver1:
		return work.Mkey
	}
	const least = (umrCtrlSegs + mkeySegs) * segSize
	switch {
	case len(s.b) < least:
		return NoOpcode
	case s.b[0]&umrTranslation == 0:
		return work.Mkey
	case s.b[0]&umrCheckQPN != 0 && s.b[umrCtrlSegs*segSize+7] == 0:
		return abi.IBV_WR_LOCAL_INV
	}
	return abi.IBV_WR_BIND_MW
}

// change reads what a UMR does to a key.
func (w *WQE) change(s *segments, key uint32) {
	ctrl, ctx := s.next(umrCtrlSegs*segSize), s.next(mkeySegs*segSize)
	if ctx == nil || w.Opcode == abi.IBV_WR_LOCAL_INV {
		return
	}
	be := binary.BigEndian
	c := &work.Bind{Key: key, NewKey: key&^0xff | uint32(ctx[7]), Type: abi.IBV_MW_TYPE_1}
	w.Change = c
	if ctrl[0]&(umrCheckFree|umrCheckQPN) != 0 {
		c.Type = abi.IBV_MW_TYPE_2
	}
	mask := be.Uint64(ctrl[8:])
	if mask&umrMaskAccess != 0 {
		c.Access = verbsAccess(ctx[2])
	}
	if mask&umrMaskLen != 0 {
		c.Length = be.Uint64(ctx[24:])
	}
	if w.Opcode != abi.IBV_WR_BIND_MW || c.Length == 0 {
		return
	}
	if b := s.next(segSize); b != nil {
		e := sgeAt(b)
		c.LKey, c.Addr = e.LKey, e.Addr
		if be.Uint64(ctx[16:]) != e.Addr {
			c.Access |= abi.IBV_ACCESS_ZERO_BASED
		}
	}
}

// ParseRecv reads the scatter list of a receive WQE.
func ParseRecv(b []byte) (sges []SGE) {
	for ; len(b) >= segSize; b = b[segSize:] {
		s := sgeAt(b)
		if s.LKey == invalidLKey && s.Length == 0 {
			break
		}
		sges = append(sges, s)
	}
	return sges
}
