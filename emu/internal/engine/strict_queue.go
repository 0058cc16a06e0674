//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// sendState is a send that was posted before its QP is ready to send.
func (s *checks) sendState(qp *hca.QP) {
	s.violateQP(qp, RulePostState, " is in %v, a send needs RTS", qp.State)
}

// receives comes when a receive doorbell record moved.
func (s *checks) receives(qp *hca.QP) {
	if !s.on() {
		return
	}
	switch out := qp.Run.Posted - qp.Run.Head; {
	case out > qp.RQ.Count:
		s.violateQP(qp, RuleRQAhead, ": %d receives are announced, the queue has %d", out, qp.RQ.Count)
	case qp.RecvCQ != nil && out > qp.RecvCQ.Entries:
		s.violateQP(qp, RuleRQNoRoom, ": %d receives are posted, their CQ has %d entries", out, qp.RecvCQ.Entries)
	}
}

// emptySegment comes when an SRQ's receive is used. Its segments are those behind the link.
//
// Linux, drivers/infiniband/hw/mlx5/odp.c, pagefault_data_segments: a data segment of length 0 is one of 2 GiB.
func (s *checks) emptySegment(srq *hca.SRQ, segs []byte) {
	if !s.on() {
		return
	}
	for ; len(segs) >= 16; segs = segs[16:] {
		if binary.BigEndian.Uint32(segs) != 0 {
			continue
		}
		// After a list that fills its entry there may be memory that nobody wrote.
		if key := binary.BigEndian.Uint32(segs[4:]); key != invalidLKey && key != 0 {
			s.violate(srq.Mem.PID, RuleSRQEmpty, "SRQ 0x%x: a receive has a segment of no bytes", srq.Num)
		}
		return
	}
}

// unreadable is a queue, send or receive, that cannot be read.
func (s *checks) unreadable(qp *hca.QP, queue string) {
	s.violateQP(qp, RuleRingUnmapped, ": its %s queue or doorbell record cannot be read", queue)
}

// armed comes with an arming whose sequence number is not the next. One behind is a program that arms again before it
// read the event: the event is its answer.
func (s *checks) armed(cq *hca.CQ, sn uint8) {
	if want := cq.Run.SN; sn != (want-1)&3 {
		s.violateCQ(cq, RuleCQArmSequence, "armed with sequence number %d, want %d", sn, want)
	}
}
