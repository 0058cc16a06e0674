package ibv

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/dma"
)

// QPs by the experimental verbs of MLNX_OFED 4, where package mlx5dv asks for what classic creation has no room for.

// expQP changes and queries the C object of such a QP.
type expQP interface {
	modify(attr *abi.QPAttr, mask QPAttrMask) error
	query(attr *abi.QPAttr, mask QPAttrMask, init *abi.QPInitAttrEx) error
}

// Experimental reports whether the device is driven by MLNX_OFED 4.
func (friends) Experimental(d *Device) bool { return d.legacy }

// CreateExp creates a DCI, a DCT, or a QP that posts atomics with masks, by the experimental verbs. A DCT has this key;
// maxAtomic is the length of the longest such atomic, 0 for none.
func (friends) CreateExp(pd *PD, send, recv *CQ, opt *QPOptions, key uint64, maxAtomic uint32) (*QP, error) {
	d := pd.dev
	attr := &abi.ExpQPInitAttr{}
	if maxAtomic != 0 {
		attr.CompMask, attr.MaxAtomicArg = abi.IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG, maxAtomic
	}
	switch opt.Type {
	case DCT:
		t := &expDCT{dev: d, init: abi.ExpDCTInitAttr{DCKey: key}}
		return pd.createQP(send, recv, opt, qpMaker{create: t.create, destroy: t.destroy, dc: true, exp: t})
	case DCI:
		attr.QPType = abi.IBV_EXP_QPT_DC_INI
		i := &expDCI{dev: d, attr: attr}
		return pd.createQP(send, recv, opt, qpMaker{create: i.create, destroy: d.v.DestroyQP, dc: true, exp: i,
			postExp: true, maxAtomic: maxAtomic})
	}
	create := func(pd uintptr, init *abi.QPInitAttrEx) (uintptr, error) {
		attr.QPType = init.QPType
		return d.createExpQP(pd, init, attr)
	}
	return pd.createQP(send, recv, opt, qpMaker{create: create, destroy: d.v.DestroyQP, postExp: true,
		maxAtomic: maxAtomic})
}

// postByExp makes the send queue post by ibv_exp_post_send.
func (qp *QP) postByExp() error {
	fn := qp.dev.expOp(abi.DistExpPostSend)
	if fn == 0 {
		return &UnsupportedError{Feature: "ibv_exp_post_send", Need: "a provider with it", Have: qp.dev.Name()}
	}
	if qp.make.maxAtomic > 0 {
		if err := qp.send.switchToExp(); err != nil {
			return err
		}
	}
	return qp.sq.Experimental(fn, qp.typ == DCI, qp.make.maxAtomic > 0)
}

// createExpQP creates the C object of a QP of one of C's experimental types, or with experimental attributes.
func (d *Device) createExpQP(pd uintptr, init *abi.QPInitAttrEx, e *abi.ExpQPInitAttr) (uintptr, error) {
	e.QPContext, e.SendCQ, e.RecvCQ, e.SRQ = init.QPContext, init.SendCQ, init.RecvCQ, init.SRQ
	e.Cap, e.SQSigAll, e.PD = init.Cap, init.SQSigAll, pd
	e.CompMask |= abi.IBV_EXP_QP_INIT_ATTR_PD
	h, err := d.v.ExpCreateQP(d.handle, e)
	init.Cap = e.Cap
	return h, err
}

// needDC adds to a refusal what DC needs.
func (d *Device) needDC(err error) error {
	if !unsupported(err) {
		return err
	}
	return &UnsupportedError{Feature: "DC", Need: "a device with it, such as a ConnectX-4 or later, and the driver " +
		"of MLNX_OFED 4", Have: d.Name()}
}

// expDCI is a DCI.
type expDCI struct {
	dev  *Device
	attr *abi.ExpQPInitAttr
	qp   uintptr
}

func (i *expDCI) create(pd uintptr, init *abi.QPInitAttrEx) (h uintptr, err error) {
	i.qp, err = i.dev.createExpQP(pd, init, i.attr)
	return i.qp, i.dev.needDC(err)
}

// modify asks for what the kernel of MLNX_OFED 4 demands of a DCI: a key in INIT, which work requests override, an
// address in RTR, no PSN in RTS.
func (i *expDCI) modify(a *abi.QPAttr, mask QPAttrMask) error {
	e := &abi.ExpQPAttr{
		QPState: a.QPState, CurQPState: a.CurQPState, PathMTU: a.PathMTU, PathMigState: a.PathMigState,
		QKey: a.QKey, RQPSN: a.RQPSN, SQPSN: a.SQPSN, DestQPNum: a.DestQPNum, QPAccessFlags: a.QPAccessFlags,
		Cap: a.Cap, AHAttr: a.AHAttr, AltAHAttr: a.AltAHAttr, PKeyIndex: a.PKeyIndex, AltPKeyIndex: a.AltPKeyIndex,
		EnSqdAsyncNotify: a.EnSqdAsyncNotify, MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic,
		MinRNRTimer: a.MinRNRTimer, PortNum: a.PortNum, Timeout: a.Timeout, RetryCnt: a.RetryCnt,
		RNRRetry: a.RNRRetry, AltPortNum: a.AltPortNum, AltTimeout: a.AltTimeout,
	}
	m := uint64(mask)
	if mask&MaskState != 0 {
		switch QPState(a.QPState) {
		case StateInit:
			m |= abi.IBV_EXP_QP_DC_KEY
		case StateRTR:
			if mask&MaskAV == 0 {
				return &UnsupportedError{Feature: "a DCI in RTR without MaskAV", Need: "the address that it sends from",
					Have: "MLNX_OFED 4"}
			}
		case StateRTS:
			m &^= uint64(MaskSQPSN)
		}
	}
	return i.dev.v.ExpModifyQP(i.dev.handle, i.qp, e, m)
}

func (i *expDCI) query(a *abi.QPAttr, mask QPAttrMask, init *abi.QPInitAttrEx) error {
	return i.dev.v.QueryQP(i.qp, a, uint32(mask), init)
}

// expDCT is a DCT. C creates one at once, with all attributes, as a struct ibv_exp_dct. Here it is created by the step
// to RTR, and has a struct ibv_qp of its own, so that it goes through the states that it has with rdma-core.
type expDCT struct {
	dev  *Device
	mem  *dma.Mem
	qp   *abi.QP // in mem
	init abi.ExpDCTInitAttr
	dct  uintptr // struct ibv_exp_dct *, 0 before RTR
}

// create makes the struct ibv_qp.
func (t *expDCT) create(pd uintptr, init *abi.QPInitAttrEx) (uintptr, error) {
	if t.dev.expOp(abi.DistExpCreateDCT) == 0 {
		return 0, t.dev.needDC(control.ErrNoOp)
	}
	mem, err := dma.Alloc(4096, nil)
	if err != nil {
		return 0, err
	}
	t.mem, t.qp = mem, cmem.At[abi.QP](mem.Addr())
	t.init.PD, t.init.CQ, t.init.SRQ = pd, init.RecvCQ, init.SRQ
	return mem.Addr(), nil
}

func (t *expDCT) destroy(uintptr) error {
	if t.dct != 0 {
		if err := t.dev.v.ExpDestroyDCT(t.dev.handle, t.dct); err != nil {
			return err
		}
		t.dct = 0
	}
	return t.mem.Free()
}

// dctRemote is the access that a DCT can grant.
const dctRemote = RemoteWrite | RemoteRead | RemoteAtomic

// modify refuses what the kernel of rdma-core refuses. The rest is done at once in RTR.
func (t *expDCT) modify(a *abi.QPAttr, mask QPAttrMask) error {
	from := QPState(t.qp.State)
	missing, superfluous, legal := checkTransition(DCT, from, QPState(a.QPState), mask)
	if mask&MaskState == 0 || !legal || missing != 0 || superfluous != 0 {
		return syscall.EINVAL
	}
	i := &t.init
	if QPState(a.QPState) == StateInit {
		if a.PKeyIndex > 0xff {
			return &LimitError{What: "pkey_index", Asked: uint64(a.PKeyIndex), Limit: 0xff,
				Where: "a field of 8 bits of MLNX_OFED 4"}
		}
		i.Port, i.PKeyIndex = a.PortNum, uint8(a.PKeyIndex)
		i.AccessFlags = a.QPAccessFlags & uint32(dctRemote)
		t.qp.State = a.QPState
		return nil
	}
	i.MTU, i.MinRNRTimer = a.PathMTU, a.MinRNRTimer
	g := &a.AHAttr.GRH
	i.TClass, i.FlowLabel, i.GIDIndex, i.HopLimit = g.TrafficClass, g.FlowLabel, g.SGIDIndex, g.HopLimit
	dct, err := t.dev.v.ExpCreateDCT(t.dev.handle, i)
	if err != nil {
		return t.dev.needDC(err)
	}
	t.dct = dct
	t.qp.QPNum, t.qp.State = t.dev.v.DCTNumber(dct), a.QPState
	return nil
}

func (t *expDCT) query(a *abi.QPAttr, mask QPAttrMask, _ *abi.QPInitAttrEx) error {
	if t.dct == 0 || mask&^dctQuery != 0 {
		return syscall.EINVAL
	}
	e := new(abi.ExpDCTAttr)
	if err := t.dev.v.ExpQueryDCT(t.dev.handle, t.dct, e); err != nil {
		return err
	}
	a.QPState = uint32(StateRTR)
	if e.State != abi.IBV_EXP_DCT_STATE_ACTIVE {
		a.QPState = uint32(StateErr)
	}
	a.QPAccessFlags, a.PortNum, a.MinRNRTimer, a.PathMTU = e.AccessFlags, e.Port, e.MinRNRTimer, e.MTU
	a.PKeyIndex = uint16(e.PKeyIndex)
	a.AHAttr.GRH = abi.GlobalRoute{FlowLabel: e.FlowLabel, SGIDIndex: e.GIDIndex, HopLimit: e.HopLimit,
		TrafficClass: e.TClass}
	a.AHAttr.PortNum, a.AHAttr.IsGlobal = e.Port, 1
	return nil
}

// ExpAtomics asks MLNX_OFED 4 for the atomics with masks of a device.
func (friends) ExpAtomics(d *Device, op string) (ext abi.ExpExtAtomicsParams, masked abi.ExpMaskedAtomicParams,
	err error) {
	if err := d.enter(op); err != nil {
		return ext, masked, err
	}
	defer d.leave()
	const ask = abi.IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS | abi.IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS
	a := &abi.ExpDeviceAttr{CompMask: ask}
	if err := d.v.ExpQueryDevice(d.handle, a); err != nil {
		return ext, masked, err
	}
	if a.CompMask&ask == 0 {
		return ext, masked, control.ErrNoOp
	}
	return a.ExtAtom, a.MaskedAtomic, nil
}
