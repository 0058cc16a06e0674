package mlx5

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/work"
)

// The changes that a UMR WQE makes, and its requirements. C: MLX5_WQE_UMR_CTRL_* (rdma-core v44.0,
// providers/mlx5/mlx5dv.h:1326).
const (
	umrInline      = 1 << 7 // the translation entry follows
	umrCheckFree   = 1 << 5 // the window must be bound to nothing
	umrTranslation = 1 << 4
	umrCheckQPN    = 1 << 3 // the window must be bound by this QP

	umrMaskLen    = 1 << 0
	umrMaskStart  = 1 << 6
	umrMaskKey    = 1 << 13
	umrMaskQPN    = 1 << 14
	umrMaskAccess = 15 << 18 // local write, remote read, remote write, atomic
	umrMaskFree   = 1 << 29
	umrMaskSigErr = 1 << 9
	umrMaskBSF    = 1 << 12
)

// The mkey context of a UMR WQE. C: struct mlx5_wqe_mkey_context_seg, MLX5_WQE_MKEY_CONTEXT_*.
const (
	mkeyFree        = 1 << 6
	mkeyLocalWrite  = 1 << 3
	mkeyRemoteRead  = 1 << 4
	mkeyRemoteWrite = 1 << 5
	mkeyAtomic      = 1 << 6
	mkeyNoQPN       = 0xffffff

	mkeyBSF     = 1 << 30 // in flags_pd
	sigErrShift = 26      // in flags_pd: the lowest bit of how many wrong signatures the program knows
)

const (
	umrCtrlSegs = 48 / segSize
	mkeySegs    = 64 / segSize
	klmSegs     = 64 / segSize // a translation entry, padded
)

// LocalInv builds the invalidation of a memory window of type 2, and reports whether there was room for it.
func (q *SQ) LocalInv(id uint64, flags, rkey uint32) bool {
	if !q.Begin(abi.IBV_WR_LOCAL_INV, flags, rkey, umrCtrlSegs+mkeySegs) {
		return false
	}
	q.free(abi.IBV_MW_TYPE_2, 0)
	q.endUMR(id, wcLocalInv)
	return true
}

// Bind binds a memory window, or frees it if b.Length is 0, and reports whether there was room for it. The caller has
// checked b.
//
// C: set_bind_wr (rdma-core v44.0, providers/mlx5/qp.c:599).
func (q *SQ) Bind(id uint64, flags uint32, b *work.Bind) bool {
	segs := umrCtrlSegs + mkeySegs
	if b.Length != 0 {
		segs += klmSegs
	}
	if !q.Begin(abi.IBV_WR_BIND_MW, flags, b.Key, segs) {
		return false
	}
	if b.Length == 0 {
		q.free(b.Type, uint8(b.NewKey))
	} else {
		q.bind(b)
	}
	q.endUMR(id, wcBindMW)
	return true
}

// free adds the segments that bind a window to nothing. key is the low byte of its new key.
func (q *SQ) free(windowType uint32, key uint8) {
	check, mask := uint64(0), uint64(0)
	if windowType == abi.IBV_MW_TYPE_2 {
		check, mask = umrCheckQPN, umrMaskQPN
	}
	q.zeros(umrCtrlSegs, (umrInline|umrTranslation|check)<<56, umrMaskFree|umrMaskKey|mask)
	q.zeros(mkeySegs, mkeyFree<<56|mkeyNoQPN<<8|uint64(key), 0)
}

// bind adds the segments that bind a window to memory.
func (q *SQ) bind(b *work.Bind) {
	const octowords = klmSegs << 16
	check, mask, qpn := uint64(0), uint64(0), uint64(mkeyNoQPN<<8)
	if b.Type == abi.IBV_MW_TYPE_2 {
		check, mask, qpn = umrCheckFree, umrMaskQPN, q.qpn
	}
	q.zeros(umrCtrlSegs, (umrInline|umrTranslation|check)<<56|octowords,
		umrMaskFree|umrMaskKey|umrMaskLen|umrMaskStart|umrMaskAccess|mask)
	access, start := umrAccess(b.Access&^abi.IBV_ACCESS_LOCAL_WRITE), b.Addr
	if b.Access&abi.IBV_ACCESS_ZERO_BASED != 0 {
		start = 0
	}
	q.zeros(1, access<<40|qpn|uint64(uint8(b.NewKey)), 0)
	q.zeros(mkeySegs-1, start, b.Length)
	q.zeros(klmSegs, b.Length<<32|uint64(b.LKey), b.Addr)
}

// zeros adds n segments of zeros, except for the first 16 bytes.
func (q *SQ) zeros(n int, first, second uint64) {
	p := q.next()
	put64(p, 0, first)
	put64(p, 8, second)
	for range n - 1 {
		*(*[2]uint64)(q.next()) = [2]uint64{}
	}
}

// endUMR ends a UMR WQE and stores the opcode of its completion, which the CQE does not have. It has at least two
// blocks, and the slot of the second has no other use.
//
//go:norace
func (q *SQ) endUMR(id uint64, completion uint64) {
	q.slot(q.cur + 1).id = completion
	q.Commit(id)
	q.fence = ctrlSmallFence
}

// umrOpcode returns the opcode of the completion of the UMR WQE that begins at block counter.
//
//go:norace
func (q *SQ) umrOpcode(counter uint32) uint32 {
	if op := q.slot(counter + 1).id; op == wcBindMW || op == wcDriver1 {
		return uint32(op)
	}
	return wcLocalInv
}

// rights are those of a key as verbs and as a key context have them.
var rights = [...]struct {
	verbs uint32
	bit   uint64
}{
	{abi.IBV_ACCESS_LOCAL_WRITE, mkeyLocalWrite}, {abi.IBV_ACCESS_REMOTE_READ, mkeyRemoteRead},
	{abi.IBV_ACCESS_REMOTE_WRITE, mkeyRemoteWrite}, {abi.IBV_ACCESS_REMOTE_ATOMIC, mkeyAtomic},
}

// umrAccess returns the rights of a key as a key context has them.
func umrAccess(access uint32) (bits uint64) {
	for _, r := range rights {
		if access&r.verbs != 0 {
			bits |= r.bit
		}
	}
	return bits
}

// verbsAccess is the inverse of umrAccess.
func verbsAccess(bits uint8) (access uint32) {
	for _, r := range rights {
		if uint64(bits)&r.bit != 0 {
			access |= r.verbs
		}
	}
	return access
}
