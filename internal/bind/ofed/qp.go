package ofed

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/work"
)

// ExpPair returns how a DCI, a DCT, or a QP that posts atomics with masks is made.
func (v Verbs) ExpPair(ctx uintptr, is control.ExpPair) (*control.Pair, error) {
	if is.DCT {
		t := &dct{v: v, ctx: ctx, init: abi.ExpDCTInitAttr{DCKey: is.Key}}
		return &control.Pair{Create: t.create, Destroy: t.destroy, Modify: t.modify, Query: t.query,
			Object: &t.dct}, nil
	}
	e := &abi.ExpQPInitAttr{}
	if is.MaxAtomic != 0 {
		e.CompMask, e.MaxAtomicArg = abi.IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG, is.MaxAtomic
	}
	p := &control.Pair{Destroy: v.DestroyQP, Modify: v.ModifyQP, Query: v.QueryQP}
	p.Create = func(pd uintptr, init *abi.QPInitAttrEx) (uintptr, error) {
		e.QPType = init.QPType
		return v.create(ctx, pd, init, e)
	}
	if is.DCI {
		i := dci{v, ctx, e}
		p.Create, p.Modify, p.Address = i.create, i.modify, true
	}
	p.Poster = func(qp uintptr, slots []abi.SendWR, masked []work.MaskedAtomic) (control.Poster, error) {
		return newPoster(ctx, qp, slots, masked, is.DCI)
	}
	if is.MaxAtomic != 0 {
		// Opcodes of atomics with masks mean something else to ibv_poll_cq.
		p.Poller = func(cq uintptr) (control.Poller, error) { return v.ExpPoller(ctx, cq, 0) }
	}
	return p, nil
}

// create creates a QP of one of C's experimental types, or with experimental attributes.
func (v Verbs) create(ctx, pd uintptr, init *abi.QPInitAttrEx, e *abi.ExpQPInitAttr) (uintptr, error) {
	e.QPContext, e.SendCQ, e.RecvCQ, e.SRQ = init.QPContext, init.SendCQ, init.RecvCQ, init.SRQ
	e.Cap, e.SQSigAll, e.PD = init.Cap, init.SQSigAll, pd
	e.CompMask |= abi.IBV_EXP_QP_INIT_ATTR_PD
	qp, err := v.createQP(ctx, e)
	init.Cap = e.Cap
	return qp, err
}

// needDC adds to a refusal what DC needs.
func needDC(err error) error {
	if !unsupported(err) {
		return err
	}
	return &control.Lack{Feature: "DC", Need: "a device with it, such as a ConnectX-4 or later, and the driver of " +
		have}
}

// dci creates and changes a DCI.
type dci struct {
	v    Verbs
	ctx  uintptr
	attr *abi.ExpQPInitAttr
}

func (i dci) create(pd uintptr, init *abi.QPInitAttrEx) (uintptr, error) {
	i.attr.QPType = abi.IBV_EXP_QPT_DC_INI
	qp, err := i.v.create(i.ctx, pd, init, i.attr)
	return qp, needDC(err)
}

// modify asks for what the kernel of MLNX_OFED 4 demands of a DCI: a key in INIT, which work requests override, an
// address in RTR, no PSN in RTS.
func (i dci) modify(qp uintptr, a *abi.QPAttr, mask uint32) error {
	e, m := a.ExpQPAttr(), uint64(mask)
	if mask&abi.IBV_QP_STATE != 0 {
		switch a.QPState {
		case abi.IBV_QPS_INIT:
			m |= abi.IBV_EXP_QP_DC_KEY
		case abi.IBV_QPS_RTR:
			if mask&abi.IBV_QP_AV == 0 {
				return &control.Lack{Feature: "a DCI in RTR without MaskAV", Need: "the address that it sends from",
					Have: have}
			}
		case abi.IBV_QPS_RTS:
			m &^= abi.IBV_QP_SQ_PSN
		}
	}
	return i.v.modifyQP(i.ctx, qp, &e, m)
}

// dct is a DCT. C creates one at once, with all attributes, as a struct ibv_exp_dct. Here it is created by the step
// to RTR, and has a struct ibv_qp of its own, so that it goes through the states that it has with rdma-core.
type dct struct {
	v    Verbs
	ctx  uintptr
	mem  *dma.Mem
	qp   *abi.QP // in mem
	init abi.ExpDCTInitAttr
	dct  uintptr // struct ibv_exp_dct *, 0 before RTR
}

// create makes the struct ibv_qp.
func (t *dct) create(pd uintptr, init *abi.QPInitAttrEx) (uintptr, error) {
	if abi.ExpOp(t.ctx, abi.DistExpCreateDCT) == 0 {
		return 0, needDC(control.ErrNoOp)
	}
	mem, err := dma.Alloc(4096, nil)
	if err != nil {
		return 0, err
	}
	t.mem, t.qp = mem, cmem.At[abi.QP](mem.Addr())
	t.init.PD, t.init.CQ, t.init.SRQ = pd, init.RecvCQ, init.SRQ
	return mem.Addr(), nil
}

func (t *dct) destroy(uintptr) error {
	if t.dct != 0 {
		if err := t.v.destroyDCT(t.ctx, t.dct); err != nil {
			return err
		}
		t.dct = 0
	}
	return t.mem.Free()
}

const (
	dctInit = abi.IBV_QP_STATE | abi.IBV_QP_PKEY_INDEX | abi.IBV_QP_PORT | abi.IBV_QP_ACCESS_FLAGS
	dctRTR  = abi.IBV_QP_STATE | abi.IBV_QP_PATH_MTU | abi.IBV_QP_AV | abi.IBV_QP_MIN_RNR_TIMER

	dctQuery = dctInit | dctRTR // the attributes that a DCT has

	// dctRemote is the access that a DCT can grant.
	dctRemote = abi.IBV_ACCESS_REMOTE_WRITE | abi.IBV_ACCESS_REMOTE_READ | abi.IBV_ACCESS_REMOTE_ATOMIC
)

// modify refuses what the kernel of rdma-core refuses. The rest is done at once in RTR.
func (t *dct) modify(_ uintptr, a *abi.QPAttr, mask uint32) error {
	i := &t.init
	switch from := t.qp.State; {
	case from == abi.IBV_QPS_RESET && a.QPState == abi.IBV_QPS_INIT && mask == dctInit && a.PKeyIndex <= 0xff:
		i.Port, i.PKeyIndex, i.AccessFlags = a.PortNum, uint8(a.PKeyIndex), a.QPAccessFlags&dctRemote
		t.qp.State = a.QPState
		return nil
	case from != abi.IBV_QPS_INIT || a.QPState != abi.IBV_QPS_RTR || mask != dctRTR:
		return syscall.EINVAL
	}
	i.MTU, i.MinRNRTimer = a.PathMTU, a.MinRNRTimer
	g := &a.AHAttr.GRH
	i.TClass, i.FlowLabel, i.GIDIndex, i.HopLimit = g.TrafficClass, g.FlowLabel, g.SGIDIndex, g.HopLimit
	h, err := t.v.createDCT(t.ctx, i)
	if err != nil {
		return needDC(err)
	}
	t.dct = h
	t.qp.QPNum, t.qp.State = cmem.At[abi.ExpDCT](h).DCTNum, a.QPState
	return nil
}

func (t *dct) query(_ uintptr, a *abi.QPAttr, mask uint32, _ *abi.QPInitAttrEx) error {
	if t.dct == 0 || mask&^dctQuery != 0 {
		return syscall.EINVAL
	}
	e := new(abi.ExpDCTAttr)
	if err := t.v.queryDCT(t.ctx, t.dct, e); err != nil {
		return err
	}
	a.QPState = abi.IBV_QPS_RTR
	if e.State != abi.IBV_EXP_DCT_STATE_ACTIVE {
		a.QPState = abi.IBV_QPS_ERR
	}
	a.QPAccessFlags, a.PortNum, a.MinRNRTimer, a.PathMTU = e.AccessFlags, e.Port, e.MinRNRTimer, e.MTU
	a.PKeyIndex = uint16(e.PKeyIndex)
	a.AHAttr.GRH = abi.GlobalRoute{FlowLabel: e.FlowLabel, SGIDIndex: e.GIDIndex, HopLimit: e.HopLimit,
		TrafficClass: e.TClass}
	a.AHAttr.PortNum, a.AHAttr.IsGlobal = e.Port, 1
	return nil
}
