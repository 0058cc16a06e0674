package mlx5

import "github.com/pureverbs/pureverbs/internal/work"

// repeatBlock marks the head of a layout of interleaved blocks. C: umr_strided_seg_create (rdma-core v44.0,
// providers/mlx5/qp.c:2145).
const repeatBlock = 0x400

// Mkey builds the change of an indirect memory key, and reports whether there was room for it. The caller has checked
// m. k is nil for a key with neither a signature nor an encryption. With a signature the change may take three WQEs.
// The last one completes.
//
// C: mlx5_send_wr_mkey_configure and the setters (rdma-core v44.0, providers/mlx5/qp.c:2821).
func (q *SQ) Mkey(id uint64, flags uint32, m *work.MkeyUpdate, k *SignedKey) bool {
	n, _ := m.Entries()
	if m.Blocks != nil {
		n++
	}
	n = (n + 3) &^ 3
	if k == nil {
		if !q.Begin(work.Mkey, flags, m.Key, umrCtrlSegs+mkeySegs+n) {
			return false
		}
		q.umr(id, m, n, &noChange)
		return true
	}
	c := k.plan(q, q.Rung(), m)
	segs, psvs, first := umrCtrlSegs+mkeySegs+n+c.segs(), c.states(), flags
	if psvs > 0 {
		first &^= sendSignaled
	}
	if !q.roomFor(uint32(segs+4)/4+psvs, 1+psvs) || !q.Begin(work.Mkey, first, m.Key, segs) {
		return false
	}
	k.took(&c)
	q.umr(id, m, n, &c)
	if c.psv {
		putPSVs(q, id, flags, &c)
	}
	return true
}

// noChange is of a key with neither a signature nor an encryption.
var noChange change

// umr ends the WQE of a change, whose layout takes n segments.
func (q *SQ) umr(id uint64, m *work.MkeyUpdate, n int, c *change) {
	q.wqe.inline = true
	mask, access := umrMaskFree|umrMaskKey|c.mask, uint64(0)
	if m.SetAccess {
		mask |= umrMaskAccess
		access = umrAccess(m.Access)
	}
	if _, is := m.Entries(); is {
		mask |= umrMaskLen
	}
	entries := c.segs()
	q.zeros(umrCtrlSegs, umrInline<<56|uint64(n)<<16|uint64(entries), mask)
	q.zeros(1, access<<40|mkeyNoQPN<<8|uint64(uint8(m.Key)), c.flags)
	q.zeros(mkeySegs-1, 0, m.Length())
	putLayout(q, m, n)
	if entries > 0 {
		putBSFs(q, c)
	}
	q.endUMR(id, wcDriver1)
}

// putLayout adds the n segments of a layout.
func putLayout(q *SQ, m *work.MkeyUpdate, n int) {
	left := n
	for i := range m.List {
		putData(q.next(), &m.List[i], m.List[i].Length)
		left--
	}
	if m.Blocks != nil {
		sum := uint64(0)
		for i := range m.Blocks {
			sum += uint64(m.Blocks[i].BytesCount)
		}
		q.zeros(1, sum<<32|repeatBlock, uint64(m.Repeat)<<32|uint64(len(m.Blocks)))
		left--
	}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		q.zeros(1, uint64(b.BytesCount+b.BytesSkip)<<48|uint64(b.BytesCount)<<32|uint64(b.LKey), b.Addr)
		left--
	}
	for ; left > 0; left-- {
		q.zeros(1, 0, 0)
	}
}
