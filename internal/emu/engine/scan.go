//go:build linux

package engine

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/emu/guest"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

const (
	armSlot   = 0x20 / 8
	firstSlot = 0x800 / 8
	slotStep  = 0x100 / 8
	slots     = 8
	lookChunk = 256
)

// scan takes the doorbells of a page. A slot keeps only the last of several doorbells, so that each hit means: look at every queue of the page.
func (e *Engine) scan(page *hca.UAR) (hit bool) {
	p := (*[512]uint64)(unsafe.Pointer(unsafe.SliceData(page.Page)))
	if atomic.LoadUint64(&p[armSlot]) != 0 {
		atomic.SwapUint64(&p[armSlot], 0)
		e.arms(page.Context)
		hit = true
	}
	rung := false
	for s := range slots {
		at := &p[firstSlot+s*slotStep]
		if atomic.LoadUint64(at) == 0 {
			continue
		}
		v := atomic.SwapUint64(at, 0)
		rung = true
		if e.watching() {
			e.checkDoorbell(page, s, v)
		}
	}
	if rung {
		e.look(page)
		hit = true
	}
	return hit
}

// look reads the send doorbell records of a page's QPs. For a single QP that is left to exec, which reads WQEs by the same call.
func (e *Engine) look(page *hca.UAR) {
	qps := page.QPs
	if len(qps) == 1 {
		if qps[0].SQ.Count > 0 {
			qps[0].Run.Look = true
			e.push(qps[0])
		}
		return
	}
	for len(qps) > 0 {
		n := min(len(qps), lookChunk)
		e.records(qps[:n], func(qp *hca.QP, rq, sq uint16) { e.announce(qp, sq) })
		qps = qps[n:]
	}
}

// records reads the doorbell records of up to lookChunk QPs.
func (e *Engine) records(qps []*hca.QP, do func(qp *hca.QP, rq, sq uint16)) {
	s := &e.io
	for len(qps) > 0 {
		m := qps[0].Mem
		s.riov = s.riov[:0]
		n := 0
		for ; n < len(qps) && n < lookChunk && qps[n].Mem == m; n++ {
			s.riov = append(s.riov, guest.IOV{Base: qps[n].DB, Len: 8})
		}
		err := m.ReadV(s.rec[:8*n], s.riov)
		for i, qp := range qps[:n] {
			rec := s.rec[8*i : 8*i+8]
			if err != nil && m.Read(qp.DB, rec) != nil {
				continue
			}
			do(qp, binary.BigEndian.Uint16(rec[2:]), binary.BigEndian.Uint16(rec[6:]))
		}
		qps = qps[n:]
	}
}

// announce takes in a send doorbell record after a doorbell.
func (e *Engine) announce(qp *hca.QP, rec uint16) {
	r := &qp.Run
	d := uint32(rec - uint16(r.Announced))
	if d == 0 || qp.SQ.Count == 0 {
		return
	}
	if h := e.Hooks.AtDoorbell; h != nil && h(qp) == FaultLost {
		r.Lost = true
		return
	}
	if e.Hooks.Trace != nil {
		e.trace(Record{Kind: KindDoorbell, QP: qp, PID: qp.Mem.PID, Index: uint32(rec), N: uint64(d), BlueFlame: r.Blue})
	}
	r.Lost, r.Blue = false, false
	r.Unrung = 0
	if qp.State == hca.Reset { // its library clears the record in a moment; who rings for it is found by checkDoorbell
		return
	}
	if qp.State < hca.RTS {
		e.wrongState(qp)
	}
	r.Announced += d
	if r.Announced-r.Tail > qp.SQ.Count {
		if e.watching() {
			e.violate(qp.Mem.PID, RuleSQAhead, "QP 0x"+hex(qp.Num)+": "+u(r.Announced-r.Tail)+" blocks are announced, the send queue has "+u(qp.SQ.Count))
		}
		r.Tail = r.Announced
		e.fatal(qp)
		return
	}
	e.push(qp)
}

func (e *Engine) wrongState(qp *hca.QP) {
	if e.watching() {
		e.violate(qp.Mem.PID, RulePostState, "QP 0x"+hex(qp.Num)+" is in "+qp.State.String()+", a send needs RTS")
	}
}

// arms looks at every CQ of a context, because their doorbells overwrite each other.
func (e *Engine) arms(c *hca.Context) {
	cqs := e.cqs[:0]
	c.EachCQ(func(cq *hca.CQ) { cqs = append(cqs, cq) })
	e.cqs = cqs
	s := &e.io
	for len(cqs) > 0 {
		n := min(len(cqs), lookChunk)
		s.riov = s.riov[:0]
		for _, cq := range cqs[:n] {
			s.riov = append(s.riov, guest.IOV{Base: cq.DB, Len: 8})
		}
		err := c.Mem.ReadV(s.rec[:8*n], s.riov)
		for i, cq := range cqs[:n] {
			rec := s.rec[8*i : 8*i+8]
			if err != nil && c.Mem.Read(cq.DB, rec) != nil {
				continue
			}
			e.arm(cq, binary.BigEndian.Uint32(rec), binary.BigEndian.Uint32(rec[4:]))
		}
		cqs = cqs[n:]
	}
	e.notify()
}

// window is a stretch of a send queue as last read.
type window struct {
	buf  [64 << blockShift]byte
	qp   *hca.QP
	from uint32
	n    uint32 // blocks
}

const speculate = 24 // blocks read together with the doorbell record

// fetch reads blocks of the send queue from at on, and the doorbell record before them if a doorbell was rung.
func (e *Engine) fetch(qp *hca.QP, at uint32) bool {
	r, w := &qp.Run, &e.win
	n := min(qp.SQ.Count, uint32(len(w.buf))>>blockShift)
	if r.Look {
		n = min(n, speculate)
	} else {
		n = min(n, max(r.Announced-at, maxWQE>>blockShift+1))
	}
	v := e.io.win[:0]
	b := w.buf[:n<<blockShift]
	i := at & (qp.SQ.Count - 1)
	first := min(n, qp.SQ.Count-i)
	if r.Look {
		v = append(v, guest.IOV{Base: qp.DB + 4, Len: 4})
		b = e.look4[:4+len(b)]
	}
	v = append(v, guest.IOV{Base: qp.SQ.Base + uint64(i)<<blockShift, Len: uint64(first) << blockShift})
	if first < n {
		v = append(v, guest.IOV{Base: qp.SQ.Base, Len: uint64(n-first) << blockShift})
	}
	w.qp, w.from, w.n = qp, at, 0
	if err := qp.Mem.ReadV(b, v); err != nil {
		r.Look = false
		if err == guest.ErrFault && qp.State > hca.Init {
			if e.watching() {
				e.violate(qp.Mem.PID, RuleRingUnmapped, "QP 0x"+hex(qp.Num)+": its send queue or doorbell record cannot be read")
			}
			e.fatal(qp)
		}
		return false
	}
	w.n = n
	if r.Look {
		r.Look = false
		copy(w.buf[:], b[4:])
		e.announce(qp, binary.BigEndian.Uint16(b[2:]))
	}
	w.n = min(n, r.Announced-at) // what comes after may be written yet
	return true
}

// load puts the WQE at a block of the send queue in e.w.raw, in one piece, and reads its control segment. Its size may be bad.
func (e *Engine) load(qp *hca.QP, at uint32) bool {
	win, w := &e.win, &e.w
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
		if try > 0 || !e.fetch(qp, at) {
			return false
		}
	}
}

// checkDoorbell compares a doorbell with the queue that it belongs to (strict mode).
func (e *Engine) checkDoorbell(page *hca.UAR, slot int, v uint64) {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	num, size := binary.BigEndian.Uint32(b[4:])>>8, int(b[7]&0x3f)*16
	pid := page.Context.PID
	var qp *hca.QP
	for _, q := range page.QPs {
		if q.Num == num {
			qp = q
		}
	}
	if qp == nil || qp.SQ.Count == 0 {
		e.violate(pid, RuleDoorbellQPN, "page "+u(uint32(page.Index))+" was rung for QP 0x"+hex(num)+", which does not use it")
		return
	}
	if qp.State == hca.Reset {
		e.wrongState(qp)
	}
	idx := uint32(binary.BigEndian.Uint16(b[1:]))
	end := uint16(idx + uint32(size+63)>>blockShift)
	var rec [4]byte
	if qp.Mem.Read(qp.DB+4, rec[:]) == nil {
		// The record may be ahead by what is rung next, never behind.
		if behind := end - binary.BigEndian.Uint16(rec[2:]); behind != 0 && behind < 0x8000 {
			e.violate(pid, RuleSQNoRecord, "QP 0x"+hex(num)+": rung up to block "+u(uint32(end))+", the doorbell record says "+u(uint32(binary.BigEndian.Uint16(rec[2:]))))
		}
	}
	e.checkBlueFlame(page, qp, slot, idx, size, b)
}

// checkBlueFlame compares the copy of a WQE. An 8-byte doorbell leaves old bytes in its slot and a copy may be under way, so that a difference counts only
// where the slot holds neither 0 nor what was there before.
func (e *Engine) checkBlueFlame(page *hca.UAR, qp *hca.QP, slot int, idx uint32, size int, first [8]byte) {
	s := page.Page[0x800+slot*0x100:][:0x100]
	var copied [0x100]byte
	copy(copied[:], s)
	if atomic.LoadUint64((*uint64)(unsafe.Pointer(&s[0]))) != 0 {
		return // the next copy came into the slot meanwhile: it begins with these bytes
	}
	last := &page.Run.Last[slot]
	size = min(size, 0x100)
	n := uint32(size+63) >> blockShift
	var ring [0x100]byte
	if size < 16 || n > qp.SQ.Count {
		return
	}
	i := idx & (qp.SQ.Count - 1)
	k := min(n, qp.SQ.Count-i)
	v := append(e.io.win[:0], guest.IOV{Base: qp.SQ.Base + uint64(i)<<blockShift, Len: uint64(k) << blockShift})
	if k < n {
		v = append(v, guest.IOV{Base: qp.SQ.Base, Len: uint64(n-k) << blockShift})
	}
	if qp.Mem.ReadV(ring[:n<<blockShift], v) != nil || !bytes.Equal(ring[:8], first[:]) {
		return // overwritten already: nothing to compare with
	}
	if hole := torn(s[:size], ring[:size]); hole > 0 && often(qp) {
		e.violate(qp.Mem.PID, RuleBlueFlame, "QP 0x"+hex(qp.Num)+": WQE "+u(idx)+" came up to byte "+u(uint32(hole))+" of "+u(uint32(size)))
	}
	zero := [8]byte{}
	for o := 8; o+8 <= size; o += 8 {
		got := copied[o : o+8]
		if !bytes.Equal(got, ring[o:o+8]) && !bytes.Equal(got, zero[:]) && !bytes.Equal(got, last[o:o+8]) && !e.stale(page, o&63, got) {
			if often(qp) {
				e.violate(qp.Mem.PID, RuleBlueFlame, "QP 0x"+hex(qp.Num)+": WQE "+u(idx)+" differs at byte "+u(uint32(o)))
			}
			break
		}
	}
	if size > 16 && bytes.Equal(s[8:size], ring[8:size]) && !bytes.Equal(ring[16:size], last[16:size]) {
		qp.Run.Blue = true // behind its first 8 bytes is what only a copy brings
	}
	copy(last[:], ring[:])
	if atomic.LoadUint64((*uint64)(unsafe.Pointer(&s[0]))) == 0 { // else this would make holes in the next copy
		clear(s[8:])
	}
}

// often says whether a QP's copies are not whole too often for an accident: a program may lose its processor in the midst of a copy, which takes some 20 ns,
// once in many thousand times.
func often(qp *hca.QP) bool {
	qp.Run.Torn++
	return qp.Run.Torn > 2 && qp.Run.Torn*1000 > qp.Run.Count
}

// stale says whether a piece of a slot is of any WQE of the page's queues: of a copy that a doorbell of 8 bytes followed before anybody looked.
func (e *Engine) stale(page *hca.UAR, off int, piece []byte) bool {
	for _, qp := range page.QPs {
		ring := make([]byte, qp.SQ.Count<<blockShift)
		if len(ring) == 0 || qp.Mem.Read(qp.SQ.Base, ring) != nil {
			continue
		}
		for ; len(ring) > 0; ring = ring[1<<blockShift:] {
			if bytes.Equal(ring[off:off+8], piece) {
				return true
			}
		}
	}
	return false
}

// torn waits until a copy that has begun is all there, and says where it ends if it is not; 0 for none, or a whole one.
func torn(s, ring []byte) int {
	zero := [8]byte{}
	for start := time.Now(); ; {
		begun, hole := false, 0
		for o := 8; o+8 <= len(ring); o += 8 {
			switch got := s[o : o+8]; {
			case bytes.Equal(ring[o:o+8], zero[:]):
			case bytes.Equal(got, ring[o:o+8]):
				begun = true
			case !bytes.Equal(got, zero[:]):
				return 0 // of an older copy, with a doorbell of 8 bytes before it
			case hole == 0:
				hole = o
			}
		}
		if !begun || hole == 0 || atomic.LoadUint64((*uint64)(unsafe.Pointer(&s[0]))) != 0 { // the next copy
			return 0
		}
		if time.Since(start) > 100*time.Microsecond {
			return hole
		}
	}
}

// auditDoorbells looks for records that moved and were not rung (strict mode).
func (e *Engine) auditDoorbells() {
	if !e.watching() {
		return
	}
	for _, page := range e.pages {
		for qps := page.QPs; len(qps) > 0; qps = qps[min(len(qps), lookChunk):] {
			e.records(qps[:min(len(qps), lookChunk)], func(qp *hca.QP, rq, sq uint16) {
				r := &qp.Run
				switch {
				case sq == uint16(r.Announced) || r.Lost || qp.SQ.Count == 0 || qp.State == hca.Reset:
					r.Unrung = 0
				case r.Unrung != uint32(sq)+1:
					r.Unrung, r.UnrungAt = uint32(sq)+1, e.now
				case r.UnrungAt > 0 && e.now-r.UnrungAt > auditPatient:
					r.UnrungAt = 0
					e.violate(qp.Mem.PID, RuleSQNoDoorbell, "QP 0x"+hex(qp.Num)+": the record says "+u(uint32(sq))+", the last doorbell "+u(r.Announced&0xffff))
				}
				if qp.State == hca.Reset && rq != 0 {
					if r.ResetPost++; r.ResetPost == 8 {
						e.violate(qp.Mem.PID, RulePostState, "QP 0x"+hex(qp.Num)+" is in RESET, a receive needs INIT")
					}
				} else {
					r.ResetPost = 0 // its library was about to clear the record
				}
			})
		}
	}
}
