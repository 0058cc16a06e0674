package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// Poll is PollInto for a slice.
func (cq *CQ) Poll(out []WC) (int, error) { return cq.PollInto(unsafe.SliceData(out), len(out)) }

// PollInto takes completions that are there, at most the size of the array at wc. An error is of the entry behind the
// completions that were delivered: a *CQEError is returned once, and the next call goes on behind its entry;
// ErrSuspended is returned while the entry's QP is suspended.
//
// One loop decodes what succeeded, of all kinds and QPs. An entry whose header is that of the one before it needs no
// other check of it. The loop has one call, of unusual, which takes the rest: variables are then kept on the stack
// around that call, and nowhere else.
//
//go:norace
func (cq *CQ) PollInto(wc *WC, size int) (int, error) {
	if cq.pending != nil {
		return cq.stopped(0)
	}
	if s := cq.last.SRQ; s != nil && cq.like&opcodeBits != 0 {
		cq.lock(s)
	}
	ci, qp, like := cq.ci.Load(), cq.last, cq.like
	left := cq.ready(ci, size)
	late := size - left // entries that the device had not written
	for left > 0 {
		at := ci & cq.mask
		p := unsafe.Add(cq.buf, uintptr(at)*cq.stride)
		tail := cq.tail(p)
		decoded := false
		if tail&header != like || at == 0 { // the owner bit flips at 0
			if !cq.ours(tail, ci) || tail&opcodeBits == cqeInvalid<<4 {
				break
			}
			like = noHeader
			if (uint32(tail>>32)^qp.Num)&numberMask != 0 {
				qp.publish(cq)
				next := cq.qps.Find(uint32(tail >> 32))
				if next == nil {
					goto unusual
				}
				qp = next
			}
			if !cq.usual(qp, tail) {
				goto unusual
			}
			like = tail & header
		}
		if like&opcodeBits == cqeReq<<4 {
			kind := uint64(sent[tail>>56])
			s := qp.SQ.slot(uint32(tail >> 16))
			if !qp.SQ.posted(s.mark) || kind&noResult == 0 {
				goto unusual
			}
			qp.SQ.polled = s.mark
			w := (*[8]uint64)(unsafe.Pointer(wc))
			w[0] = s.id
			w[1] = kind & 0xff << 32
			w[2] = 0
			w[3] = 0
			w[4] = uint64(qp.Num)
			w[5] = kind >> 8 & wcWithImm
			w[6] = 0
			w[7] = get64(p, offTimestamp)
		} else {
			i := uint32(tail>>16) & 0xffff // of the WQE
			w := (*[8]uint64)(unsafe.Pointer(wc))
			if s := qp.SRQ; s == nil {
				if !qp.RQ.complete(i) {
					if !cq.taken {
						goto unusual
					}
					cq.taken = false
				}
				cq.received = true
				w[0] = *qp.RQ.id(i)
			} else {
				if !s.complete(i) {
					goto unusual
				}
				w[0] = s.ids[i]
			}
			kind := &received[like>>4&7]
			w[1] = uint64(kind.opcode) << 32
			length := get32(p, offByteCnt)
			w[2] = uint64(length) << 32
			w[7] = get64(p, offTimestamp)
			imm := uint64(get32(p, offImm))
			w[3] = imm&kind.imm | imm<<32&kind.inv
			// The address fields mean something for UD only. A payload in the entry overwrites them, as in libmlx5;
			// those of UD have none.
			from := get32(p, offFlagsRQPN)
			w[4] = uint64(from&numberMask)<<32 | uint64(qp.Num)
			path := get64(p, offMLPath-1)
			w[6] = path>>48&0x7f<<8 | uint64(from>>24&cq.sl)
			w[5] = path&0xffff<<48 | imm&0xffff<<32 | uint64(kind.flags) | uint64((from>>28|from>>29)&wcGRH)
			if like&formatBits != 0 {
				list, segs := qp.plainList(i)
				if like&scatter32 == 0 || length > get32(list, 0) || length-16 > 32-16 || segs == 0 {
					decoded = true
					goto unusual
				}
				// 16 to 32 bytes, and one SGE has room
				to, last := addrAt(get64(list, 8)), uintptr(length)-16
				*(*[2]uint64)(to) = *(*[2]uint64)(p)
				*(*[2]uint64)(unsafe.Add(to, last)) = *(*[2]uint64)(unsafe.Add(p, last))
			}
		}
	next:
		ci++
		if left--; left == 0 {
			break
		}
		wc = nth(wc, 1)
		continue
	unusual:
		switch cq.unusual(wc, qp, ci, decoded) {
		case completed:
			goto next
		case stays:
			continue
		case ofOther:
			qp = cq.other
			continue
		case reposted:
			ci++
			more := cq.ready(ci, left)
			left, late = more, late+left-more
			continue
		case isCorrupt:
			ci++
		}
		break
	}
	short := late + left
	n := size - short
	qp.publish(cq)
	if cq.like != like {
		cq.like = like
		cq.last = qp
	}
	if ci != own32(&cq.ci) {
		cq.consume(ci)
	}
	if uint32(short) != own32(&cq.short) {
		publish32(&cq.short, uint32(short))
	}
	if cq.pending != nil || cq.locked != nil {
		return cq.stopped(n)
	}
	return n, nil
}

// consume gives the entries before ci to the device. Empty finds the index in cq.ci before the device can overwrite
// them.
//
//go:norace
func (cq *CQ) consume(ci uint32) {
	publish32(&cq.ci, ci)
	mmio.Consumed(cq.dbrec, bits.ReverseBytes32(ci&numberMask))
}

// nth returns entry n of the array at out.
func nth(out *WC, n int) *WC {
	return (*WC)(unsafe.Add(unsafe.Pointer(out), uintptr(n)*unsafe.Sizeof(WC{})))
}

// ours reports whether the owner bit of entry ci, which ends with tail, is that of this lap: the entry is written, or
// none ever was.
func (cq *CQ) ours(tail uint64, ci uint32) bool {
	return (-(uint32(tail)&1)^ci)&(cq.mask+1) == 0
}

const (
	opcodeBits = 0xf << 4 // of the last 8 bytes of an entry
	formatBits = scatter64 | scatter32

	// header has the bits that entries with the same checks have in common there: QPN, opcode, format, owner.
	header   = numberMask<<32 | opcodeBits | formatBits | 1
	noHeader = 1<<64 - 1 // is no entry's
)

// usual reports whether Poll's loop is for entries of qp that end with tail, if all else is right.
func (cq *CQ) usual(qp *QP, tail uint64) bool {
	op := uint8(tail) >> 4
	return op == cqeReq && tail&formatBits == 0 || op-1 < cqeRespSendInv && (qp.SRQ == nil || qp.SRQ == cq.locked) &&
		(tail&scatter64 == 0 || cq.carries(uint8(tail)))
}

// The results of unusual.
type outcome int

const (
	completed outcome = iota
	reposted          // it is no completion
	stays             // it is usual now
	ofOther           // it is usual for cq.other
	isCorrupt         // pending has the reason
	suspended         // its QP is
	isLost            // pending has the reason, and the start of the next entry is not known
)

// unusual takes entry ci, of qp or of a QP that Find did not find, or only its payload, if the rest was decoded.
//
//go:norace
func (cq *CQ) unusual(wc *WC, qp *QP, ci uint32, decoded bool) outcome {
	p := cq.entry(ci)
	tail := get64(p, offTail)
	num, counter, op := uint32(tail>>32)&numberMask, uint32(tail>>16)&0xffff, uint8(tail)>>4
	if decoded {
		list, segs := qp.list(counter)
		wc.Status = cq.scatter(list, segs, wc.ByteLen, carried(p, uint8(tail)))
		return completed
	}
	if cq.titles(tail) {
		if !cq.expand(ci) {
			cq.corrupt(nil, ci, tail, noBlock)
			return isLost
		}
		return stays
	}
	if op == cqeSigErr {
		return cq.sigErr(p, ci, tail)
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
	if op == cqeReq {
		return cq.send(wc, qp, ci, tail)
	}
	receive := op-1 < cqeRespSendInv
	if receive && qp.SRQ != cq.locked && cq.carries(uint8(tail)) {
		cq.lock(qp.SRQ)
		return stays
	}
	if cq.locked != nil {
		cq.lock(nil)
	}
	if receive && qp.SRQ == nil && cq.carries(uint8(tail)) && qp.RQ.completeAny(counter) {
		cq.taken = true
		return stays
	}
	wrong := noOpcode
	switch {
	case receive && !cq.carries(uint8(tail)):
		wrong = noPayload
	case receive:
		wrong = noRecv
	case op == cqeReqErr || op == cqeRespErr:
		if got := qp.failed(wc, op, counter, p); got != isCorrupt {
			return got
		}
		wrong = noFailed
	}
	cq.corrupt(qp, ci, tail, wrong)
	return isCorrupt
}

// sigErr takes entry ci, which reports a wrong signature.
func (cq *CQ) sigErr(p unsafe.Pointer, ci uint32, tail uint64) outcome {
	if cq.qps.wrongSignature((*[64]byte)(p)) {
		return reposted
	}
	cq.corrupt(nil, ci, tail, noSigErr)
	return isCorrupt
}

// stopped returns what Poll returns after n completions, when pending is set or the lock of an SRQ is held.
func (cq *CQ) stopped(n int) (int, error) {
	if cq.locked != nil {
		cq.lock(nil)
	}
	err := cq.pending
	if err == nil || n > 0 && err != ErrSuspended {
		return n, nil // the next call returns it
	}
	cq.pending = nil
	cq.look()
	if n > 0 {
		return n, nil // the next call looks again
	}
	return 0, err
}

// publish reports completed work requests to the goroutines that post, when everything that those may then overwrite
// has been read.
//
//go:norace
func (q *QP) publish(cq *CQ) {
	if s := &q.SQ; s.polled != own64(&s.done) {
		publish64(&s.done, s.polled)
	}
	if cq.received {
		cq.received = false
		publish32(&q.RQ.done, q.RQ.ci)
	}
}

// plainList is list for Poll's loop, which copies to no memory but this process's: elsewhere it returns no entries.
func (q *QP) plainList(i uint32) (list unsafe.Pointer, segs uint32) {
	if q.SRQ != nil {
		return q.SRQ.list(i), own32(&q.SRQ.plain)
	}
	return q.RQ.list(i), own32(&q.RQ.plain)
}

// list returns where the scatter list of receive WQE i begins, and how many entries it has at most.
func (q *QP) list(i uint32) (list unsafe.Pointer, segs int) {
	if q.SRQ != nil {
		return q.SRQ.list(i), q.SRQ.segs
	}
	return q.RQ.list(i), int(q.RQ.segs)
}

// slot is the record of the send WQE that begins at block counter.
func (q *SQ) slot(counter uint32) *slot {
	return (*slot)(unsafe.Add(unsafe.Pointer(q.slots), uintptr(counter&q.mask)*unsafe.Sizeof(slot{})))
}

// posted reports whether the send WQE with this mark is between the last completed and the last built. If so, it
// completes when polled gets the mark, and all before it.
func (q *SQ) posted(mark uint64) bool { return uint32(mark)-uint32(q.polled)-1 < q.maxWR }

// send takes the completion of a send that may have a result: the opcode of a UMR, a length, or the data of a read or
// atomic that the entry carries, which is copied to the place that the WQE names.
//
//go:norace
func (cq *CQ) send(wc *WC, qp *QP, ci uint32, tail uint64) outcome {
	wrong := noSend
	p, counter, done, op := cq.entry(ci), uint32(tail>>16)&0xffff, uint8(tail>>56), uint8(tail)
	sendOp := posted(&qp.SQ, done, counter)
	kind := sent[sendOp]
	s := qp.SQ.slot(counter)
	switch {
	case kind == 0:
		wrong = noSendOp
	case qp.SQ.posted(s.mark):
		qp.SQ.polled = s.mark
		*wc = WC{ID: s.id, Opcode: uint32(kind & 0xff), QPN: qp.Num, Flags: uint32(kind >> 8 & wcWithImm),
			Timestamp: get64(p, offTimestamp)}
		switch {
		case sendOp == opUMR:
			wc.Opcode = qp.SQ.umrOpcode(counter)
		case kind&sent8 != 0 && done != opNop:
			wc.ByteLen = 8
		case kind&sentLen != 0 && done != opNop:
			wc.ByteLen = get32(p, offByteCnt)
		}
		ok := op&formatBits == 0
		if ok && (done == opMaskedCS || done == opMaskedFA) {
			wc.Status = cq.swapReply(&qp.SQ, counter)
		}
		if !ok && cq.carries(op) {
			wc.Status, ok = cq.scatterSend(qp, counter, wc.ByteLen, carried(p, op))
		}
		if ok {
			return completed
		}
		wrong = noPayload
	}
	cq.corrupt(qp, ci, tail, wrong)
	return isCorrupt
}

// carries reports whether an entry can carry the payload that its format announces: both bits would be the title of a
// block, which was not requested, and 64 bytes come only before an entry of 128 bytes.
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
	syndrome, vendor := *(*uint8)(unsafe.Add(p, offSyndrome)), *(*uint8)(unsafe.Add(p, offVendor))
	*wc = WC{QPN: q.Num, Status: statusOf(syndrome), VendorErr: uint32(vendor)}
	ok := false
	switch {
	case op == cqeReqErr:
		s := q.SQ.slot(counter)
		if ok = q.SQ.posted(s.mark); ok {
			q.SQ.polled = s.mark
			wc.ID = s.id
			q.faults.note(uint32(s.mark), syndrome, vendor)
		}
	case q.SRQ == nil:
		n := q.RQ.number(counter)
		if ok = q.RQ.complete(counter) || q.RQ.completeAny(counter); ok {
			q.RQ.faults.note(n, syndrome, vendor)
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
