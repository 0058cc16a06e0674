//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// A tag matching segment. C: struct mlx5_wqe_tm_seg, MLX5_TM_OPCODE_*, MLX5_SRQ_FLAG_TM_*.
const (
	tagSegment = 32

	tagNOP    = 0
	tagAppend = 1
	tagRemove = 2

	tagCount = 1 << 6 // sw_cnt counts
	tagCQE   = 1 << 7 // a completion is asked for

	tagSuccess = 1 << 31
)

// tagMatch changes the tag list of an SRQ, in a batch of its own: what the SRQ's command QP does, which is connected to
// itself.
func (rq *requester) tagMatch(qp *hca.QP, w *wqe) verdict {
	if rq.b.wqes > 0 {
		return alone
	}
	s, b := qp.SRQ, w.umr
	if s == nil || s.Tags == 0 || qp.Attr.DestQPN != qp.Num || len(b) < tagSegment {
		return rq.failed(qp, w, synLocalQPOp)
	}
	r := &s.Run.Tags
	index := binary.BigEndian.Uint16(b[2:])
	if b[1]&tagCount != 0 {
		handled := binary.BigEndian.Uint16(b[6:])
		if int16(r.HW-handled) < 0 {
			rq.strict.violateQP(qp, RuleTagCount, ", WQE %d: %d of %d unexpected messages", w.idx, handled, r.HW)
		}
		r.Sync(handled)
	}
	op, success := uint8(tmNOP), uint32(tagSuccess)
	switch b[0] >> 4 {
	case tagNOP:
	case tagAppend:
		t := hca.Tag{Tag: binary.BigEndian.Uint64(b[16:]), Mask: binary.BigEndian.Uint64(b[24:])}
		if len(b) < tagSegment+len(t.Data) {
			return rq.failed(qp, w, synLocalQPOp)
		}
		copy(t.Data[:], b[tagSegment:])
		if !r.Add(t, index) {
			rq.strict.violateQP(qp, RuleTagList, ", WQE %d: place %d", w.idx, r.Next)
			return rq.failed(qp, w, synLocalQPOp)
		}
		op = tmAppend
	case tagRemove:
		if op = tmRemove; !r.Remove(index) {
			success = 0
		}
	default:
		return rq.failed(qp, w, synLocalQPOp)
	}
	rq.finish(qp, w, 0, 0)
	if b[1]&tagCQE != 0 {
		qp.Run.Signaled = qp.Run.Tail
		p := rq.comps.cqe(s.CQ, qp, cqeNoPacket, s.UIdx, opTagMatch, w.idx).tmCQE(op, index, nil)
		put32(p.img[:], success)
		binary.BigEndian.PutUint16(p.img[4:], r.HW)
	}
	return executed
}
