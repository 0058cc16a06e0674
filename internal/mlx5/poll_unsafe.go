package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// Poll is PollInto for a slice.
func (cq *CQ) Poll(out []WC) (int, error) { return cq.PollInto(unsafe.SliceData(out), len(out)) }

// PollInto takes completions that are there, at most the size of the array at out. An error is of the entry behind the
// completions that were delivered: a *CQEError is returned once, and the next call goes on behind its entry;
// ErrSuspended is returned while the entry's QP is suspended.
//
// One loop decodes what succeeded, of all kinds and QPs; unusual takes the rest. What is rarely needed is kept in cq
// and not in variables, so that the loop's stay in registers.
//
//go:norace
func (cq *CQ) PollInto(out *WC, size int) (int, error) {
	if cq.pending != nil {
		return cq.stopped(0)
	}
	ci, qp, n := cq.ci.Load(), cq.last, 0
	for most := cq.ready(ci, size); n < most; n, ci = n+1, ci+1 {
		p := cq.entry(ci)
		tail := cq.tail(p)
		if !cq.ours(tail, ci) {
			break
		}
		wc := (*[8]uint64)(unsafe.Pointer(nth(out, n)))
		op, i := uint8(tail)>>4, uint32(tail>>16)&0xffff // of the WQE
		if (uint32(tail>>32)^qp.Num)&numberMask != 0 {
			qp.publish(cq)
			next := cq.qps.Find(uint32(tail >> 32))
			if next == nil {
				goto unusual
			}
			qp = next
		}
		if op == cqeReq {
			kind := uint64(sent[tail>>56])
			if kind == 0 {
				goto unusual
			}
			s := qp.SQ.slot(i)
			if !qp.SQ.complete(s) {
				goto unusual
			}
			wc[0] = s.id
			wc[1] = kind & 0xff << 32
			wc[2] = 0
			wc[3] = 0
			wc[4] = uint64(qp.Num)
			wc[5] = kind >> 8 & wcWithImm
			wc[6] = 0
			wc[7] = get64(p, offTimestamp)
			if kind >= sentLen || tail&(scatter32|scatter64) != 0 {
				if !cq.result(qp, nth(out, n), p, ci) {
					ci++
					break
				}
			}
			continue
		} else if op-1 < cqeRespSendInv && (tail&scatter64 == 0 || cq.carries(uint8(tail))) {
			if s := qp.SRQ; s == nil {
				if !qp.RQ.complete(i) {
					goto unusual
				}
				cq.received = true
				wc[0] = *qp.RQ.id(i)
			} else if s != cq.locked {
				cq.lock(s)
				n, ci = n-1, ci-1
				continue
			} else {
				if !s.complete(i) {
					goto unusual
				}
				wc[0] = s.ids[i]
			}
			kind := &received[op&7]
			wc[1] = uint64(kind.opcode) << 32
			length := get32(p, offByteCnt)
			wc[2] = uint64(length) << 32
			wc[7] = get64(p, offTimestamp)
			imm := uint64(get32(p, offImm))
			wc[3] = imm&kind.imm | imm<<32&kind.inv
			// The address fields mean something for UD only. A payload in the entry overwrites them, as in libmlx5;
			// those of UD have none.
			from := get32(p, offFlagsRQPN)
			wc[4] = uint64(from&numberMask)<<32 | uint64(qp.Num)
			path := get64(p, offMLPath-1)
			wc[6] = path>>48&0x7f<<8 | uint64(from>>24&0xf)
			wc[5] = path&0xffff<<48 | imm&0xffff<<32 | uint64(kind.flags) | uint64((from>>28|from>>29)&wcGRH)
			if tail&(scatter32|scatter64) != 0 {
				list, segs := qp.list(i)
				// 16 to 32 bytes, and one SGE has room
				if tail&scatter32 != 0 && length <= get32(list, 0) && length-16 <= 32-16 {
					to, last := addrAt(get64(list, 8)), uintptr(length)-16
					*(*[2]uint64)(to) = *(*[2]uint64)(p)
					*(*[2]uint64)(unsafe.Add(to, last)) = *(*[2]uint64)(unsafe.Add(p, last))
				} else {
					nth(out, n).Status = scatter(list, segs, length, carried(p, uint8(tail)))
				}
			}
			continue
		}
	unusual:
		switch cq.unusual(nth(out, n), qp, ci, tail) {
		case completed:
			continue
		case stays:
			n, ci = n-1, ci-1
			continue
		case ofOther:
			qp, n, ci = cq.other, n-1, ci-1
			continue
		case reposted:
			n--
			most = n + 1 + cq.ready(ci+1, most-n-1)
			continue
		case isCorrupt:
			ci++
		}
		break
	}
	if cq.locked != nil {
		cq.lock(nil)
	}
	qp.publish(cq)
	if cq.last != qp {
		cq.last = qp
	}
	if ci != cq.ci.Load() {
		publish32(&cq.ci, ci)
		mmio.Consumed(cq.dbrec, bits.ReverseBytes32(ci&numberMask))
	}
	if short := uint32(size - n); short != cq.short.Load() {
		publish32(&cq.short, short)
	}
	if cq.pending != nil {
		return cq.stopped(n)
	}
	return n, nil
}

// nth returns entry n of the array at out.
func nth(out *WC, n int) *WC {
	return (*WC)(unsafe.Add(unsafe.Pointer(out), uintptr(n)*unsafe.Sizeof(WC{})))
}

// ours reports whether the owner bit of entry ci, which ends with tail, is that of this lap: the entry is written, or
// none ever was.
func (cq *CQ) ours(tail uint64, ci uint32) bool {
	return (uint32(tail)^ci>>(cq.log&31))&1 == 0
}

// What unusual did with an entry.
type outcome int

const (
	completed outcome = iota
	reposted          // it is no completion
	stays             // it is usual now
	ofOther           // it is usual for cq.other
	isCorrupt         // pending says so
	none              // it is not written yet
	suspended         // and its QP, too
)

// unusual takes entry ci, of qp or of a QP that Find did not find, where it is not for Poll's loop. tail is what Poll
// saw: the device may write the entry now.
//
//go:norace
func (cq *CQ) unusual(wc *WC, qp *QP, ci uint32, tail uint64) outcome {
	num, counter, op := uint32(tail>>32)&numberMask, uint32(tail>>16)&0xffff, uint8(tail)>>4
	if op == cqeInvalid {
		return none
	}
	if op == cqeSigErr { // it names a key, and no QP
		cq.corrupt(nil, ci, tail, noSigErr)
		return isCorrupt
	}
	if cq.sender != nil {
		if to := cq.side(op, num); to != nil && (to != qp || to.Num != num) {
			qp.publish(cq)
			to.Num, cq.other = num, to
			return ofOther
		}
	}
	if num != qp.Num {
		switch {
		case cq.qps.suspended(num):
			cq.pending = ErrSuspended
			return suspended
		case cq.qps.Find(num) == nil: // it may have been suspended a moment ago
			if cq.xrc != nil && fromPeer(op) {
				cq.xrc.Num, cq.other = num, cq.xrc
				return ofOther
			}
			cq.corrupt(nil, ci, tail, noQP)
			return isCorrupt
		}
		return stays
	}
	receive := op-1 < cqeRespSendInv
	if receive && qp.SRQ != cq.locked && cq.carries(uint8(tail)) {
		cq.lock(qp.SRQ)
		return stays
	}
	if cq.locked != nil {
		cq.lock(nil)
	}
	wrong := noOpcode
	switch {
	case receive && !cq.carries(uint8(tail)):
		wrong = noPayload
	case receive:
		wrong = noRecv
	case op == cqeReq && sent[tail>>56] == 0:
		wrong = noSendOp
	case op == cqeReq:
		wrong = noSend
	case op == cqeReqErr || op == cqeRespErr:
		if got := qp.failed(wc, op, counter, cq.entry(ci)); got != isCorrupt {
			return got
		}
		wrong = noFailed
	}
	cq.corrupt(qp, ci, tail, wrong)
	return isCorrupt
}

// lock takes the lock of an SRQ, or of none, for the rest of Poll, and gives up the one that it has.
//
//go:noinline
func (cq *CQ) lock(s *SRQ) {
	if cq.locked != nil {
		cq.locked.mu.Unlock()
	}
	if cq.locked = s; s != nil {
		s.mu.Lock()
	}
}

// stopped returns what Poll returns after n completions, when pending is set.
func (cq *CQ) stopped(n int) (int, error) {
	err := cq.pending
	if n > 0 && err != ErrSuspended {
		return n, nil // the next call returns it
	}
	cq.pending = nil
	cq.look()
	if n > 0 {
		return n, nil // the next call looks again
	}
	return 0, err
}

// publish tells who posts what was completed, when all that they may then overwrite has been read.
//
//go:norace
func (q *QP) publish(cq *CQ) {
	if s := &q.SQ; s.polled != s.done.Load() {
		publish64(&s.done, s.polled)
	}
	if cq.received {
		cq.received = false
		publish32(&q.RQ.done, q.RQ.ci)
	}
}

// list returns where the scatter list of receive WQE i lies, and of how many entries it is at most.
func (q *QP) list(i uint32) (list unsafe.Pointer, segs int) {
	if q.SRQ != nil {
		return q.SRQ.list(i), q.SRQ.segs
	}
	return q.RQ.list(i), int(q.RQ.segs)
}

// slot is what is remembered of the send WQE that begins at block counter.
func (q *SQ) slot(counter uint32) *slot {
	return (*slot)(unsafe.Add(unsafe.Pointer(q.slots), uintptr(counter&q.mask)*unsafe.Sizeof(slot{})))
}

// complete completes the send WQE of s and all before it, or returns false if it is not posted.
//
//go:norace
func (q *SQ) complete(s *slot) bool {
	// Between the last completed and the last built.
	if uint32(s.mark)-uint32(q.polled)-1 >= q.maxWR {
		return false
	}
	q.polled = s.mark
	return true
}

// result adds what the completion of a send has beyond the common: the opcode of a UMR, the length, and the data of a
// read or atomic that the entry carries, which goes where the WQE says. It returns false, with pending set, if the WQE
// has no result.
//
//go:norace
func (cq *CQ) result(qp *QP, wc *WC, p unsafe.Pointer, ci uint32) bool {
	tail := get64(p, offTail)
	switch kind := sent[tail>>56]; {
	case tail>>56 == opUMR:
		wc.Opcode = qp.SQ.umrOpcode(uint32(tail>>16) & 0xffff)
	case kind >= sent8:
		wc.ByteLen = 8
	case kind >= sentLen:
		wc.ByteLen = get32(p, offByteCnt)
	}
	op := uint8(tail)
	if op&(scatter32|scatter64) == 0 {
		return true
	}
	ok := false
	if cq.carries(op) {
		wc.Status, ok = qp.scatterSend(uint32(tail>>16)&0xffff, wc.ByteLen, carried(p, op))
	}
	if !ok {
		cq.corrupt(qp, ci, tail, noPayload)
	}
	return ok
}

// carries reports whether an entry can carry the payload that its format says: both bits would be a compressed entry,
// which nobody asked for, and 64 bytes come before an entry of 128 bytes only.
func (cq *CQ) carries(op uint8) bool {
	return op&scatter64 == 0 || op&scatter32 == 0 && cq.stride == 128
}

// carried is the payload that the entry at p carries: its own first 32 bytes, or the 64 bytes before it.
func carried(p unsafe.Pointer, op uint8) []byte {
	if op&scatter32 != 0 {
		return unsafe.Slice((*byte)(p), 32)
	}
	return unsafe.Slice((*byte)(unsafe.Add(p, -64)), 64)
}

// isPageFault reports whether the error CQE at p is of a receive of an SRQ that is posted again.
//
// C: is_odp_pfault_err (rdma-core v44.0, providers/mlx5/cq.c:698).
func isPageFault(p unsafe.Pointer) bool {
	return *(*uint8)(unsafe.Add(p, offSyndrome)) == 0x22 && *(*uint8)(unsafe.Add(p, offVendor)) == 0x93
}

// failed completes what an error CQE names; isCorrupt means that it is not posted.
//
//go:norace
func (q *QP) failed(wc *WC, op uint8, counter uint32, p unsafe.Pointer) outcome {
	*wc = WC{QPN: q.Num, Status: statusOf(*(*uint8)(unsafe.Add(p, offSyndrome))),
		VendorErr: uint32(*(*uint8)(unsafe.Add(p, offVendor)))}
	ok := false
	switch {
	case op == cqeReqErr:
		s := q.SQ.slot(counter)
		if ok = q.SQ.complete(s); ok {
			wc.ID = s.id
		}
	case q.SRQ == nil:
		if ok = q.RQ.complete(counter); ok {
			wc.ID = *q.RQ.id(counter)
			publish32(&q.RQ.done, q.RQ.ci)
		}
	case isPageFault(p):
		if q.SRQ.repost(counter) {
			return reposted
		}
	default:
		wc.ID, ok = q.SRQ.take(counter)
	}
	if !ok {
		return isCorrupt
	}
	return completed
}
