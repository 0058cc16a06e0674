//go:build linux

package verbs

import (
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Elements of the scheduler: a tree of nodes, to whose leaves QPs are attached. Their shares and rates are kept, and
// have no effect here. Fields are those of struct mlx5_ifc_sched_elem_bits, C: MLX5_SCHED_*.
const (
	objScheduler = 0x26

	schedNIC   = 3      // hierarchy
	schedNode  = 0      // type: one with others below it
	schedLeaf  = 4      // type: a group of queues
	schedDWRR  = 0      // how a node chooses
	schedShare = 1 << 0 // what is set
	schedRate  = 1 << 1
)

var (
	schedSelect    = uapi.Bits{At: 0x00, Len: 64}
	schedHierarchy = uapi.Bits{At: 0x40, Len: 8}
	schedType      = uapi.Bits{At: 0x100, Len: 8}
	schedChoice    = uapi.Bits{At: 0x128, Len: 8}
	schedParent    = uapi.Bits{At: 0x140, Len: 32}
	schedFields    = map[uint64]uapi.Bits{schedShare: {At: 0x1a0, Len: 32}, schedRate: {At: 0x1c0, Len: 32}}
)

// createScheduler makes an element below a node, or a root if it names none.
func createScheduler(d *command, o *hca.DevxObject) uapi.Status {
	b, typ := o.Body, schedType.Get(o.Body)
	switch {
	case schedHierarchy.Get(b) != schedNIC, typ != schedNode && typ != schedLeaf, schedChoice.Get(b) != schedDWRR,
		schedSelect.Get(b)&^(schedShare|schedRate) != 0:
		return uapi.StatusBadParam
	}
	if n := uint32(schedParent.Get(b)); n != 0 || typ == schedLeaf {
		parent := hca.General(d.ctx, objScheduler, n)
		if parent == nil || schedType.Get(parent.Body) != schedNode {
			return uapi.StatusBadResource
		}
		o.Use(parent)
	}
	o.Num = d.ctx.Device.NextNumber()
	return uapi.StatusOK
}

// modifyScheduler changes an element's share or rate.
func modifyScheduler(d *command, o *hca.DevxObject) uapi.Status {
	b := d.in[uapi.CmdHeader:]
	fields := schedSelect.Get(b)
	if schedHierarchy.Get(b) != schedNIC || fields&^(schedShare|schedRate) != 0 {
		return uapi.StatusBadParam
	}
	for bit, f := range schedFields {
		if fields&bit != 0 {
			f.Put(o.Body, f.Get(b))
		}
	}
	return uapi.StatusOK
}

// leaf reports whether a queue can be attached to an element; 0 is none.
func (d *command) leaf(num uint64) bool {
	if num == 0 {
		return true
	}
	o := hca.General(d.ctx, objScheduler, uint32(num))
	return o != nil && schedType.Get(o.Body) == schedLeaf
}

// schedulable reports whether a command attaches a QP to leaves: requests, and answers of an RC QP.
func (d *command) schedulable(qp *hca.QP) bool {
	answers := qpExtResp.Get(d.in)
	return d.ctx.Device.Recent() && qpExtends.Get(d.in) != 0 && (answers == 0 || qp.Type == hca.RC) &&
		d.leaf(qpExtReq.Get(d.in)) && d.leaf(answers)
}

// C: struct mlx5_ifc_modify_sq_in_bits, sqc_bits.
var (
	sqFrom  = uapi.Bits{At: 0x40, Len: 4}
	sqMask  = uapi.Bits{At: 0x80, Len: 64}
	sqTo    = uapi.Bits{At: 0x100 + 0x08, Len: 4}
	sqGroup = uapi.Bits{At: 0x100 + 0x110, Len: 16}
)

// modifySQ attaches the send queue of a raw packet QP to a leaf.
func modifySQ(d *command, o any) uapi.Status {
	const ready, group = 1, 1 << 2 // C: MLX5_SQC_STATE_RDY, MLX5_MODIFY_SQ_BITMASK_QOS_QUEUE_GROUP_ID
	qp, ok := o.(*hca.QP)
	switch {
	case !ok || qp.Type != hca.RawPacket:
		return uapi.StatusBadResource
	case sqFrom.Get(d.in) != ready, qp.State != hca.RTS:
		return uapi.StatusBadState
	case sqTo.Get(d.in) != ready, sqMask.Get(d.in) != group, !d.ctx.Device.Recent(),
		!d.leaf(sqGroup.Get(d.in)):
		return uapi.StatusBadParam
	}
	return uapi.StatusOK
}
