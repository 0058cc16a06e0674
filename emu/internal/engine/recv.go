//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Flags of a QP's and an SRQ's creation. C: MLX5_QP_FLAG_*, MLX5_SRQ_FLAG_SIGNATURE.
const (
	qpSignature    = 1 << 0
	qpScatterCQE   = 1 << 1
	qpAllowScatter = 1 << 8
	readAhead      = 1024 // bytes of receives read by one call
)

// ahead returns how many entries are read by one call.
func ahead(r *hca.Ring) uint32 { return min(r.Count, max(uint32(readAhead)>>r.Shift, 1)) }

// receive finds the next receive of a QP, or of the SRQ if there is one. Nothing is consumed.
func (rv *receives) receive(qp *hca.QP, srq *hca.SRQ) (recvEntry, bool) {
	if srq != nil {
		return rv.srqReceive(srq)
	}
	r := &qp.Run
	if qp.RQ.Count == 0 {
		return recvEntry{}, false
	}
	at := nextReceive(r)
	if at-r.RQFrom >= r.RQLen {
		if !rv.rqFetch(qp, at) || r.RQLen == 0 {
			return recvEntry{}, false
		}
	}
	size := uint32(1) << qp.RQ.Shift
	b := r.RQ[(at-r.RQFrom)*size:][:size]
	if qp.Flags&qpSignature != 0 && size > 16 {
		b = b[16:]
	}
	return recvEntry{b, uint16(at)}, true
}

// nextReceive returns the receive that is used next: the one at the head, unless it and another one were swapped.
func nextReceive(r *hca.QPRun) uint32 {
	if d := r.Head - r.Swap; r.Swapped && d < 2 {
		return r.Swap + 1 - d
	}
	return r.Head
}

// rqFetch reads the receive doorbell record and the entries from one on.
func (rv *receives) rqFetch(qp *hca.QP, from uint32) bool {
	r, q := &qp.Run, &qp.RQ
	n := ahead(q)
	if r.RQ == nil {
		r.RQ = make([]byte, 4+n<<q.Shift)
	}
	v := spansOf(append(rv.io.win[:0], guest.IOV{Base: qp.DB, Len: 4}), q, from, n)
	r.RQLen = 0
	if err := qp.Mem.ReadV(r.RQ, v); err != nil {
		if err == guest.ErrFault {
			rv.strict.unreadable(qp, "receive")
			rv.states.fatal(qp)
		}
		return false
	}
	rv.rqPosted(qp, binary.BigEndian.Uint16(r.RQ[2:]))
	copy(r.RQ, r.RQ[4:])
	r.RQFrom, r.RQLen = from, min(n, r.Posted-from)
	return true
}

// rqPosted follows a receive doorbell record.
func (rv *receives) rqPosted(qp *hca.QP, rec uint16) {
	r := &qp.Run
	d := uint32(rec - uint16(r.Posted))
	if d == 0 {
		return
	}
	r.Posted += d
	rv.strict.receives(qp)
	r.Posted = r.Head + min(r.Posted-r.Head, qp.RQ.Count)
}

// consume uses up the receive that was found.
func (rv *receives) consume(qp *hca.QP, srq *hca.SRQ) {
	if srq == nil {
		qp.Run.Head++
		return
	}
	rv.srqConsume(srq)
}

// scatterList puts where n bytes of a message go in dst, after skip bytes of the list. It returns the syndrome of
// what is wrong with the receive, or 0.
func (ls *lists) scatterList(d *hca.Device, pd *hca.PD, segs []byte, skip, n uint64) uint8 {
	ls.dst = ls.dst[:0]
	for ; n > 0 && len(segs) >= 16; segs = segs[16:] {
		size, lkey := uint64(binary.BigEndian.Uint32(segs)&^inlineBit), binary.BigEndian.Uint32(segs[4:])
		if size == 0 {
			if lkey == invalidLKey {
				break
			}
			continue
		}
		addr := binary.BigEndian.Uint64(segs[8:])
		from := len(ls.dst)
		var ok bool
		if ls.dst, ok = ls.local(d, pd, lkey, addr, size, hca.AccessLocalWrite, ls.dst); !ok {
			return synLocalProt
		}
		found := ls.dst[from:]
		ls.dst = ls.dst[:from]
		for _, p := range found {
			if skip > 0 {
				k := min(skip, p.n)
				skip -= k
				p.va, p.n = p.va+k, p.n-k
			}
			if p.n = min(p.n, n); p.n > 0 {
				ls.dst = append(ls.dst, p)
				n -= p.n
			}
		}
	}
	if n > 0 {
		return synLocalLength
	}
	return 0
}
