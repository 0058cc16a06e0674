//go:build linux

package engine

import "encoding/binary"

// operands reads the segment of an atomic. The extended atomics carry the size in the modifier (8 | log2(size)-2);
// 4 and 8 bytes are executed.
func (w *wqe) operands(b *segments) bool {
	w.asize, w.smask, w.cmask = 8, ^uint64(0), ^uint64(0)
	masked := w.opcode == opMaskedCS || w.opcode == opMaskedFA
	if masked && w.opmod == 8 {
		w.asize = 4
	} else if w.opmod != 0 && (!masked || w.opmod != 9) {
		return false
	}
	n := 16
	if w.opcode == opMaskedCS && w.asize == 8 {
		n = 32
	}
	s := b.next(n)
	if s == nil {
		return false
	}
	get := func(i int) uint64 {
		if w.asize == 4 {
			return uint64(binary.BigEndian.Uint32(s[4*i:]))
		}
		return binary.BigEndian.Uint64(s[8*i:])
	}
	w.swap = get(0)
	switch w.opcode {
	case opAtomicCS:
		w.cmp = get(1)
	case opMaskedCS:
		w.cmp, w.smask, w.cmask = get(1), get(2), get(3)
	case opMaskedFA:
		w.smask = get(1)
	}
	return true
}

// apply returns the new value of memory that holds old.
func (w *wqe) apply(old uint64) uint64 {
	switch w.opcode {
	case opAtomicFA:
		return old + w.swap
	case opMaskedFA: // a set bit of the boundary ends a field: no carry leaves it
		var sum, carry uint64
		for i := uint(0); i < uint(w.asize)*8; i++ {
			s := old>>i&1 + w.swap>>i&1 + carry
			sum |= s & 1 << i
			carry = s >> 1
			if w.smask>>i&1 != 0 {
				carry = 0
			}
		}
		return sum
	}
	if old&w.cmask != w.cmp&w.cmask {
		return old
	}
	return old&^w.smask | w.swap&w.smask
}

// atomic executes an atomic, in a batch of its own. It is atomic with respect to everything that the engine does, not
// to the program's own processors.
func (e *Engine) atomic(x *exchange) verdict {
	b, w := &e.b, x.w
	if b.wqes > 0 {
		return alone
	}
	var old [8]byte
	if !x.target.zero {
		if b.err = x.target.mem.Read(x.target.va, old[:w.asize]); b.err != nil {
			e.badMemory(x.qp, badSource)
			return halt
		}
	}
	v := binary.NativeEndian.Uint64(old[:])
	if w.asize == 4 {
		v = uint64(binary.NativeEndian.Uint32(old[:]))
	}
	if changed := w.apply(v); changed != v && !x.target.zero {
		var to [8]byte
		if w.asize == 4 {
			binary.NativeEndian.PutUint32(to[:], uint32(changed))
		} else {
			binary.NativeEndian.PutUint64(to[:], changed)
		}
		if b.err = x.target.mem.Write(x.target.va, to[:w.asize]); b.err != nil {
			e.badMemory(x.qp, badSource)
			return halt
		}
	}
	copy(b.tiny[:], old[:])
	inCQE := x.resultInCQE()
	if !inCQE {
		e.dst = append(e.dst[:0], e.src...)
		e.src = append(e.src[:0], piece{n: uint64(w.asize), inl: b.tiny[:w.asize]})
		if v := e.carry(x.qp, w, x.peer.Mem, x.qp.Mem, w.n); v != proceed {
			return v
		}
	}
	e.answered(x, inCQE)
	return executed
}
