//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

const (
	mmoDMA = 1 // the modifier. C: MLX5_OPC_MOD_MMO_DMA

	maxCopy = 1 << 25
)

// copyMemory copies local memory: a segment with a place for the adapter's notes, from where, and to where.
func (rq *requester) copyMemory(qp *hca.QP, w *wqe) verdict {
	if rq.b.wqes > 0 {
		return alone
	}
	b, d := w.umr, qp.Context.Device
	if w.opmod != mmoDMA || !qp.Extra.MayCopy || binary.BigEndian.Uint32(b) != 0 {
		return rq.failed(qp, w, synLocalQPOp)
	}
	var n [3]uint64
	var at [3][]piece
	at[0], at[1], at[2] = rq.io.notes[:0], rq.lists.src[:0], rq.lists.dst[:0]
	for i, need := range []hca.Access{hca.AccessLocalWrite, 0, hca.AccessLocalWrite} {
		s := b[16*i:]
		if n[i] = uint64(binary.BigEndian.Uint32(s)); i == 0 {
			n[i] = 64
		}
		var ok bool
		lkey, addr := binary.BigEndian.Uint32(s[4:]), binary.BigEndian.Uint64(s[8:])
		if at[i], ok = rq.lists.local(d, qp.PD, lkey, addr, n[i], need, at[i]); !ok {
			return rq.failed(qp, w, synLocalProt)
		}
	}
	rq.io.notes, rq.lists.src, rq.lists.dst = at[0], at[1], at[2]
	if n[1] != n[2] || n[1] == 0 || n[1] > maxCopy {
		return rq.failed(qp, w, synLocalLength)
	}
	if v := rq.carry(qp, w, qp.Mem, qp.Mem, n[1]); v != proceed {
		return v
	}
	return rq.done(qp, w, n[1])
}
