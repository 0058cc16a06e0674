//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Bits of a UMR's control segment and key context. C: MLX5_WQE_UMR_CTRL_FLAG_*, _MKEY_MASK_*, MLX5_WQE_MKEY_CONTEXT_*.
const (
	umrInline    = 1 << 7
	umrCheckFree = 1 << 5
	umrCheckQPN  = 1 << 3

	maskLen  = 1 << 0
	maskAddr = 1 << 6
	maskFree = 1 << 29

	contextFree = 1 << 6
)

var umrAccess = [...]struct {
	bit    byte
	mask   uint64
	access hca.Access
}{
	{1 << 3, 1 << 18, hca.AccessLocalWrite},
	{1 << 4, 1 << 19, hca.AccessRemoteRead},
	{1 << 5, 1 << 20, hca.AccessRemoteWrite},
	{1 << 6, 1 << 21, hca.AccessRemoteAtomic},
}

// umr executes what binds and invalidates windows, in a batch of its own: control segment (48 bytes), key context (64),
// and for a bind one translation entry.
func (rq *requester) umr(qp *hca.QP, w *wqe) verdict {
	if rq.b.wqes > 0 {
		return alone
	}
	b := w.umr
	if len(b) < 112 || b[0]&umrInline == 0 {
		return rq.failed(qp, w, synLocalQPOp)
	}
	flags, mask, ctx := b[0], binary.BigEndian.Uint64(b[8:]), b[48:112]
	key := qp.Context.Device.KeyAt(w.imm >> 8)
	if key != nil && key.Kind == hca.KeyIndirect {
		return rq.configure(qp, w, key)
	}
	if key == nil || key.PD != qp.PD || key.Kind != hca.KeyMW1 && key.Kind != hca.KeyMW2 || mask&maskFree == 0 {
		return rq.failed(qp, w, synMWBind)
	}
	if ctx[0]&contextFree != 0 { // invalidate
		if key.Key != w.imm || flags&umrCheckQPN != 0 && (key.Free || key.QPN != qp.Num) {
			return rq.failed(qp, w, synMWBind)
		}
		if key.Kind == hca.KeyMW2 || !key.Free {
			key.Unbind()
		}
		return rq.done(qp, w, 0)
	}
	n := binary.BigEndian.Uint64(ctx[24:])
	if n == 0 && key.Kind == hca.KeyMW1 && mask&maskLen == 0 { // a bind of no length
		key.Unbind()
		key.Key = key.Key&^0xff | uint32(ctx[7])
		return rq.done(qp, w, 0)
	}
	if len(b) < 128 || mask&maskLen == 0 || mask&maskAddr == 0 {
		return rq.failed(qp, w, synLocalQPOp)
	}
	return rq.bind(qp, w, key)
}

// bind binds a window to the memory of its translation entry.
func (rq *requester) bind(qp *hca.QP, w *wqe, key *hca.MKey) verdict {
	b := w.umr
	flags, mask, ctx, klm := b[0], binary.BigEndian.Uint64(b[8:]), b[48:112], b[112:128]
	n, addr := binary.BigEndian.Uint64(ctx[24:]), binary.BigEndian.Uint64(ctx[16:])
	variant := binary.BigEndian.Uint32(ctx[4:])
	mr := qp.Context.Device.Key(binary.BigEndian.Uint32(klm[4:]))
	va := binary.BigEndian.Uint64(klm[8:])
	if mr == nil || mr.Kind != hca.KeyMR || mr.PD != qp.PD || mr.Access&hca.AccessMWBind == 0 {
		return rq.failed(qp, w, synMWBind)
	}
	if flags&umrCheckFree != 0 && !key.Free {
		return rq.failed(qp, w, synMWBind)
	}
	var access hca.Access
	for _, a := range umrAccess {
		if mask&a.mask != 0 && ctx[2]&a.bit != 0 {
			access |= a.access
		}
	}
	need := hca.Access(0)
	if access&(hca.AccessRemoteWrite|hca.AccessRemoteAtomic) != 0 {
		need = hca.AccessLocalWrite
	}
	at, ok := mr.Resolve(va, n, need)
	if !ok || n != uint64(binary.BigEndian.Uint32(klm)) || key.Kind == hca.KeyMW2 && variant>>8 != qp.Num {
		return rq.failed(qp, w, synMWBind)
	}
	qpn := uint32(0)
	if key.Kind == hca.KeyMW2 {
		qpn = qp.Num
	}
	key.Bind(mr, at, addr, n, access, qpn, uint8(variant))
	return rq.done(qp, w, 0)
}

// invalidate is what a SEND with invalidate does to a key of the responder.
func invalidate(peer *hca.QP, rkey uint32) bool {
	k := peer.Context.Device.Key(rkey)
	if k != nil && k.Kind == hca.KeyIndirect && k.Indirect.PeerMayFree && k.PD == peer.PD {
		k.Free = true
		return true
	}
	if k == nil || k.Kind != hca.KeyMW2 || k.Free || k.PD != peer.PD || k.QPN != peer.Num {
		return false
	}
	k.Unbind()
	return true
}
