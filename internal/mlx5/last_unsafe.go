package mlx5

import (
	"slices"
	"unsafe"
)

// LastSends returns the last work requests, at most n, that the send queue's ring still has, the oldest first. No
// goroutine posts or polls meanwhile. The next block is not looked at: Build may have written to it what was then
// refused.
//
//go:norace
func (q *QP) LastSends(form Form, n int) (sent []Sent) {
	s := &q.SQ
	if s.buf == nil {
		return nil
	}
	r := sendRing(unsafe.Slice((*byte)(s.buf), int(s.mask+1)<<blockShift))
	done, end := uint32(s.done.Load()), s.cur
	for head := s.head; len(sent) < n && head != 0; head-- {
		i, mark := end-1, uint64(end)<<32|uint64(head)
		for s.slot(i).mark != mark && end-i < maxBlocks {
			i--
		}
		if s.slot(i).mark != mark || s.cur-i > s.mask {
			break
		}
		w := r.parse(i, end-i, form, s.completion(i, end))
		w.ID, w.Damaged = s.slot(i).id, !r.begins(i, end-i, q.Num)
		if w.Outcome = Pending; int32(done-head) >= 0 {
			w.Outcome, w.Status, w.VendorErr = q.faults.outcome(head)
		}
		sent = append(sent, w)
		end = i
	}
	slices.Reverse(sent)
	return sent
}

// completion is the opcode that endUMR stored for the WQE in the blocks from i to end, if it is a UMR.
//
//go:norace
func (q *SQ) completion(i, end uint32) uint64 {
	if end-i < 2 {
		return 0
	}
	return q.slot(i + 1).id
}

// Last is LastSends for the receive queue.
//
//go:norace
func (q *RQ) Last(n int) (received []Received) {
	for i := q.pi; len(received) < min(n, int(q.wqes)) && i != 0; {
		o, status, vendor := q.faults.outcome(i)
		if int32(i-q.ci) > 0 && !q.isEarly(i-1) {
			o, status, vendor = Pending, 0, 0
		}
		i--
		received = append(received, Received{
			RecvWR:  RecvWR{ID: *q.id(i), SGEs: ParseRecv(unsafe.Slice((*byte)(q.list(i)), q.stride))},
			Outcome: o, Index: uint16(i), Status: status, VendorErr: vendor,
		})
	}
	slices.Reverse(received)
	return received
}
