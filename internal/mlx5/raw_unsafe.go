package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// Completions of what a raw packet QP receives have the tag of a steering rule where others have the number of a QP.
// Therefore the CQ of its receives has nothing else, unless its sends complete there as well. As for a WQ, one QP
// represents the receives. That an entry is of a send shows in its opcode.

// RawRQ is the receive queue of a raw packet QP. The device learns of its receives when the QP is in RTR: libmlx5,
// which knows of none, writes the doorbell record on the way there.
type RawRQ struct {
	*RQ
	cq     *CQ
	record unsafe.Pointer // the doorbell record
	aside  uint32         // in its place before RTR
}

// AddRaw makes the receive queue that c describes, of q, the CQ's only queue, and returns it. With sends q's sends
// complete on the CQ as well.
func (cq *CQ) AddRaw(q *QP, c *RQConfig, sends bool) *RawRQ {
	if sends {
		cq.sender = q
	}
	cq.raw = true
	r := &RawRQ{RQ: cq.AddWQ(c), cq: cq, record: c.DBRec}
	r.dbrec = unsafe.Pointer(&r.aside)
	return r
}

// Announce announces all receives to the device, from now on at once. The QP is in RTR, and no goroutine is posting.
func (r *RawRQ) Announce() {
	r.dbrec = r.record
	mmio.Record(r.dbrec, bits.ReverseBytes32(r.pi&0xffff))
}

// Reset empties the queue, which the device has reset, and removes all completions of its CQ, whose lock is held.
// No goroutine is posting.
func (r *RawRQ) Reset() {
	r.dbrec = unsafe.Pointer(&r.aside)
	if q := r.cq.sender; q != nil {
		r.cq.Purge(q)
	}
	r.cq.ResetWQ()
}

// Drop removes the queue, whose ring is gone, from its CQ, whose lock is held.
func (r *RawRQ) Drop() {
	r.Reset()
	r.cq.DropWQ()
	r.cq.raw, r.cq.sender = false, nil
}

// side returns the QP that an entry with this opcode and number is of, on the CQ of a raw packet QP's sends and
// receives; nil if it is of neither.
func (cq *CQ) side(op uint8, num uint32) *QP {
	switch {
	case fromPeer(op):
		return cq.xrc
	case (op == cqeReq || op == cqeReqErr) && num == cq.sender.Num:
		return cq.sender
	}
	return nil
}
