//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

const speculate = 24 // blocks read together with the doorbell record

// spansOf appends where n entries of a queue are from entry at on, around its end.
func spansOf(v []guest.IOV, q *hca.Ring, at, n uint32) []guest.IOV {
	i := at & (q.Count - 1)
	first := min(n, q.Count-i)
	v = append(v, guest.IOV{Base: q.Base + uint64(i)<<q.Shift, Len: uint64(first) << q.Shift})
	if first < n {
		v = append(v, guest.IOV{Base: q.Base, Len: uint64(n-first) << q.Shift})
	}
	return v
}

// fetch reads blocks of the send queue from at on, and the doorbell record before them if a doorbell was seen.
func (sn *sendQueues) fetch(qp *hca.QP, at uint32) bool {
	r, w := &qp.Run, sn.win
	n := min(qp.SQ.Count, uint32(len(w.buf))>>blockShift)
	if r.Look {
		n = min(n, speculate)
	} else {
		n = min(n, max(r.Announced-at, maxWQE>>blockShift+1))
	}
	v := sn.io.win[:0]
	b := w.buf[:n<<blockShift]
	if r.Look {
		v = append(v, guest.IOV{Base: qp.DB + 4, Len: 4})
		b = sn.io.look[:4+len(b)]
	}
	v = spansOf(v, &qp.SQ, at, n)
	w.qp, w.from, w.n = qp, at, 0
	if err := qp.Mem.ReadV(b, v); err != nil {
		r.Look = false
		if err == guest.ErrFault && qp.State > hca.Init {
			sn.strict.unreadable(qp, "send")
			sn.states.fatal(qp)
		}
		return false
	}
	w.n = n
	if r.Look {
		r.Look = false
		copy(w.buf[:], b[4:])
		sn.announce(qp, binary.BigEndian.Uint16(b[2:]))
	}
	w.n = min(n, r.Announced-at) // what comes after may be written yet
	return true
}

// load puts the WQE at a block of the send queue in w.raw, in one piece, and reads its control segment. Its size may
// be bad.
func (sn *sendQueues) load(qp *hca.QP, at uint32) bool {
	win, w := sn.win, &sn.w
	for try := 0; ; try++ {
		have := at - win.from
		if win.qp == qp && have < win.n {
			b := win.buf[have<<blockShift : win.n<<blockShift]
			size := int(b[7]&0x3f) * 16
			if size <= len(b) || uint32(size+63)>>blockShift > qp.Run.Announced-at {
				copy(w.raw[:max(size, 16)], b)
				w.control()
				return true
			}
		}
		if try > 0 || !sn.fetch(qp, at) {
			return false
		}
	}
}

// runs reports whether a QP's send queue executes.
func (sn *sendQueues) runs(qp *hca.QP) bool {
	r := &qp.Run
	return r.Wait == waitNone && !r.Dead && qp.State == hca.RTS
}

// announce follows a send doorbell record after a doorbell.
func (sn *sendQueues) announce(qp *hca.QP, rec uint16) {
	r := &qp.Run
	d := uint32(rec - uint16(r.Announced))
	if d == 0 || qp.SQ.Count == 0 {
		return
	}
	if h := sn.hooks.AtDoorbell; h != nil && h(qp) == fault.DoorbellLost {
		r.Lost = true
		return
	}
	if sn.hooks.Trace != nil {
		sn.tr.traceDoorbell(qp, rec, d)
	}
	r.Lost = false
	sn.strict.announced(qp)
	if qp.State == hca.Reset { // its library clears the record in a moment; strict mode knows from the doorbell itself
		return
	}
	if qp.State < hca.RTS {
		sn.strict.sendState(qp)
	}
	r.Announced += d
	if r.Announced-r.Tail > qp.SQ.Count {
		sn.strict.violateQP(qp, RuleSQAhead, ": %d blocks are announced, the send queue has %d", r.Announced-r.Tail,
			qp.SQ.Count)
		r.Tail = r.Announced
		sn.states.fatal(qp)
		return
	}
	sn.ready.push(qp)
}
