package ucma

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// CreateQP is rdma_create_qp, and rdma_create_qp_ex. Its QP is in INIT; one for datagrams is in RTS.
func (c *CM) CreateQP(h, pd control.Handle, attr *abi.QPInitAttrEx) (qp control.Handle, err error) {
	err = c.with(h, func(w usercm.Writer, i *id) error {
		s := i.now()
		if s.dev == nil || pd == 0 || c.v.Owner(pd) != s.dev.context || s.qp.handle != 0 {
			return syscall.EINVAL
		}
		if attr.CompMask == 0 {
			qp, err = c.v.CreateQP(pd, attr)
		} else {
			attr.CompMask, attr.PD = attr.CompMask|abi.IBV_QP_INIT_ATTR_PD, pd
			qp, err = c.v.CreateQPEx(s.dev.context, attr)
		}
		if err != nil {
			return err
		}
		if err = c.qps.begin(w, i, qp); err != nil {
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
