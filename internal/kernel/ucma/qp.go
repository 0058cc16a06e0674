package ucma

import (
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// CreateQP is rdma_create_qp. Its QP is in INIT; one for datagrams is in RTS.
func (c *CM) CreateQP(h, pd control.Handle, attr *abi.QPInitAttrEx) (control.Handle, error) {
	return c.createQP(h, pd, attr, func(control.Handle) (control.Handle, error) { return c.v.CreateQP(pd, attr) })
}

// CreateQPEx is rdma_create_qp_ex.
func (c *CM) CreateQPEx(h control.Handle, attr *abi.QPInitAttrEx) (control.Handle, error) {
	return c.createQP(h, attr.PD, attr, func(ctx control.Handle) (control.Handle, error) {
		return c.v.CreateQPEx(ctx, attr)
	})
}

func (c *CM) createQP(
	h, pd control.Handle, attr *abi.QPInitAttrEx, create func(ctx control.Handle) (control.Handle, error),
) (qp control.Handle, err error) {
	err = c.with(h, func(w usercm.Writer, i *id) error {
		dev := i.device()
		if dev == nil || pd == 0 || c.v.Owner(pd) != dev.context || i.pair().handle != 0 {
			return syscall.EINVAL
		}
		if qp, err = create(dev.context); err != nil {
			return err
		}
		if err = c.begin(w, i, qp); err != nil {
			_ = c.v.DestroyQP(qp)
			return err
		}
		p := pair{handle: qp, number: c.v.QPNumber(qp)}
		if attr.SRQ != 0 {
			p.srq = 1
		}
		if !i.setPair(p) {
			_ = c.v.DestroyQP(qp)
			return syscall.EINVAL
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return qp, nil
}

// setPair gives an ID its QP; ok is false if another call was faster.
func (i *id) setPair(p pair) (ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.qp.handle != 0 {
		return false
	}
	i.qp = p
	return true
}

// begin moves a new QP to its first state, and exchanges what both ends know of enhanced connections.
func (c *CM) begin(w usercm.Writer, i *id, qp control.Handle) error {
	if err := c.initECE(i, qp); err != nil {
		return err
	}
	if err := c.toState(w, i, qp, abi.IBV_QPS_INIT, nil); err != nil {
		return err
	}
	if i.typ != abi.IBV_QPT_UD {
		return c.agreeECE(i, qp)
	}
	if err := c.v.ModifyQP(qp, &abi.QPAttr{QPState: abi.IBV_QPS_RTR}, abi.IBV_QP_STATE); err != nil {
		return err
	}
	return c.v.ModifyQP(qp, &abi.QPAttr{QPState: abi.IBV_QPS_RTS}, abi.IBV_QP_STATE|abi.IBV_QP_SQ_PSN)
}

// HasQP reports whether the ID has a QP of CreateQP or CreateQPEx.
func (c *CM) HasQP(h control.Handle) bool {
	i, err := c.ids.get(h)
	return err == nil && i.pair().handle != 0
}

// ForgetQP notes that the QP is destroyed.
func (c *CM) ForgetQP(h control.Handle) {
	if i, err := c.ids.get(h); err == nil {
		i.mu.Lock()
		i.qp = pair{}
		i.mu.Unlock()
	}
}

// InitQPAttr is rdma_init_qp_attr.
func (c *CM) InitQPAttr(h control.Handle, attr *abi.QPAttr) (mask uint32, err error) {
	err = c.with(h, func(w usercm.Writer, i *id) (err error) {
		mask, err = initQPAttr(w, i, attr)
		return err
	})
	return mask, err
}

func initQPAttr(w usercm.Writer, i *id, attr *abi.QPAttr) (mask uint32, err error) {
	q, r := usercm.Query{ID: i.number, Arg: attr.QPState}, usercm.QPAttr{}
	if err := usercm.Ask(w, usercm.CmdInitQPAttr, &q, &q.Response, &r); err != nil {
		return 0, err
	}
	if r.State != attr.QPState {
		return 0, &usercm.ReplyError{Command: usercm.CmdInitQPAttr, What: "the state", Got: fmt.Sprint(r.State),
			Want: fmt.Sprint(attr.QPState)}
	}
	*attr = r.ToC()
	return r.Mask, nil
}

// kernelBits are of the kernel's mask only: attributes for RoCE, which ibv_modify_qp does not know.
const kernelBits = 0x1e00000

// toState moves a QP to the state that the connection has for it. change may be nil.
func (c *CM) toState(w usercm.Writer, i *id, qp control.Handle, state uint32, change func(*abi.QPAttr)) error {
	attr := abi.QPAttr{QPState: state}
	mask, err := initQPAttr(w, i, &attr)
	if err != nil {
		return err
	}
	if change != nil {
		change(&attr)
	}
	return c.v.ModifyQP(qp, &attr, mask&^kernelBits)
}

// bringUp moves the QP of an ID, if it has one, from INIT to RTS. INIT comes again, because only now the kernel knows
// which access the connection needs. most, if not nil, are the reads and atomics.
func (c *CM) bringUp(w usercm.Writer, i *id, most *limits) error {
	qp := i.pair().handle
	if qp == 0 {
		return nil
	}
	for _, s := range []struct {
		state  uint32
		change func(*abi.QPAttr)
	}{
		{abi.IBV_QPS_INIT, func(*abi.QPAttr) {}},
		{abi.IBV_QPS_RTR, func(a *abi.QPAttr) { a.MaxDestRdAtomic = most.responder }},
		{abi.IBV_QPS_RTS, func(a *abi.QPAttr) { a.MaxRdAtomic = most.initiator }},
	} {
		if most == nil {
			s.change = nil
		}
		if err := c.toState(w, i, qp, s.state, s.change); err != nil {
			return err
		}
	}
	return nil
}

// stop ends what the QP of an ID is doing, if it has one: its work requests complete with an error. On iWARP the
// kernel moves the QP on from SQD.
func (c *CM) stop(i *id) error {
	qp := i.pair().handle
	if qp == 0 {
		return nil
	}
	state := uint32(abi.IBV_QPS_ERR)
	if d := i.device(); d != nil && d.transport == abi.IBV_TRANSPORT_IWARP {
		state = abi.IBV_QPS_SQD
	}
	return c.v.ModifyQP(qp, &abi.QPAttr{QPState: state}, abi.IBV_QP_STATE)
}
