//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/internal/emu/guest"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

type memory = guest.Mem

// resultInCQE tells if the result of a READ or atomic goes into its completion.
func resultInCQE(qp *hca.QP, w *wqe) bool {
	return w.n > 0 && w.n <= 64 && qp.Type == hca.RC && qp.Flags&qpScatterCQE != 0 && (qp.SigAll || qp.Flags&qpAllowScatter != 0) &&
		w.flags&flagCEMask >= flagCEAlways && w.n <= uint64(qp.SendCQ.CQESize/2) && w.opcode != opMaskedCS && w.opcode != opMaskedFA
}

// read executes an RDMA READ.
func (e *Engine) read(qp *hca.QP, w *wqe, peer *hca.QP, from piece, packets uint32) verdict {
	b := &e.b
	inCQE := resultInCQE(qp, w)
	e.dst = append(e.dst[:0], e.src...)
	e.src = append(e.src[:0], from)
	if inCQE {
		if b.wqes > 0 {
			return alone
		}
		if !b.small(peer.Mem, e.src, w.n) {
			e.badMemory(qp, badSource)
			return halt
		}
	} else if v := e.carry(qp, w, peer.Mem, qp.Mem, peer); v != taken {
		return v
	}
	peer.Run.EPSN = (peer.Run.EPSN + packets) & 0xffffff
	p := e.finish(qp, w, w.n, packets)
	if p != nil && inCQE {
		p.inline(b.tiny[:w.n])
	}
	return taken
}

// atomicOp executes an atomic on an empty batch. It is atomic to everything that the engine does, not to the program's own processors.
func (e *Engine) atomicOp(qp *hca.QP, w *wqe, peer *hca.QP, at piece, packets uint32) verdict {
	b := &e.b
	var old [8]byte
	m := old[:w.asize]
	if !at.zero {
		if b.err = peer.Mem.Read(at.va, m); b.err != nil {
			e.badMemory(qp, badSource)
			return halt
		}
	}
	v := binary.NativeEndian.Uint64(old[:])
	if w.asize == 4 {
		v = uint64(binary.NativeEndian.Uint32(old[:]))
	}
	if nv := w.apply(v); nv != v && !at.zero {
		var to [8]byte
		if w.asize == 4 {
			binary.NativeEndian.PutUint32(to[:], uint32(nv))
		} else {
			binary.NativeEndian.PutUint64(to[:], nv)
		}
		if b.err = peer.Mem.Write(at.va, to[:w.asize]); b.err != nil {
			e.badMemory(qp, badSource)
			return halt
		}
	}
	copy(b.tiny[:], old[:])
	inCQE := resultInCQE(qp, w)
	if !inCQE {
		e.dst = append(e.dst[:0], e.src...)
		e.src = append(e.src[:0], piece{n: uint64(w.asize), inl: b.tiny[:w.asize]})
		if v := e.carry(qp, w, peer.Mem, qp.Mem, peer); v != taken {
			return v
		}
	}
	peer.Run.EPSN = (peer.Run.EPSN + packets) & 0xffffff
	p := e.finish(qp, w, uint64(w.asize), packets)
	if p != nil && inCQE {
		p.inline(b.tiny[:w.asize])
	}
	return taken
}
