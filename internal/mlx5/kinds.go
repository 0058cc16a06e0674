package mlx5

import (
	"math/bits"

	"github.com/pureverbs/pureverbs/internal/work"
)

// What the WQE of each kind of work request consists of: how it is written, and how it is read back.

// Add builds one work request and reports whether there was room for it. The caller has checked wr. Those that name an
// object of package ibv other than an AH have methods of their own. inline is the number of bytes to copy into the WQE;
// av is the address of a datagram's address vector, which the AH owns, or 0.
func (q *SQ) Add(wr *SendWR, inline int, av uintptr) bool {
	f := work.FieldsOf(wr.Opcode)
	switch {
	case f&work.Data == 0:
		return q.LocalInv(wr.ID, wr.Flags, wr.InvalidateRKey)
	case q.form == FormFrame:
		return q.Frame(wr, inline, int(q.frameHead))
	}
	segs := operandSegs(f, wr) + len(wr.SGEs)
	if wr.Inline != nil || wr.Flags&sendInline != 0 {
		segs += InlineSegs(inline) - len(wr.SGEs)
	}
	if av != 0 {
		segs += avSize / segSize
	}
	if q.form == FormXRC {
		segs++
	}
	if !q.Begin(wr.Opcode, wr.Flags, wr.ImmOrKey(f), segs) {
		return false
	}
	switch {
	case q.form == FormXRC:
		q.XRC(wr.RemoteSRQN)
	case av == 0:
	case q.form == FormDC:
		q.ToDCT(addrAt(uint64(av)), wr.RemoteQPN, wr.DCKey, wr.DCStream)
	default:
		q.To(addrAt(uint64(av)), wr.RemoteQPN, wr.RemoteQKey)
	}
	q.operands(f, wr)
	switch {
	case wr.Inline != nil:
		q.Inline(wr.Inline)
	case wr.Flags&sendInline != 0:
		q.InlineFrom(wr.SGEs, inline)
	default:
		for k := range wr.SGEs {
			q.Data(&wr.SGEs[k])
		}
	}
	q.Commit(wr.ID)
	return true
}

// operandSegs returns the number of segments between the address and the data, which only some opcodes have.
func operandSegs(f work.Fields, wr *SendWR) (n int) {
	if f&work.Remote != 0 {
		n++
	}
	if f&work.Atomic != 0 {
		n++
	}
	if f&work.Masked != 0 {
		n += maskedSegs(wr.Opcode, wr.Masked)
	}
	return n
}

// operands adds them.
func (q *SQ) operands(f work.Fields, wr *SendWR) {
	if f&work.Remote != 0 {
		q.Remote(wr.Remote.Addr, wr.Remote.RKey)
	}
	switch {
	case f&work.Swap != 0:
		q.Atomic(wr.Swap, wr.CompareAdd)
	case f&work.Atomic != 0:
		q.Atomic(wr.CompareAdd, 0)
	case f&work.Masked != 0:
		q.Masked(wr.Opcode, wr.Masked)
	}
}

// maskedSegs returns the number of segments that the operands of an atomic with masks take.
func maskedSegs(opcode uint32, m *work.MaskedAtomic) int {
	if opcode == work.MaskedFetchAdd {
		return int(m.Bytes()) * 2 / segSize
	}
	return int(m.Bytes()) * 4 / segSize
}

// Masked adds the operands of an atomic with masks, one behind the other, each as words in the order of memory. A field
// to add to ends with its word at the latest: no source documents where the carry of a longer one goes.
//
// C: ext_cmp_swp, ext_fetch_add (libmlx5 of MLNX_OFED 4.9, src/qp.c:728).
func (q *SQ) Masked(opcode uint32, m *work.MaskedAtomic) {
	n := m.Bytes() / 8
	q.wqe.mod = extAtomic | uint8(bits.Len32(n))
	if opcode == work.MaskedFetchAdd {
		ends := m.Mask
		for i := range ends {
			ends[i] |= 1 << 63
		}
		q.words(n, &m.SwapAdd, &ends)
		return
	}
	q.words(n, &m.SwapAdd, &m.Compare)
	q.words(n, &m.Mask, &m.CompareMask)
}

// words adds the first n words of a and then those of b.
func (q *SQ) words(n uint32, a, b *[4]uint64) {
	if n == 1 {
		putAtomic(q.next(), a[0], b[0])
		return
	}
	for _, v := range [...]*[4]uint64{a, b} {
		for i := uint32(0); i < n; i += 2 {
			putAtomic(q.next(), v[i], v[i+1])
		}
	}
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
		w.copied(&s)
	default:
		w.address(&s, form, uint16(tail>>40))
		w.operands(&s, f, uint8(head>>56))
		w.data(&s)
	}
	w.Short = w.Short || s.short
	return w
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
