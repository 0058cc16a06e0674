//go:build linux

package engine

import (
	"encoding/binary"
	"slices"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// target finds the DCT that a work request of a DCI names. It returns nil if nothing answers there: a request with a
// wrong key is dropped like one of a wrong P_Key, so that the requester tries again and gives up.
func (rt *routes) target(qp *hca.QP, w *wqe) *hca.QP {
	from := qp.Port()
	if from == nil {
		return nil
	}
	a := addressOf(w.av, from)
	p := rt.named(from, &a)
	if p == nil || p.Type != hca.DCT || p.Context.Dead || p.State != hca.RTR ||
		a.grh && p.Attr.AH.Global && !sameWire(from, p, a.sgid) || !samePartition(qp, p) ||
		binary.BigEndian.Uint64(w.av) != p.DC.AccessKey {
		return nil
	}
	return p
}

// streamFailed notes that a stream of a DCI is in error, after which all its work requests are flushed while others go
// on. It reports whether the QP survives: as many such streams as it was made for, or a malformed WQE, break it.
func streamFailed(qp *hca.QP, w *wqe, syndrome uint8) bool {
	r := &qp.Run
	if syndrome == synLocalQPOp {
		return false
	}
	if !slices.Contains(r.BadStreams, w.stream) {
		r.BadStreams = append(r.BadStreams, w.stream)
	}
	return len(r.BadStreams) < 1<<qp.DC.ErroredStreams
}

// StreamReset lets a stream of a DCI go on after an error.
func (e *Engine) StreamReset(qp *hca.QP, stream uint16) {
	qp.Run.BadStreams = slices.DeleteFunc(qp.Run.BadStreams, func(s uint16) bool { return s == stream })
}
