package mlx5

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// CQConfig is where a completion queue lies.
type CQConfig struct {
	Num     uint32 // CQN
	Buf     unsafe.Pointer
	Entries uint32 // a power of two
	Size    uint32 // of an entry: 64 or 128
	DBRec   unsafe.Pointer
	UAR     unsafe.Pointer
	QPs     *Table
}

// CQ is a completion queue.
type CQ struct {
	buf      unsafe.Pointer // of the 64 bytes that count in entry 0
	mask     uint32
	log      uint8 // of entries
	shift    uint8 // log2 of an entry's size
	ci       uint32
	armSN    atomic.Uint32 // events taken; the reader of the channel counts them
	last     *QP
	qps      *Table
	dbrec    unsafe.Pointer
	uar      unsafe.Pointer
	num      uint32
	lastRecv bool  // what came last was a receive
	pending  error // found behind completions that were delivered first
}

// NewCQ takes a CQ over, before anything used it.
func NewCQ(c *CQConfig) *CQ {
	cq := &CQ{
		buf: c.Buf, mask: c.Entries - 1, log: uint8(bits.TrailingZeros32(c.Entries)), shift: uint8(bits.TrailingZeros32(c.Size)),
		dbrec: c.DBRec, uar: c.UAR, num: c.Num, qps: c.QPs,
	}
	if c.Size == 128 {
		cq.buf = unsafe.Add(c.Buf, 64)
	}
	return cq
}

// Offsets in a CQE. C: struct mlx5_cqe64, struct mlx5_err_cqe.
const (
	offMLPath    = 17
	offSLID      = 22
	offFlagsRQPN = 24
	offImm       = 36
	offByteCnt   = 44
	offTimestamp = 48
	offVendor    = 54
	offSyndrome  = 55
	offTail      = 56 // opcode and QPN, WQE counter, signature, op_own
)

func get32(p unsafe.Pointer, off uintptr) uint32 {
	return bits.ReverseBytes32(*(*uint32)(unsafe.Add(p, off)))
}

func get64(p unsafe.Pointer, off uintptr) uint64 {
	return bits.ReverseBytes64(*(*uint64)(unsafe.Add(p, off)))
}

// What is wrong with a CQE.
const (
	noQP      = "a QP that is not there"
	noSend    = "a send WQE that is not posted"
	noSendOp  = "a send WQE of an opcode that is not posted here"
	noRecv    = "a receive WQE that is not posted"
	noFailed  = "a WQE that is not posted, in error"
	noPayload = "a payload that it cannot carry"
	noOpcode  = "an opcode that this CQ was not made for"
)

// received tells of a receive's CQE: what the completion has, and where the immediate field goes.
var received = [8]struct {
	opcode, flags uint32
	imm, inv      uint64
}{
	cqeRespSend:    {opcode: wcRecv},
	cqeRespSendImm: {opcode: wcRecv, flags: wcWithImm, imm: 1<<32 - 1},
	cqeRespSendInv: {opcode: wcRecv, flags: wcWithInv, inv: (1<<32 - 1) << 32},
	cqeRespWrImm:   {opcode: wcRecvImm, flags: wcWithImm, imm: 1<<32 - 1},
}

// A WC as Poll writes it, in words: fewer stores. The processors of this package are little-endian.
var (
	_ [0]byte = [unsafe.Sizeof(WC{}) - 64]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.Opcode) - 12]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.ByteLen) - 20]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.InvalidatedRKey) - 28]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.SrcQPN) - 36]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.Flags) - 40]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.PKeyIndex) - 44]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.SL) - 48]byte{}
)

// Poll takes completions that are there, at most len(out). An error is a *CQEError: completions before the corrupt one are delivered first, and the next call
// goes on behind it.
//
//go:norace
func (cq *CQ) Poll(out []WC) (n int, err error) {
	// Mostly what comes is of the kind and of the QP that came last: successful sends and writes are taken here, receives in the next function,
	// all others in pollAny.
	qp := cq.last
	if qp == nil || cq.pending != nil || cq.lastRecv {
		return cq.pollReceives(out)
	}
	const plain = numberMask<<32 | 0xfd // QPN, opcode, format, owner
	q := &qp.SQ
	num := uint64(qp.Num)
	polled, ci := q.polled, cq.ci
	slots := unsafe.Pointer(unsafe.SliceData(q.slots))
	for ; n < len(out); n++ {
		p := cq.entry(ci)
		tail := bits.ReverseBytes64(mmio.LoadCQE(unsafe.Add(p, offTail)))
		kind := uint64(sent[tail>>56])
		own := cq.owner(ci)
		if tail&plain != num<<32|uint64(own) || kind-known >= sentLen-known {
			if uint8(tail)&1 != own || uint8(tail)>>4 == cqeInvalid {
				break
			}
			next := cq.qps.Find(uint32(tail >> 32))
			if uint8(tail)&0xfd != own || kind-known >= sentLen-known || next == nil {
				return cq.pollRest(out, n, q, polled)
			}
			q.polled = polled
			publish64(&q.done, polled)
			q, num, polled, slots = &next.SQ, uint64(next.Num), next.SQ.polled, unsafe.Pointer(unsafe.SliceData(next.SQ.slots))
			cq.last = next
		}
		s := (*slot)(unsafe.Add(slots, uintptr(uint32(tail>>16)&q.mask)*unsafe.Sizeof(slot{})))
		mark := s.mark
		// The slot must be one that is posted: between the last completed and the last built.
		if uint32(mark)-uint32(polled)-1 >= q.maxWR {
			return cq.pollRest(out, n, q, polled)
		}
		polled = mark
		wc := (*[8]uint64)(unsafe.Pointer(&out[n]))
		wc[0] = s.id
		wc[1] = kind & 0xff << 32
		wc[2] = 0
		wc[3] = 0
		wc[4] = num
		wc[5] = kind >> 8 & wcWithImm
		wc[6] = 0
		wc[7] = get64(p, offTimestamp)
		ci++
	}
	if n != 0 {
		q.polled = polled
		publish64(&q.done, polled)
		cq.ci = ci
		mmio.Consumed(cq.dbrec, bits.ReverseBytes32(ci&numberMask))
	}
	return n, nil
}

// pollReceives is Poll when a receive came last.
//
//go:norace
func (cq *CQ) pollReceives(out []WC) (n int, err error) {
	qp := cq.last
	if qp == nil || cq.pending != nil || !cq.lastRecv || qp.SRQ != nil {
		return cq.pollAny(out, 0)
	}
	r := &qp.RQ
	num := uint64(qp.Num)
	polled, ci := r.polled, cq.ci
	for ; n < len(out); n++ {
		p := cq.entry(ci)
		tail := bits.ReverseBytes64(mmio.LoadCQE(unsafe.Add(p, offTail)))
		op, own := uint8(tail)>>4, cq.owner(ci)
		if op == cqeInvalid || uint8(tail)&1 != own {
			break
		}
		if polled == r.known {
			r.known = r.head // as it was before the doorbell, at least
		}
		i := uintptr(polled & r.mask)
		f := uint8(tail) & (scatter32 | scatter64)
		// Receives complete in order.
		if tail>>32&numberMask != num || op-1 >= cqeRespSendInv || polled == r.known || uint32(tail>>16)&0xffff&r.mask != uint32(i) || f&scatter64 != 0 {
			r.polled = polled
			publish32(&r.done, polled)
			return cq.pollAny(out, n)
		}
		length := get32(p, offByteCnt)
		status := uint32(0)
		if f != 0 {
			list := unsafe.Add(r.buf, i*r.stride)
			if length <= get32(list, 0) && length-16 <= 32-16 { // one SGE has room
				to := addrAt(get64(list, 8))
				copyLong(to, p, uintptr(length))
			} else {
				status = scatter(list, r.segs, length, unsafe.Slice((*byte)(p), 32))
			}
		}
		wc := (*[8]uint64)(unsafe.Pointer(&out[n]))
		wc[0] = *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(r.ids)), i*8))
		fillReceived(wc, p, num, op, length, status)
		polled++
		ci++
	}
	if n != 0 {
		r.polled = polled
		publish32(&r.done, polled)
		cq.ci = ci
		mmio.Consumed(cq.dbrec, bits.ReverseBytes32(ci&numberMask))
	}
	return n, nil
}

// pollRest is what Poll does from the first entry on that it does not take itself.
//
//go:norace
func (cq *CQ) pollRest(out []WC, n int, q *SQ, polled uint64) (int, error) {
	q.polled = polled
	publish64(&q.done, polled)
	return cq.pollAny(out, n)
}

// pollAny is Poll, when out[:n] are taken already.
//
//go:norace
func (cq *CQ) pollAny(out []WC, n int) (int, error) {
	ci := cq.ci + uint32(n)
	qp := cq.last
	suspended := false
	for n < len(out) && cq.pending == nil {
		p := cq.entry(ci)
		tail := bits.ReverseBytes64(mmio.LoadCQE(unsafe.Add(p, offTail)))
		op := uint8(tail) >> 4
		if op == cqeInvalid || uint8(tail)&1 != cq.owner(ci) {
			break
		}
		ci++
		num := uint32(tail>>32) & numberMask
		if qp == nil || qp.Num != num {
			if qp = cq.qps.Find(num); qp == nil {
				if cq.qps.suspended(num) {
					ci--
					suspended = true
				} else if qp = cq.qps.Find(num); qp == nil {
					cq.pending = cq.corrupt(ci-1, tail, noQP)
				}
			}
			if qp == nil {
				break
			}
		}
		cq.lastRecv = op-1 < cqeRespSendInv
		wrong, skip := cq.one(&out[n], qp, p, tail)
		if wrong != "" {
			cq.pending = cq.broken(qp, ci-1, tail, wrong)
		} else if !skip {
			n++
		}
	}
	cq.last = qp
	if ci != cq.ci {
		cq.ci = ci
		mmio.Consumed(cq.dbrec, bits.ReverseBytes32(ci&numberMask))
	}
	if n == 0 && cq.pending != nil {
		err := cq.pending
		cq.pending = nil
		return 0, err
	}
	if n == 0 && suspended {
		return 0, ErrSuspended
	}
	return n, nil
}

// Leave makes the CQ let go of qp, which is suspended.
func (cq *CQ) Leave(qp *QP) {
	if cq.last == qp {
		cq.last = nil
	}
}

// Empty says that no completion is there.
//
//go:norace
func (cq *CQ) Empty() bool {
	own := uint8(mmio.LoadCQE(unsafe.Add(cq.entry(cq.ci), offTail)) >> 56) // the last byte
	return (own>>4 == cqeInvalid || own&1 != cq.owner(cq.ci)) && cq.pending == nil
}

// entry is where the 64 bytes that count of entry ci lie.
func (cq *CQ) entry(ci uint32) unsafe.Pointer {
	return unsafe.Add(cq.buf, uintptr(ci&cq.mask)<<(cq.shift&7))
}

// owner is the owner bit that entry ci has when it is ours.
func (cq *CQ) owner(ci uint32) uint8 { return uint8(ci>>(cq.log&31)) & 1 }

// fillReceived fills all of a completion but its id. The last of it means nothing when the payload is in its place; libmlx5 hands that on, too. It counts on UD,
// which has no such payload.
func fillReceived(wc *[8]uint64, p unsafe.Pointer, num uint64, op uint8, length, status uint32) {
	imm, from, path := uint64(get32(p, offImm)), get32(p, offFlagsRQPN), get64(p, offMLPath-1)
	kind := &received[op&7]
	wc[1] = uint64(kind.opcode)<<32 | uint64(status)
	wc[2] = uint64(length) << 32
	wc[3] = imm&kind.imm | imm<<32&kind.inv
	wc[4] = uint64(from&numberMask)<<32 | num
	wc[5] = path&0xffff<<48 | imm&0xffff<<32 | uint64(kind.flags) | uint64((from>>28|from>>29)&wcGRH)
	wc[6] = path>>48&0x7f<<8 | uint64(from>>24&0xf)
	wc[7] = get64(p, offTimestamp)
}

// one takes an entry of any kind. It says what is wrong with it, or that it is no completion.
//
//go:norace
func (cq *CQ) one(out *WC, qp *QP, p unsafe.Pointer, tail uint64) (wrong string, skip bool) {
	counter, op := uint32(tail>>16)&0xffff, uint8(tail)>>4
	wc := (*[8]uint64)(unsafe.Pointer(out))
	switch op {
	case cqeReq:
		kind := uint64(sent[tail>>56])
		if kind == 0 {
			return noSendOp, false
		}
		s := qp.SQ.take(counter)
		if s == nil {
			return noSend, false
		}
		wc[0] = s.id
		wc[1] = kind & 0xff << 32
		wc[2] = 0
		wc[3] = 0
		wc[4] = uint64(qp.Num)
		wc[5] = kind >> 8 & wcWithImm
		wc[6] = 0
		wc[7] = get64(p, offTimestamp)
		switch {
		case kind >= sent8:
			out.ByteLen = 8
		case kind >= sentLen:
			out.ByteLen = get32(p, offByteCnt)
		}
		if f := uint8(tail) & (scatter32 | scatter64); f != 0 {
			status, ok := qp.scatterSend(counter, out.ByteLen, cq.carried(p, f))
			if !ok {
				return noPayload, false
			}
			out.Status = status
		}
		publish64(&qp.SQ.done, qp.SQ.polled)
	case cqeRespSend, cqeRespSendImm, cqeRespSendInv, cqeRespWrImm:
		length := get32(p, offByteCnt)
		id, status, ok := cq.recv(qp, counter, length, p, uint8(tail))
		if !ok {
			if f := uint8(tail) & (scatter32 | scatter64); f != 0 && cq.carried(p, f) == nil {
				return noPayload, false
			}
			return noRecv, false
		}
		wc[0] = id
		fillReceived(wc, p, uint64(qp.Num&numberMask), op, length, status)
	case cqeReqErr, cqeRespErr:
		ok, skip := cq.failed(qp, out, op, counter, p)
		if !ok {
			return noFailed, false
		}
		return "", skip
	default:
		return noOpcode, false
	}
	return "", false
}

// take completes the send WQE that begins at block counter; nil if none is posted there.
//
//go:norace
func (q *SQ) take(counter uint32) *slot {
	if q.buf == nil {
		return nil
	}
	s := &q.slots[counter&q.mask]
	// Between the last completed and the last built.
	if uint32(s.mark)-uint32(q.polled)-1 >= q.maxWR {
		return nil
	}
	q.polled = s.mark
	return s
}

// carried is the payload that a CQE carries: its own first 32 bytes, or the 64 bytes before it, which only an entry of 128 bytes has. Both bits would be a
// compressed CQE, which nobody asked for.
func (cq *CQ) carried(p unsafe.Pointer, f uint8) []byte {
	switch {
	case f == scatter32:
		return unsafe.Slice((*byte)(p), 32)
	case f == scatter64 && cq.shift == 7:
		return unsafe.Slice((*byte)(unsafe.Add(p, -64)), 64)
	}
	return nil
}

// recv completes the receive that a CQE names; its payload, if the CQE carries that, goes where the receive says.
//
//go:norace
func (cq *CQ) recv(qp *QP, counter, n uint32, p unsafe.Pointer, own uint8) (id uint64, status uint32, ok bool) {
	var carried []byte
	if f := own & (scatter32 | scatter64); f != 0 {
		if carried = cq.carried(p, f); carried == nil {
			return 0, 0, false
		}
	}
	if s := qp.SRQ; s != nil {
		return s.take(counter, n, carried)
	}
	r := &qp.RQ
	i, ok := r.take(counter)
	if !ok {
		return 0, 0, false
	}
	if carried != nil {
		status = scatter(unsafe.Add(r.buf, uintptr(i)*r.stride), r.segs, n, carried)
	}
	id = r.ids[i]
	publish32(&r.done, r.polled)
	return id, status, true
}

// failed completes what an error CQE names. skip: it was handled and is no completion.
//
//go:norace
func (cq *CQ) failed(qp *QP, wc *WC, op uint8, counter uint32, p unsafe.Pointer) (ok, skip bool) {
	syndrome := *(*uint8)(unsafe.Add(p, offSyndrome))
	*wc = WC{QPN: qp.Num, Status: statusOf(syndrome), VendorErr: uint32(*(*uint8)(unsafe.Add(p, offVendor)))}
	if op == cqeRespErr {
		const aborted, pageFault = 0x22, 0x93
		if qp.SRQ != nil && syndrome == aborted && wc.VendorErr == pageFault {
			return qp.SRQ.repost(counter), true
		}
		wc.ID, _, ok = cq.recv(qp, counter, 0, p, 0)
		return ok, false
	}
	s := qp.SQ.take(counter)
	if s == nil {
		return false, false
	}
	wc.ID = s.id
	publish64(&qp.SQ.done, qp.SQ.polled)
	return true, false
}

// Arm asks for one event at the next completion, or with solicited at the next solicited or failed one.
func (cq *CQ) Arm(solicited bool) {
	rec := cq.armSN.Load()&3<<28 | cq.ci&numberMask
	if solicited {
		rec |= armSolicited
	}
	mmio.ArmCQ(unsafe.Add(cq.dbrec, 4), bits.ReverseBytes32(rec), unsafe.Add(cq.uar, armOffset), bits.ReverseBytes64(uint64(rec)<<32|uint64(cq.num)))
}

// Event counts an event that was taken from the channel: the device takes the next arming only with the right count. It may be called at any time.
func (cq *CQ) Event() { cq.armSN.Add(1) }

// Purge removes the completions of a QP that is destroyed or reset; no new one may arrive. Receives of an SRQ go back to it. C: __mlx5_cq_clean.
func (cq *CQ) Purge(qp *QP) {
	prod := cq.ci
	for prod-cq.ci <= cq.mask {
		p := unsafe.Add(cq.buf, uintptr(prod&cq.mask)<<cq.shift)
		tail := uint8(bits.ReverseBytes64(mmio.LoadCQE(unsafe.Add(p, offTail))))
		if tail>>4 == cqeInvalid || tail&1 != uint8(prod>>cq.log)&1 {
			break
		}
		prod++
	}
	size := uintptr(1) << cq.shift
	var freed uint32
	for prod != cq.ci {
		prod--
		p := unsafe.Add(cq.buf, uintptr(prod&cq.mask)<<cq.shift)
		tail := get64(p, offTail)
		if uint32(tail>>32)&numberMask == qp.Num {
			if op := uint8(tail) >> 4; qp.SRQ != nil && op != cqeReq && op != cqeReqErr {
				qp.SRQ.take(uint32(tail>>16)&0xffff, 0, nil)
			}
			freed++
			continue
		}
		if freed == 0 {
			continue
		}
		// It moves up, and keeps the owner bit of the place it moves to.
		to := unsafe.Add(cq.buf, uintptr((prod+freed)&cq.mask)<<cq.shift)
		own := *(*uint8)(unsafe.Add(to, 63)) & 1
		whole := size - 64 // a 128-byte entry has its other half in front
		copy(unsafe.Slice((*byte)(unsafe.Add(to, -int(whole))), size), unsafe.Slice((*byte)(unsafe.Add(p, -int(whole))), size))
		b := (*uint8)(unsafe.Add(to, 63))
		*b = *b&^1 | own
	}
	if freed > 0 {
		cq.ci += freed
		mmio.Moved(cq.dbrec, bits.ReverseBytes32(cq.ci&numberMask))
	}
	cq.Leave(qp)
}
