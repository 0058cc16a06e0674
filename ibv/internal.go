package ibv

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/friend"
	"github.com/pureverbs/pureverbs/internal/level"
	"github.com/pureverbs/pureverbs/internal/life"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// Internal is for packages rdmacm and mlx5dv of this module: it opens only with a key that
// other modules cannot make. No promise of compatibility covers it.
var Internal internal

type internal struct{}

// Show returns the functions of this package that need the key; it panics without the key.
func (internal) Show(key *friend.Key) friends {
	if !key.Allows() {
		panic("ibv: Internal is for this module only")
	}
	return friends{}
}

// CMControl returns the control path of rdma_cm, which has to be that of its devices: nil for librdmacm.
func (friends) CMControl() (control.Verbs, error) {
	v, err := cmPath()
	if err != nil || !v.native {
		return nil, err
	}
	return v, nil
}

// OpenLent makes a Device of a context that rdma_cm opened, which remains the one to close it.
func (friends) OpenLent(handle uintptr) (*Device, error) {
	v, err := cmPath()
	if err != nil {
		return nil, err
	}
	return v.lentContext(handle)
}

// CloseLent closes a Device from OpenLent, before librdmacm may close the device. It fails with
// a *BusyError while something is open on it.
func (friends) CloseLent(d *Device) error { return endDevice(d) }

// OnEmpty calls f, in a goroutine of its own, each time that the last object on a device is closed.
func (friends) OnEmpty(d *Device, f func()) { d.node.life.OnEmpty(f) }

// KeepsOut reports whether a new QP must get no payloads in completions, unless the caller asks for them.
func (friends) KeepsOut(d *Device, o *QPOptions, send, recv *CQ) bool {
	return d.keepsOut(o, send, recv)
}

// HasFault reports whether libmlx5 drives the device and has a fault.
func (friends) HasFault(d *Device, f level.Fault) bool { return d.hasFault(f) }

// Without returns the error for a feature that a fault of libmlx5 takes away. fixed is the first series without it.
func (friends) Without(d *Device, feature, need, fixed string) error {
	return d.without(feature, need, fixed)
}

// ExplainCM adds the cause to an errno of librdmacm that says that this host cannot use rdma_cm.
func (friends) ExplainCM(err error) error { return explainCM(err) }

// WhyNoDevice returns why a device of this host cannot be opened, or nil if all can.
func (friends) WhyNoDevice() error { return whyNoDevice() }

// NoteRemoved records that the device was removed, and wakes the goroutines that wait for its CQs.
func (friends) NoteRemoved(d *Device) { d.removed.note(ErrDeviceRemoved) }

// CreateQP is pd.CreateQP with other functions to create and to destroy the C object. A nil
// destroy stands for DestroyQP.
func (friends) CreateQP(pd *PD, send, recv *CQ, opt *QPOptions,
	create func(pd uintptr, attr *abi.QPInitAttrEx) (uintptr, error), destroy func(qp uintptr) error) (*QP, error) {
	return pd.createQP(send, recv, opt, qpMaker{Pair: pd.dev.pair(create, destroy)})
}

// CreateMLX5 is CreateQP for a QP with such work requests. One of mlx5's dynamically connected transport is dc, and may
// have streams.
func (friends) CreateMLX5(pd *PD, send, recv *CQ, opt *QPOptions, dc, streams bool, ops MLX5SendOps,
	create func(pd uintptr, attr *abi.QPInitAttrEx) (uintptr, error)) (*QP, error) {
	return pd.createQP(send, recv, opt, qpMaker{Pair: pd.dev.pair(create, nil), dc: dc, streams: streams, mlx5: ops})
}

// CreateWQ is pd.CreateWQ with another function to make the C object.
func (friends) CreateWQ(pd *PD, op string, cq *CQ, opt *WQOptions,
	create func(attr *abi.WQInitAttr) (uintptr, error)) (*WQ, error) {
	return pd.createWQ(op, cq, opt, create)
}

// CreateSRD is CreateQP for QPs of EFA's scalable reliable datagrams.
func (friends) CreateSRD(pd *PD, send, recv *CQ, opt *QPOptions,
	create func(pd uintptr, attr *abi.QPInitAttrEx) (uintptr, error)) (*QP, error) {
	return pd.createQP(send, recv, opt, qpMaker{Pair: pd.dev.pair(create, nil), srd: true})
}

// SetEFAReaders makes polling read what libefa adds to completions. The CQ has Fields.
func (friends) SetEFAReaders(cq *CQ, r ops.EFAReaders) { cq.ops.extended.EFA = r }

// AllocDM is d.AllocDM with another function to make the C object. MaxDMSize bounds memory for data alone.
func (friends) AllocDM(d *Device, op string, size int, opt *DMOptions, data bool,
	alloc func(attr *abi.AllocDMAttr) (uintptr, error)) (*DM, error) {
	return d.allocDM(op, size, opt, data, alloc)
}

// RegDmabuf is pd.RegDmabuf with another function to make the C object.
func (friends) RegDmabuf(pd *PD, op string, fd int, off uint64, length int, iova uint64, access AccessFlags,
	reg func(pd uintptr) (uintptr, error)) (*MR, error) {
	return pd.regDmabuf(op, fd, off, length, iova, access, func() (uintptr, error) { return reg(pd.handle) })
}

// WhyNoDevX returns why a device of an old libmlx5 has no DevX; nil where libmlx5 requests it always.
func (friends) WhyNoDevX(d *Device) error { return d.whyNoDevX() }

// ExplainUnsupported adds the requirements of a feature to err, if err means that it is not supported.
func (friends) ExplainUnsupported(err error, feature, need, have string) error {
	if errors.Is(err, control.ErrNotNative) {
		return explainNative(err, feature)
	}
	return explainUnsupported(err, feature, need, have)
}

// OpError returns err as that of an operation on an object, with what the operation needs if the native control path
// lacks it. An error of the operation, and nil, stay as they are.
func (friends) OpError(op, object string, err error) error {
	var e *OpError
	if err == nil || errors.As(err, &e) && e.Op == op {
		return err
	}
	return &OpError{Op: op, Object: object, Err: explainNative(err, op)}
}

// MLX5 returns what the control path of a device has for mlx5 alone.
func (friends) MLX5(d *Device) (control.MLX5, error) { return d.v.mlx5() }

// DestroyQP destroys the C object of a QP of pd as QP.Close does.
func (friends) DestroyQP(pd *PD, qp uintptr) error { return pd.dev.v.DestroyQP(qp) }

// AttachMcast attaches the C object of a QP of pd to a group.
func (friends) AttachMcast(pd *PD, qp uintptr, group *abi.GID, lid uint16) error {
	return pd.dev.v.AttachMcast(qp, group, lid)
}

// DetachMcast undoes AttachMcast.
func (friends) DetachMcast(pd *PD, qp uintptr, group *abi.GID, lid uint16) error {
	return pd.dev.v.DetachMcast(qp, group, lid)
}

// CreateCQ is d.CreateCQ with another function to create the C object.
func (friends) CreateCQ(d *Device, cqe int, opt *CQOptions,
	create func(dev uintptr, attr *abi.CQInitAttrEx) (uintptr, error)) (*CQ, error) {
	return d.createCQ(cqe, opt, create)
}

// ChoosePath returns the data path that a CQ with these options would have.
func (friends) ChoosePath(d *Device, opt *CQOptions) (DataPath, error) {
	path, _, err := d.choosePath(opt.DataPath, d.directFor(opt))
	return path, err
}

// SetEntries sets the size in bytes of a new CQ's entries, 0 for libmlx5's default, and the format in which the device
// may compress completions. With try it may do so for the receives of an SRQ.
func (friends) SetEntries(cq *CQ, size int, format uint32, try bool) {
	cq.entries.try = try
	if size != 0 {
		cq.entries.wide = size == 128
	}
	if cq.direct.live != nil {
		cq.direct.live.Compress(format)
	}
}

// Enter keeps an object open until leave, and returns its handle.
func (friends) Enter(obj entered, op string) (handle uintptr, leave func(), err error) {
	n := obj.self()
	if err := n.enter(op); err != nil {
		return 0, nil, err
	}
	h, _ := obj.cObject()
	return h, n.leave, nil
}

// EnterC is Enter for what calls C: it fails on the native control path.
func (f friends) EnterC(obj entered, op string) (handle uintptr, leave func(), err error) {
	h, leave, err := f.Enter(obj, op)
	if err != nil {
		return 0, nil, err
	}
	_, dev := obj.cObject()
	if err := dev.v.needLibrary(op); err != nil {
		leave()
		return 0, nil, &OpError{Op: op, Err: err}
	}
	return h, leave, nil
}

// entered is an object of this package that has a C object.
type entered interface {
	self() *node
	cObject() (uintptr, *Device)
}

func (n *node) self() *node { return n }

func (d *Device) cObject() (uintptr, *Device) { return d.handle, d }
func (qp *QP) cObject() (uintptr, *Device)    { return qp.handle, qp.dev }
func (s *SRQ) cObject() (uintptr, *Device)    { return s.handle, s.pd.dev }
func (w *WQ) cObject() (uintptr, *Device)     { return w.handle, w.pd.dev }
func (mr *MR) cObject() (uintptr, *Device)    { return mr.handle, mr.pd.dev }
func (m *Mkey) cObject() (uintptr, *Device)   { return m.handle, m.pd.dev }
func (ah *AH) cObject() (uintptr, *Device)    { return ah.handle, ah.pd.dev }

// NextHalf returns the address of the thread domain's offset of the next BlueFlame half; nil if
// the QP does not use BlueFlame.
func (friends) NextHalf(qp *QP) *uintptr {
	if pd := qp.pd; pd != nil && pd.td != nil && !shutUpBF() {
		return &pd.td.nextHalf
	}
	return nil
}

// GrantLess makes less of what each later CreateQP is granted, for tests of programs on devices that grant less. A nil
// f ends that. The caller creates no QP meanwhile.
func (friends) GrantLess(f func(c *QPCap)) { lessGranted = f }

// CompVectors is d.NumCompVectors while Enter keeps d open.
func (friends) CompVectors(d *Device) int { return d.v.Context(d.handle).CompVectors }

// HasAtomics reports whether QPs of the device execute atomics.
func (friends) HasAtomics(d *Device) bool { return d.attr.AtomicCap != AtomicNone }

// QueueSizes returns the depths that CreateQP asks for.
func (friends) QueueSizes(d *Device, o *QPOptions) (send, recv int) {
	usual := usualWR(d.attr.MaxQPWR)
	return orDefault(o.MaxSendWR, usual), orDefault(o.MaxRecvWR, usual)
}

// OrDefault returns v, or def for 0, or 0 for None.
func (friends) OrDefault(v, def int) int { return orDefault(v, def) }

// ReadLimits returns how many reads and atomics a QP of the device can answer at the same time,
// and how many it can have outstanding.
func (friends) ReadLimits(d *Device) (dest, init int) {
	return d.attr.MaxQPRdAtom, d.attr.MaxQPInitRdAtom
}

// QPAttr converts C's attributes.
func (friends) QPAttr(c *abi.QPAttr) *QPAttr { return qpAttrFromC(c) }

// AHAttr converts C's address vector.
func (friends) AHAttr(c *abi.AHAttr) AHAttr { return *ahAttrFromC(c) }

// Ref returns what other objects that are made of obj need of it, and its device.
func (friends) Ref(obj entered) (life.Ref, *Device) {
	if reflect.ValueOf(obj).IsNil() {
		return life.Ref{}, nil
	}
	n := obj.self()
	h, dev := obj.cObject()
	return life.Ref{Object: &n.life, Kind: n.kind, Name: n.name, Handle: h}, dev
}

// QPEx returns the struct ibv_qp_ex of a QP that was made with SendOps.
func (friends) QPEx(qp *QP) (uintptr, error) { return qp.dev.v.QPToQPEx(qp.handle) }

// CancelSends makes work requests of a QP of the direct data path with this ID do nothing, unless the device has begun
// them: it executes block next of the queue next. It returns the number of their WQEs.
func (friends) CancelSends(qp *QP, next uint16, id uint64) (int, error) {
	qp.sq.mu.Lock()
	defer qp.sq.mu.Unlock()
	n, ok := qp.sq.direct.SQ.Cancel(next, id)
	if !ok {
		return n, fmt.Errorf("the device executes block %d of the send queue next, where no work request begins", next)
	}
	return n, nil
}

// NewFlowAction makes a FlowAction of a C object that create makes.
func (friends) NewFlowAction(d *Device, op string, create func(dev uintptr) (uintptr, error)) (*FlowAction, error) {
	return d.newFlowAction(op, create)
}

// NewESPAction is d.CreateESPAction with another function to make the C object.
func (friends) NewESPAction(d *Device, op string, a *ESPAction,
	create func(dev uintptr, e *abi.ESP) (uintptr, error)) (*FlowAction, error) {
	return d.createESP(op, a, create)
}

// DestroyFlow destroys a struct ibv_flow of d.
func (friends) DestroyFlow(d *Device, flow uintptr) error { return d.v.DestroyFlow(d.handle, flow) }

// Experimental reports whether the device has experimental verbs.
func (friends) Experimental(d *Device) bool { return d.v.Experimental(d.handle) }

// CreateExp creates a DCI, a DCT, or a QP that posts atomics with masks, by the experimental verbs. A DCT has this key;
// maxAtomic is the length of the longest such atomic, 0 for none.
func (friends) CreateExp(pd *PD, send, recv *CQ, opt *QPOptions, key uint64, maxAtomic uint32) (*QP, error) {
	dci, dct := opt.Type == DCI, opt.Type == DCT
	p, err := pd.dev.v.ExpPair(pd.dev.handle, control.ExpPair{DCI: dci, DCT: dct, Key: key, MaxAtomic: maxAtomic})
	if err != nil {
		return nil, &OpError{Op: opCreateQP, Object: pd.dev.Name(), Err: pd.dev.lacking(err)}
	}
	return pd.createQP(send, recv, opt, qpMaker{Pair: *p, dc: dci || dct, maxAtomic: maxAtomic})
}

// ExpAtomics returns the atomics with masks of a device.
func (friends) ExpAtomics(d *Device, op string) (ext abi.ExpExtAtomicsParams, masked abi.ExpMaskedAtomicParams,
	err error) {
	if err := d.enter(op); err != nil {
		return ext, masked, err
	}
	defer d.leave()
	return d.v.ExpAtomics(d.handle)
}
