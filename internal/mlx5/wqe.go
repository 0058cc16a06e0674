package mlx5

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/work"
)

// Form describes the segments of a send queue's WQEs between the control segment and those of the opcode.
type Form uint8

// The forms.
const (
	FormConnected Form = iota // nothing
	FormDatagram              // an address vector and a Q_Key
	FormDC                    // an address vector and a DC access key
	FormXRC                   // the number of an SRQ
	FormFrame                 // an Ethernet segment
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

// verbsOps holds, by the device's opcode, the verbs opcode. Those that are posted as a UMR are distinguished by umrOf.
var verbsOps = func() (ops [256]uint32) {
	for i := range ops {
		ops[i] = NoOpcode
	}
	for op := range sendOps {
		if o := &sendOps[op]; o.fields != 0 && o.device != opUMR {
			ops[o.device] = uint32(op)
		}
	}
	return ops
}()

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

// ParseWQE reads a send WQE at the beginning of b: what putControl and its neighbours write, and libmlx5 as well.
// completion is the opcode that endUMR stored for a UMR, 0 if that is not known.
func ParseWQE(b []byte, form Form, completion uint64) (w WQE) {
	s := segments{b: b}
	head, tail := s.words()
	if s.short {
		return WQE{SendWR: work.SendWR{Opcode: NoOpcode}, Short: true}
	}
	n := int(head&maxDS) * segSize
	s.b = b[segSize:max(min(n, len(b)), segSize)]
	w.Short = n > len(b) || n < segSize
	w.Index, w.Device, w.QPN = uint16(head>>40), uint8(head>>32), uint32(head>>8)&numberMask
	w.Opcode = verbsOps[w.Device]
	if w.Device == opUMR {
		w.Opcode = s.umrOf(completion)
	}
	fm, imm := uint8(tail>>32), uint32(tail)
	if fm&ctrlCQUpdate != 0 {
		w.Flags |= sendSignaled
	}
	if fm&ctrlSolicited != 0 {
		w.Flags |= sendSolicited
	}
	if fm&ctrlFence != 0 {
		w.Flags |= sendFence
	}
	f := work.FieldsOf(w.Opcode)
	switch {
	case f&work.Imm != 0:
		w.Imm = imm
	case f&work.InvalidateRKey != 0:
		w.InvalidateRKey = imm
	}
	switch {
	case w.Opcode == NoOpcode:
		return w
	case w.Device == opUMR:
		w.change(&s, imm)
	case f&work.Copy != 0:
		s.next(segSize) // where the device notes something
		w.data(&s)
		if len(w.SGEs) == 2 {
			w.SGEs[0], w.SGEs[1] = w.SGEs[1], w.SGEs[0]
		}
	default:
		w.address(&s, form, uint16(tail>>40))
		w.operands(&s, f, uint8(head>>56))
		w.data(&s)
	}
	w.Short = w.Short || s.short
	return w
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

// operands reads the address in the peer's memory, and what is to be done with it.
func (w *WQE) operands(s *segments, f work.Fields, mod uint8) {
	if f&work.Remote != 0 {
		addr, key := s.words()
		w.Remote = work.RemoteAddr{Addr: addr, RKey: uint32(key >> 32)}
	}
	switch {
	case f&work.Swap != 0:
		w.Swap, w.CompareAdd = s.words()
	case f&work.Atomic != 0:
		w.CompareAdd, _ = s.words()
	case f&work.Masked != 0:
		n := uint32(1)
		if mod&extAtomic != 0 {
			n = max(uint32(1)<<(mod&3)>>1, 1)
		}
		m := &work.MaskedAtomic{Size: n * 8}
		w.Masked = m
		if w.Opcode == work.MaskedFetchAdd {
			s.masked(n, &m.SwapAdd, &m.Mask)
			return
		}
		s.masked(n, &m.SwapAdd, &m.Compare)
		s.masked(n, &m.Mask, &m.CompareMask)
	}
}

// masked reads n words of a and then as many of b.
func (s *segments) masked(n uint32, a, b *[4]uint64) {
	if n == 1 {
		a[0], b[0] = s.words()
		return
	}
	for _, v := range [...]*[4]uint64{a, b} {
		for i := uint32(0); i < n; i += 2 {
			v[i], v[i+1] = s.words()
		}
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
