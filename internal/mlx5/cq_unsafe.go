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
	buf     unsafe.Pointer // of the 64 bytes that count in entry 0
	mask    uint32
	log     uint8 // of entries
	shift   uint8 // log2 of an entry's size
	ci      uint32
	armSN   atomic.Uint32 // events taken; the reader of the channel counts them
	last    *QP
	qps     *Table
	dbrec   unsafe.Pointer
	uar     unsafe.Pointer
	num     uint32
	pending error // found behind completions that were delivered first
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

// Poll takes completions that are there, at most len(out). An error is a *CQEError: completions before the corrupt one are delivered first, and the next call
// goes on behind it.
//
//go:norace
func (cq *CQ) Poll(out []WC) (int, error) {
	if cq.pending != nil {
		err := cq.pending
		cq.pending = nil
		return 0, err
	}
	n := 0
	ci := cq.ci
	qp := cq.last
	for n < len(out) {
		p := unsafe.Add(cq.buf, uintptr(ci&cq.mask)<<cq.shift)
		tail := bits.ReverseBytes64(mmio.LoadCQE(unsafe.Add(p, offTail)))
		op := uint8(tail) >> 4
		if op == cqeInvalid || uint8(tail)&1 != uint8(ci>>cq.log)&1 {
			break
		}
		ci++
		num := uint32(tail>>32) & numberMask
		if qp == nil || qp.Num != num {
			if qp != nil {
				qp.publish()
			}
			if qp = cq.qps.Find(num); qp == nil {
				cq.pending = cq.corrupt(ci-1, tail, "a QP that is not on this CQ")
				break
			}
		}
		wc := &out[n]
		switch op {
		case cqeReq:
			s := &qp.SQ.slots[uint32(tail>>16)&qp.SQ.mask]
			// The slot must be one that is posted: between the last completed and the last built.
			if uint32(s.mark)-uint32(qp.SQ.polled)-1 >= qp.SQ.maxWR || qp.SQ.buf == nil {
				cq.pending = cq.broken(qp, ci-1, tail, "a send WQE that is not posted")
				goto out
			}
			*wc = WC{ID: s.id, QPN: num, Timestamp: get64(p, offTimestamp)}
			qp.SQ.polled = s.mark
			switch uint8(tail >> 56) {
			case opWrite:
				wc.Opcode = wcWrite
			case opSend, opSendInv:
				wc.Opcode = wcSend
			case opRead:
				wc.Opcode, wc.ByteLen = wcRead, get32(p, offByteCnt)
			case opWriteImm:
				wc.Opcode, wc.Flags = wcWrite, wcWithImm
			case opSendImm:
				wc.Opcode, wc.Flags = wcSend, wcWithImm
			case opAtomicCS:
				wc.Opcode, wc.ByteLen = wcCompareSwap, 8
			case opAtomicFA:
				wc.Opcode, wc.ByteLen = wcFetchAdd, 8
			case opUMR:
				wc.Opcode = wcLocalInv
			case opTSO:
				wc.Opcode = wcTSO
			}
			if f := uint8(tail) & (scatter32 | scatter64); f != 0 {
				data := cq.carried(p, f)
				if data == nil {
					cq.pending = cq.broken(qp, ci-1, tail, "64 bytes of payload in an entry of 64 bytes")
					goto out
				}
				wc.Status = qp.scatterSend(uint32(tail>>16), wc.ByteLen, data)
			}
		case cqeRespSend, cqeRespSendImm, cqeRespSendInv, cqeRespWrImm:
			*wc = WC{QPN: num, Opcode: wcRecv, ByteLen: get32(p, offByteCnt), Timestamp: get64(p, offTimestamp)}
			if !cq.recv(qp, wc, uint32(tail>>16)&0xffff, p, uint8(tail)) {
				cq.pending = cq.broken(qp, ci-1, tail, "a receive WQE that is not posted")
				goto out
			}
			imm := get32(p, offImm)
			switch op {
			case cqeRespSendImm:
				wc.Flags, wc.Imm = wcWithImm, imm
			case cqeRespWrImm:
				wc.Flags, wc.Imm, wc.Opcode = wcWithImm, imm, wcRecvImm
			case cqeRespSendInv:
				wc.Flags, wc.InvalidatedRKey = wcWithInv, imm
			}
			f := get32(p, offFlagsRQPN)
			wc.SrcQPN, wc.SL = f&numberMask, uint8(f>>24)&0xf
			if f>>28&3 != 0 {
				wc.Flags |= wcGRH
			}
			wc.SLID = uint16(get32(p, offSLID-2))
			wc.DLIDPathBits = *(*uint8)(unsafe.Add(p, offMLPath)) & 0x7f
			wc.PKeyIndex = uint16(imm)
		case cqeReqErr, cqeRespErr:
			ok, skip := cq.failed(qp, wc, op, uint32(tail>>16)&0xffff, p)
			if !ok {
				cq.pending = cq.broken(qp, ci-1, tail, "a WQE that is not posted, in error")
				goto out
			}
			if skip {
				continue
			}
		default:
			cq.pending = cq.broken(qp, ci-1, tail, "an opcode that this CQ was not made for")
			goto out
		}
		n++
	}
out:
	if qp != nil {
		qp.publish()
		cq.last = qp
	}
	if ci != cq.ci {
		cq.ci = ci
		mmio.Consumed(cq.dbrec, bits.ReverseBytes32(ci&numberMask))
	}
	if n == 0 && cq.pending != nil {
		err := cq.pending
		cq.pending = nil
		return 0, err
	}
	return n, nil
}

// carried is the payload that a CQE carries: its own first 32 bytes, or the 64 bytes before it, which only an entry of 128 bytes has.
func (cq *CQ) carried(p unsafe.Pointer, f uint8) []byte {
	switch {
	case f&scatter32 != 0:
		return unsafe.Slice((*byte)(p), 32)
	case cq.shift == 7:
		return unsafe.Slice((*byte)(unsafe.Add(p, -64)), 64)
	}
	return nil
}

// recv completes the receive that a CQE names.
//
//go:norace
func (cq *CQ) recv(qp *QP, wc *WC, counter uint32, p unsafe.Pointer, own uint8) bool {
	var carried []byte
	if f := own & (scatter32 | scatter64); f != 0 {
		if carried = cq.carried(p, f); carried == nil {
			return false
		}
	}
	if s := qp.SRQ; s != nil {
		var ok bool
		wc.ID, wc.Status, ok = s.take(counter, wc.ByteLen, carried)
		return ok
	}
	r := &qp.RQ
	i, ok := r.take(counter)
	if !ok {
		return false
	}
	wc.ID = r.ids[i]
	if carried != nil {
		wc.Status = scatter(unsafe.Add(r.buf, uintptr(i)*r.stride), r.segs, wc.ByteLen, carried)
	}
	return true
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
		return cq.recv(qp, wc, counter, p, 0), false
	}
	if qp.SQ.buf == nil {
		return false, false
	}
	s := &qp.SQ.slots[counter&qp.SQ.mask]
	if uint32(s.mark)-uint32(qp.SQ.polled)-1 >= qp.SQ.maxWR {
		return false, false
	}
	wc.ID = s.id
	qp.SQ.polled = s.mark
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
		mmio.Consumed(cq.dbrec, bits.ReverseBytes32(cq.ci&numberMask))
	}
	if cq.last == qp {
		cq.last = nil
	}
}
