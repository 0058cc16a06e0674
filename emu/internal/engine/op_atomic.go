//go:build linux

package engine

import "encoding/binary"

// operand is up to 32 bytes of memory or of an operand, in the order of memory. Of 4 bytes there is half a word.
type operand [4]uint64

// operands reads the operands of an atomic, which lie one behind the other. The extended atomics carry the size in the
// modifier: 8 | log2(size)-2, of 4 to 32 bytes.
func (w *wqe) operands(b *segments) bool {
	w.asize = 8
	switch {
	case w.masked() && w.opmod >= 8 && w.opmod <= 11:
		w.asize = 4 << (w.opmod - 8)
	case w.opmod != 0:
		return false
	}
	list := [...]*operand{&w.swap, &w.cmp, &w.smask, &w.cmask}
	given := list[:2]
	switch w.opcode {
	case opMaskedCS:
		given = list[:]
	case opMaskedFA:
		given = []*operand{&w.swap, &w.smask}
	}
	w.smask, w.cmask = operand{^uint64(0)}, operand{^uint64(0)}
	n := int(w.asize)
	s := b.next((len(given)*n + 15) &^ 15)
	if s == nil {
		return false
	}
	for i, v := range given {
		v.from(s[i*n:][:n], binary.BigEndian)
	}
	return true
}

func (w *wqe) masked() bool { return w.opcode == opMaskedCS || w.opcode == opMaskedFA }

// from reads words of an order of bytes.
func (v *operand) from(b []byte, order binary.ByteOrder) {
	if len(b) == 4 {
		v[0] = uint64(order.Uint32(b))
		return
	}
	for i := range len(b) / 8 {
		v[i] = order.Uint64(b[i*8:])
	}
}

// to writes them in that of the program or of the wire.
func (v *operand) to(b []byte, order binary.ByteOrder) {
	if len(b) == 4 {
		order.PutUint32(b, uint32(v[0]))
		return
	}
	for i := range len(b) / 8 {
		order.PutUint64(b[i*8:], v[i])
	}
}

// bigEndianReply reports whether the previous value is returned as big-endian words. With an endianness mode that is
// not 0 this is so for extended atomics of all sizes but 8 bytes.
//
// C: ext_atomic_arg_sizes_be (UCX, src/uct/ib/mlx5/dv/ib_mlx5dv_md.c). No source has the order of the words of 16 and
// 32 bytes: here it is that of memory.
func (w *wqe) bigEndianReply() bool { return w.masked() && w.asize != 8 }

// apply returns the new value of memory that holds old.
func (w *wqe) apply(old operand) (changed operand) {
	n := (w.asize + 7) / 8
	switch w.opcode {
	case opAtomicFA:
		return operand{old[0] + w.swap[0]}
	case opMaskedFA:
		for i := range n {
			changed[i] = addFields(old[i], w.swap[i], w.smask[i], min(w.asize*8, 64))
		}
		return changed
	}
	for i := range n {
		if old[i]&w.cmask[i] != w.cmp[i]&w.cmask[i] {
			return old
		}
		changed[i] = old[i]&^w.smask[i] | w.swap[i]&w.smask[i]
	}
	return changed
}

// addFields adds the fields of a word. A set bit of ends is the last of a field: no carry leaves it.
func addFields(a, b, ends uint64, bits uint32) (sum uint64) {
	var carry uint64
	for i := range bits {
		s := a>>i&1 + b>>i&1 + carry
		sum |= s & 1 << i
		carry = s >> 1
		if ends>>i&1 != 0 {
			carry = 0
		}
	}
	return sum
}

// atomic executes an atomic, in a batch of its own. It is atomic with respect to everything that the engine does, not
// to the program's own processors.
func (rs *responder) atomic(x *exchange) verdict {
	b, w := rs.b, x.w
	if b.wqes > 0 {
		return alone
	}
	old, target := b.tiny[:w.asize], &x.target[0]
	clear(old)
	if !target.zero {
		if b.err = target.mem.Read(target.va, old); b.err != nil {
			rs.req.badMemory(x.qp, badSource)
			return halt
		}
	}
	var v operand
	v.from(old, binary.NativeEndian)
	if changed := w.apply(v); changed != v && !target.zero {
		to := b.tiny[32:][:w.asize]
		changed.to(to, binary.NativeEndian)
		if b.err = target.mem.Write(target.va, to); b.err != nil {
			rs.req.badMemory(x.qp, badSource)
			return halt
		}
	}
	if w.bigEndianReply() {
		v.to(old, binary.BigEndian)
	}
	inCQE := x.resultInCQE()
	if !inCQE {
		rs.lists.dst = append(rs.lists.dst[:0], rs.lists.src...)
		rs.lists.src = append(rs.lists.src[:0], piece{n: uint64(w.asize), inl: b.tiny[:w.asize]})
		if v := rs.req.carry(x.qp, w, x.peer.Mem, x.qp.Mem, w.n); v != proceed {
			return v
		}
	}
	rs.answered(x, inCQE)
	return executed
}
