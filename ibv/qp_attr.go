package ibv

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

func (a *QPAttr) toC() *abi.QPAttr {
	return &abi.QPAttr{
		QPState:          uint32(a.State),
		CurQPState:       uint32(a.CurState),
		PathMTU:          uint32(a.PathMTU),
		PathMigState:     uint32(a.PathMigState),
		QKey:             a.QKey,
		RQPSN:            a.RQPSN,
		SQPSN:            a.SQPSN,
		DestQPNum:        a.DestQPN,
		QPAccessFlags:    uint32(a.Access &^ AccessNone),
		AHAttr:           a.AV.toC(),
		AltAHAttr:        a.AltAV.toC(),
		PKeyIndex:        a.PKeyIndex,
		AltPKeyIndex:     a.AltPKeyIndex,
		EnSqdAsyncNotify: b2u8(a.EnSQDAsyncNotify),
		MaxRdAtomic:      a.MaxRdAtomic,
		MaxDestRdAtomic:  a.MaxDestRdAtomic,
		MinRNRTimer:      uint8(a.MinRNRTimer),
		PortNum:          a.Port,
		Timeout:          uint8(a.Timeout),
		RetryCnt:         a.RetryCnt,
		RNRRetry:         a.RNRRetry,
		AltPortNum:       a.AltPort,
		AltTimeout:       uint8(a.AltTimeout),
		RateLimit:        a.RateLimit,
	}
}

func capFromC(c *abi.QPCap) QPCap {
	return QPCap{
		MaxSendWR:  granted(c.MaxSendWR),
		MaxRecvWR:  granted(c.MaxRecvWR),
		MaxSendSGE: granted(c.MaxSendSGE),
		MaxRecvSGE: granted(c.MaxRecvSGE),
		MaxInline:  granted(c.MaxInlineData),
	}
}

// Modify changes the attributes that mask names, most often the state. Connect does the usual
// transitions in one call. When the kernel refuses, the error is a *ModifyError or a
// *PathError. A *ModifyError names the attributes that are missing or superfluous for this
// transition, or the values that exceed what the device takes. A *PathError explains what is
// wrong with the path to the peer. MaskCap is not supported: the sizes of the queues are fixed
// at creation.
//
// C: ibv_modify_qp(3).
func (qp *QP) Modify(attr *QPAttr, mask QPAttrMask) error {
	const op = "modify qp"
	if attr == nil {
		return &OpError{Op: op, Object: qp.name, Err: &ArgError{Arg: "attr", Got: "nil", Want: "attributes"}}
	}
	if err := qp.enterStates(op); err != nil {
		return err
	}
	defer qp.leave()
	return qp.modify(attr, mask)
}

// Preconditions: the caller holds the QP entered.
func (qp *QP) modify(attr *QPAttr, mask QPAttrMask) error {
	err := attr.check(mask)
	if mask&MaskAV != 0 {
		err = errors.Join(err, qp.dev.checkPathBits(&attr.AV))
	}
	if mask&MaskAltPath != 0 {
		err = errors.Join(err, qp.dev.checkPathBits(&attr.AltAV))
	}
	if err == nil {
		err = qp.checkCMOnly(attr, mask)
	}
	if err != nil {
		return &OpError{Op: "modify qp", Object: qp.name, Err: err}
	}
	from := qp.loadState()
	call := func() error { return qp.make.Modify(qp.handle, attr.toC(), uint32(mask)) }
	switch {
	case mask&MaskState != 0 && attr.State == StateReset:
		if err = qp.reset(call); err == nil {
			qp.rest.forget()
		}
	case qp.rq.frames != nil && mask&MaskState != 0 && attr.State == StateRTR:
		err = qp.rq.announce(call)
	case qp.typ == DCT && mask&MaskState != 0 && attr.State == StateRTR:
		err = qp.openDCT(call)
	default:
		err = call()
	}
	if err == nil {
		qp.moved(attr, mask)
		return nil
	}
	return &OpError{Op: "modify qp", Object: qp.name, Err: qp.explainModify(err, from, attr, mask)}
}

func (qp *QP) explainModify(err error, from QPState, attr *QPAttr, mask QPAttrMask) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) || errors.Is(err, ErrDeviceRemoved) {
		return qp.dev.lacking(err)
	}
	if mask&MaskCurState != 0 {
		from = attr.CurState
	}
	to := from
	if mask&MaskState != 0 {
		to = attr.State
	}
	missing, superfluous, legal := checkTransition(qp.typ, from, to, mask)
	e := &ModifyError{Type: qp.typ, From: from, To: to, Mask: mask, Missing: missing, Superfluous: superfluous,
		Legal: legal, Errno: errno}
	if !legal || missing != 0 || superfluous != 0 {
		return e
	}
	if mask&MaskAV != 0 {
		e.Beyond = append(e.Beyond, qp.dev.badAddress("AV.", &attr.AV)...)
	}
	if mask&MaskAltPath != 0 {
		e.Beyond = append(e.Beyond, qp.dev.badAddress("AltAV.", &attr.AltAV)...)
	}
	if len(e.Beyond) > 0 {
		return e
	}
	if mask&MaskAV != 0 && pathErrno(err) {
		// EINVAL may concern any value: an address without a fault of its own is named last.
		p := qp.dev.explainPath(err, &attr.AV)
		if errno != syscall.EINVAL || p.misfit() != "" {
			return p
		}
		e.Path = p
	}
	e.Beyond = qp.beyond(attr, mask)
	return e
}

// explainPath describes an address that was refused.
func (d *Device) explainPath(err error, av *AHAttr) *PathError {
	var errno syscall.Errno
	errors.As(err, &errno)
	p := &PathError{Device: d.Name(), Port: av.Port, SGIDIndex: int(av.SGIDIndex), Remote: av.DGID, Errno: errno}
	if e, err := d.QueryGIDEntry(av.Port, int(av.SGIDIndex)); err == nil {
		p.Local = e.GID
		p.LocalType = e.Type
		p.Netdev = e.Netdev
	}
	return p
}

// Query reads attributes from the device. Devices may also fill attributes that mask does not
// name.
//
// C: ibv_query_qp(3).
func (qp *QP) Query(mask QPAttrMask) (*QPAttr, error) {
	const op = "query qp"
	if err := qp.enterStates(op); err != nil {
		return nil, err
	}
	defer qp.leave()
	attr, init := new(abi.QPAttr), new(abi.QPInitAttrEx)
	if err := qp.make.Query(qp.handle, attr, uint32(mask), init); err != nil {
		return nil, &OpError{Op: op, Object: qp.name, Err: qp.explainQuery(err, mask)}
	}
	a := qpAttrFromC(attr)
	a.SignalAll = init.SQSigAll != 0
	return a, nil
}
