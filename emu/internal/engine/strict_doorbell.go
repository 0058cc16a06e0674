//go:build linux

package engine

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

const (
	auditEvery   = int64(25 * time.Millisecond)
	auditPatient = int64(2 * time.Second) // a program may lose its processor between a record and its doorbell

	shortCopy     = 100 * time.Microsecond
	longCopy      = 200 * time.Millisecond
	patientCopies = 3 // torn copies of a QP for which the engine waits long

	resetLooks = uint8(auditPatient / auditEvery) // as long, between modify_qp and clearing the record
)

// announced comes when a doorbell was answered: the record is no longer ahead of it.
func (s *checks) announced(qp *hca.QP) {
	if s.on() {
		qp.Run.Strict.Moved, qp.Run.Strict.Blue = 0, false
	}
}

// doorbell compares a doorbell with the queue that it belongs to.
func (s *checks) doorbell(page *hca.UAR, slot int, v uint64) {
	if !s.on() {
		return
	}
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
		s.violate(pid, RuleDoorbellQPN, "page %d was rung for QP 0x%x, which does not use it", page.Index, num)
		return
	}
	if qp.State == hca.Reset {
		s.sendState(qp)
	}
	idx := uint32(binary.BigEndian.Uint16(b[1:]))
	end := uint16(idx + uint32(size+63)>>blockShift)
	var rec [4]byte
	if qp.Mem.Read(qp.DB+4, rec[:]) == nil {
		// The record may be ahead by what is rung next, never behind.
		record := binary.BigEndian.Uint16(rec[2:])
		if behind := end - record; behind != 0 && behind < 0x8000 {
			s.violate(pid, RuleSQNoRecord, "QP 0x%x: rung up to block %d, the doorbell record says %d", num, end,
				record)
		}
	}
	s.blueFlame(page, qp, slot, idx, size, b)
}

// blueFlame compares the copy of a WQE. An 8-byte doorbell leaves old bytes in its slot and a copy may be under way, so
// that a difference counts only where the slot holds neither 0 nor what was there before.
func (s *checks) blueFlame(page *hca.UAR, qp *hca.QP, slot int, idx uint32, size int, first [8]byte) {
	reg := page.Page[0x800+slot*0x100:][:0x100]
	at := &words(page.Page)[firstSlot+slot*slotStep]
	var copied [0x100]byte
	copy(copied[:], reg)
	whole := !page.Run.Stir[slot]
	page.Run.Stir[slot] = false
	seen := page.Run.Seen[slot]
	page.Run.Seen[slot] = copied
	if atomic.LoadUint64(at) != 0 {
		return // the next copy came into the slot meanwhile: it begins with these bytes
	}
	last := &page.Run.Last[slot]
	size = min(size, 0x100)
	n := uint32(size+63) >> blockShift
	var ring [0x100]byte
	if size < 16 || n > qp.SQ.Count {
		return
	}
	if t := qp.Run.Strict.Ring; int16(uint16(idx)-uint16(qp.Run.Tail)) < 0 && t != nil {
		// Executed before its doorbell was seen, as the record said so: it may be overwritten at this moment.
		from := t[(idx&(qp.SQ.Count-1))<<blockShift:]
		copy(ring[copy(ring[:n<<blockShift], from):n<<blockShift], t)
	} else if qp.Mem.ReadV(ring[:n<<blockShift], spansOf(s.io.win[:0], &qp.SQ, idx, n)) != nil {
		return
	}
	if !bytes.Equal(ring[:8], first[:]) {
		return // overwritten already: nothing to compare with
	}
	patience := longCopy
	if qp.Run.Strict.Torn >= patientCopies {
		patience = shortCopy
	}
	if hole := missingFrom(reg[:size], ring[:size], at, patience); hole > 0 && whole && tornTooOften(qp) {
		s.violateQP(qp, RuleBlueFlame, ": WQE %d came up to byte %d of %d", idx, hole, size)
	}
	for o := 8; o+8 <= size; o += 8 {
		got := copied[o : o+8]
		if bytes.Equal(got, ring[o:o+8]) || zeros(got) || bytes.Equal(got, last[o:o+8]) ||
			bytes.Equal(got, seen[o:o+8]) || leftOver(page, qp, idx, n, o&63, got) {
			continue
		}
		if tornTooOften(qp) {
			s.violateQP(qp, RuleBlueFlame, ": WQE %d differs at byte %d", idx, o)
		}
		break
	}
	incomplete := !bytes.Equal(reg[8:size], ring[8:size])
	if size > 16 && !incomplete && !bytes.Equal(ring[16:size], last[16:size]) {
		qp.Run.Strict.Blue = true // behind its first 8 bytes is what only a copy brings
	}
	copy(last[:], ring[:])
	if atomic.LoadUint64(at) == 0 { // else this would make holes in the next copy
		clear(reg[8:])
		page.Run.Seen[slot] = [0x100]byte{}
		// What is under way may be erased in part: the rest of this copy, which nobody waited for if its first word
		// alone was there, or the next one, whose first word comes first. Adding to that word, unlike loading it, waits
		// until the zeros are in memory.
		page.Run.Stir[slot] = whole && incomplete || atomic.AddUint64(at, 0) != 0
	}
}

func zeros(b []byte) bool { return binary.NativeEndian.Uint64(b) == 0 }

// tornTooOften counts a torn copy and reports whether a QP has too many for an accident: a program may lose its
// processor in the midst of a copy, and the engine its own before it looks at one, so that nothing explains what an
// 8-byte doorbell left. On a busy machine that was one in 900.
func tornTooOften(qp *hca.QP) bool {
	r := &qp.Run
	r.Strict.Torn++
	return r.Strict.Torn > 2 && r.Strict.Torn*200 > r.Count
}

// leftOver reports whether 8 bytes of a slot, at off in their block, are of any WQE of the page's queues: of a copy
// that an 8-byte doorbell followed before anybody looked. That WQE may be overwritten: what was executed last is kept.
// What was where the WQE of qp lies, n blocks at idx, is no explanation: a copy that was made too early has it.
func leftOver(page *hca.UAR, qp *hca.QP, idx, n uint32, off int, b []byte) bool {
	for _, q := range page.QPs {
		if q.SQ.Count == 0 {
			continue
		}
		ring, was := make([]byte, q.SQ.Count<<blockShift), q.Run.Strict.Ring
		if q.Mem.Read(q.SQ.Base, ring) != nil {
			continue
		}
		for i := range q.SQ.Count {
			at := int(i)<<blockShift + off
			own := q == qp && (i-idx)&(q.SQ.Count-1) < n
			if bytes.Equal(ring[at:at+8], b) || !own && at < len(was) && bytes.Equal(was[at:at+8], b) {
				return true
			}
		}
	}
	return false
}

// missingFrom waits until a copy that has begun is all there, for the time of patience: on a busy machine the program
// loses its processor for milliseconds. It returns where the copy ends if it is not, else 0. The next copy begins at
// word next.
func missingFrom(reg, ring []byte, next *uint64, patience time.Duration) int {
	for start := time.Now(); ; {
		begun, hole := false, 0
		for o := 8; o+8 <= len(ring); o += 8 {
			switch got := reg[o : o+8]; {
			case zeros(ring[o : o+8]):
			case bytes.Equal(got, ring[o:o+8]):
				begun = true
			case !zeros(got):
				return 0 // of an older copy, with an 8-byte doorbell before it
			case hole == 0:
				hole = o
			}
		}
		if !begun || hole == 0 || atomic.LoadUint64(next) != 0 {
			return 0
		}
		switch waited := time.Since(start); {
		case waited > patience:
			return hole
		case waited > shortCopy:
			time.Sleep(shortCopy)
		}
	}
}

// audit looks, now and then, for records that moved without a doorbell.
func (s *checks) audit(pages []*hca.UAR) {
	if s.turns.now < s.next || !s.on() {
		return
	}
	s.next = s.turns.now + auditEvery
	for _, page := range pages {
		if !page.Run.Rung { // else they were rung for, and are looked at later
			s.io.records(page.QPs, s.auditRecord)
		}
	}
}

func (s *checks) auditRecord(qp *hca.QP, rq, sq uint16) {
	r := &qp.Run
	t := &r.Strict
	switch {
	case sq == uint16(r.Announced) || r.Lost || qp.SQ.Count == 0 || qp.State == hca.Reset:
		t.Moved = 0
	case t.Moved != uint32(sq)+1:
		t.Moved, t.MovedAt = uint32(sq)+1, s.turns.now
	case t.MovedAt > 0 && s.turns.now-t.MovedAt > auditPatient:
		t.MovedAt = 0
		s.violateQP(qp, RuleSQNoDoorbell, ": the record says %d, the last doorbell %d", sq, r.Announced&0xffff)
	}
	if qp.State != hca.Reset || rq == 0 {
		t.ResetPost = 0
	} else if t.ResetPost++; t.ResetPost == resetLooks { // no longer a library that is about to clear the record
		s.violateQP(qp, RulePostState, " is in RESET, a receive needs INIT")
	}
}
