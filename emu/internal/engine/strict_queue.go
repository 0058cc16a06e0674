//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// sendState is a send that was posted before its QP is ready to send.
func (s *checks) sendState(qp *hca.QP) {
	s.violateQP(qp, RulePostState, " is in "+qp.State.String()+", a send needs RTS")
}

// outstanding is a READ or an atomic beyond the resources of the responder.
func (s *checks) outstanding(qp *hca.QP, own, most uint8) {
	s.violateQP(qp, RuleRdAtomic, ": max_rd_atomic is "+u(uint32(own))+", max_dest_rd_atomic of the peer "+
		u(uint32(most))+", and more are outstanding")
}

// sendAhead is a send doorbell record that is too far ahead.
func (s *checks) sendAhead(qp *hca.QP) {
	ahead := qp.Run.Announced - qp.Run.Tail
	s.violateQP(qp, RuleSQAhead, ": "+u(ahead)+" blocks are announced, the send queue has "+u(qp.SQ.Count))
}

// receives comes when a receive doorbell record moved.
func (s *checks) receives(qp *hca.QP) {
	if !s.on() {
		return
	}
	switch out := qp.Run.Posted - qp.Run.Head; {
	case out > qp.RQ.Count:
		s.violateQP(qp, RuleRQAhead, ": "+u(out)+" receives are announced, the queue has "+u(qp.RQ.Count))
	case qp.RecvCQ != nil && out > qp.RecvCQ.Entries:
		s.violateQP(qp, RuleRQNoRoom,
			": "+u(out)+" receives are posted, their CQ has "+u(qp.RecvCQ.Entries)+" entries")
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
			s.violate(srq.Mem.PID, RuleSRQEmpty, "SRQ 0x"+hex(srq.Num)+": a receive has a segment of no bytes")
		}
		return
	}
}

// unreadable is a queue, send or receive, that cannot be read.
func (s *checks) unreadable(qp *hca.QP, queue string) {
	s.violateQP(qp, RuleRingUnmapped, ": its "+queue+" queue or doorbell record cannot be read")
}

func (s *checks) unreadableSRQ(srq *hca.SRQ) {
	s.violate(srq.Mem.PID, RuleRingUnmapped,
		"SRQ 0x"+hex(srq.Num)+": its ring or doorbell record cannot be read")
}

func (s *checks) unwritable(cq *hca.CQ) {
	s.violateCQ(cq, RuleRingUnmapped, "its ring cannot be written")
}

// overrun is a completion that finds its CQ full.
func (s *checks) overrun(cq *hca.CQ) {
	s.violateCQ(cq, RuleCQOverrun, u(cq.Entries)+" entries are taken: poll more often or create it larger")
}

// consumer is a consumer index that passed the producer's.
func (s *checks) consumer(cq *hca.CQ, v uint32) {
	s.violateCQ(cq, RuleCQConsumer, "consumer index "+u(v)+" is beyond the producer's "+u(cq.Run.PI&0xffffff))
}

// armed comes with an arming whose sequence number is not the next. One behind is a program that arms again before it
// read the event: the event is its answer.
func (s *checks) armed(cq *hca.CQ, sn uint8) {
	if want := cq.Run.SN; sn != (want-1)&3 {
		s.violateCQ(cq, RuleCQArmSequence, "armed with sequence number "+u(uint32(sn))+", want "+u(uint32(want)))
	}
}
