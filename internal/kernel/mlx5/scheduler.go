package mlx5

import (
	"encoding/binary"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// schedule fills in a command about an element.
func schedule(in []byte, kind uint32, a *abi.MLX5DVSchedAttr, parent uint32) {
	// C: struct mlx5_ifc_create_sched_elem_in_bits.
	const fields, hierarchy, nic, element, parentAt, shareAt, rateAt = 0x10, 0xc0, 3, 0x180, 0x1c0, 0x220, 0x240
	binary.BigEndian.PutUint64(in[fields:], uint64(a.Flags))
	setBits(in, hierarchy, 8, nic)
	setBits(in, element, 8, kind)
	setBits(in, parentAt, 32, parent)
	if a.Flags&abi.MLX5DV_SCHED_ELEM_ATTR_FLAGS_BW_SHARE != 0 {
		setBits(in, shareAt, 32, a.BWShare)
	}
	if a.Flags&abi.MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW != 0 {
		setBits(in, rateAt, 32, a.MaxAvgBW)
	}
}

const schedSize = 128

// checkSched reports what is wrong with the attributes of an element.
func (c scheduler) checkSched(kind uint32, a *abi.MLX5DVSchedAttr) error {
	const shareFlag, rateFlag = abi.MLX5DV_SCHED_ELEM_ATTR_FLAGS_BW_SHARE, abi.MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW
	if a.CompMask != 0 || a.Flags&^(shareFlag|rateFlag) != 0 || a.Parent == 0 && (a.Flags != 0 || kind == schedLeaf) {
		return syscall.EINVAL
	}
	// C: struct mlx5_ifc_qos_cap_bits.
	const shares, rates, elements, nodes, dwrr = 0x9, 0xa, 0x100, 0x110, 1
	if !c.queryCaps(capsGeneral).has(capQoS) {
		return syscall.EOPNOTSUPP
	}
	q := c.queryCaps(capsQoS)
	const all = 1<<schedNode | 1<<schedLeaf
	if a.Flags&shareFlag != 0 && !q.has(shares) || a.Flags&rateFlag != 0 && !q.has(rates) ||
		q.get(elements, 16)&all != all || q.get(nodes, 16)&dwrr == 0 {
		return syscall.EOPNOTSUPP
	}
	return nil
}

const (
	capQoS          = 0x21b // of capsGeneral
	capQPExtensions = 0x122 // C: qpc_extension
	capsQoS         = 0x0c

	generalShare = 0x26 // C: MLX5_OBJ_TYPE_SCHEDULING_ELEMENT
)

func (c scheduler) share(kind uint32, a *abi.MLX5DVSchedAttr) (*share, error) {
	if err := c.checkSched(kind, a); err != nil {
		return nil, err
	}
	parent, err := c.element(a.Parent, schedNode)
	if err != nil {
		return nil, err
	}
	e := &share{kind: kind}
	in := generalCommand(createGeneral, generalShare, 0, schedSize)
	schedule(in, kind, a, parent)
	e.obj, e.id, err = c.makeGeneral(in)
	return e, err
}

func (e *share) change(kind uint32, a *abi.MLX5DVSchedAttr) error {
	if err := (scheduler{e.c}).checkSched(kind, a); err != nil {
		return err
	}
	in, out := generalCommand(modifyGeneral, generalShare, e.id, schedSize), make([]byte, generalHead)
	schedule(in, kind, a, 0)
	return answered(out, e.obj.modify(in, out))
}

// SchedNodeCreate makes an inner element.
func (c scheduler) SchedNodeCreate(a *abi.MLX5DVSchedAttr) (*share, error) {
	return c.share(schedNode, a)
}

// SchedLeafCreate makes an element that QPs send by.
func (c scheduler) SchedLeafCreate(a *abi.MLX5DVSchedAttr) (*share, error) {
	return c.share(schedLeaf, a)
}

// SchedNodeModify changes an inner element.
func (e *share) SchedNodeModify(a *abi.MLX5DVSchedAttr) error { return e.change(schedNode, a) }

// SchedLeafModify changes an element that QPs send by.
func (e *share) SchedLeafModify(a *abi.MLX5DVSchedAttr) error { return e.change(schedLeaf, a) }

// SchedNodeDestroy ends an element without children.
func (e *share) SchedNodeDestroy() error { return e.end() }

// SchedLeafDestroy ends an element that no QP sends by.
func (e *share) SchedLeafDestroy() error { return e.end() }

// element returns the number of an element of a kind, 0 without one.
func (c scheduler) element(h handle, kind uint32) (uint32, error) {
	if h == 0 {
		return 0, nil
	}
	e, err := mine[share](c.context, h)
	if err == nil && e.kind != kind {
		err = syscall.EINVAL
	}
	if err != nil {
		return 0, err
	}
	return e.id, nil
}

// ModifyQPSchedElem has a QP send its requests, and RC its responses, by elements.
func (q *qp) ModifyQPSchedElem(requests, responses handle) error {
	const queues, pairs = 0x8, 0x21 // C: nic_sq_scheduling, nic_qp_scheduling
	request, err := scheduler{q.c}.element(requests, schedLeaf)
	if err != nil {
		return err
	}
	response, err := scheduler{q.c}.element(responses, schedLeaf)
	if err != nil {
		return err
	}
	t, state := q.init.QPType, q.state.Load()
	if responses != 0 && t != abi.IBV_QPT_RC {
		return syscall.EINVAL
	}
	g, has := q.c.queryCaps(capsGeneral), q.c.queryCaps(capsQoS)
	opcode := uint16(rts2rts)
	switch {
	case !g.has(capQoS):
		return syscall.EOPNOTSUPP
	case t == abi.IBV_QPT_RAW_PACKET && has.has(queues) && state == abi.IBV_QPS_RTS:
		return q.scheduleSends(request)
	case t != abi.IBV_QPT_RC && t != abi.IBV_QPT_UC && t != abi.IBV_QPT_UD, !g.has(capQPExtensions), !has.has(pairs):
		return syscall.EOPNOTSUPP
	case state == abi.IBV_QPS_INIT:
		opcode = init2init
	case state != abi.IBV_QPS_RTS:
		return syscall.EOPNOTSUPP
	}
	const option = 1 << 1 // C: MLX5_QPC_OPT_MASK_32_QOS_QUEUE_GROUP_ID
	return q.extend(opcode, option, func(ext []byte) {
		binary.BigEndian.PutUint32(ext[4:], request)
		binary.BigEndian.PutUint32(ext[8:], response)
	})
}

// scheduleSends has the send queue of a raw packet QP send by an element.
func (q *qp) scheduleSends(leaf uint32) error {
	// C: struct mlx5_ifc_modify_sq_in_bits, MLX5_MODIFY_SQ_BITMASK_QOS_QUEUE_GROUP_ID.
	const opcode, size, ready, option = 0x905, 272, 1, 1 << 2
	const stateAt, fields, newState, group = 0x40, 0x10, 0x108, 0x210
	return q.modify(opcode, q.own.numbers.SQN, size, func(in []byte) {
		setBits(in, stateAt, 4, ready)
		binary.BigEndian.PutUint64(in[fields:], option)
		setBits(in, newState, 4, ready)
		setBits(in, group, 16, leaf)
	})
}
