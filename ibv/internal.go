package ibv

import (
	"context"
	"os"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/friend"
)

// Internal is for the packages rdmacm and mlx5dv of this module, and opens with a key that others cannot make.
// No promise of compatibility covers it.
var Internal internal

type internal struct{}

// Show returns what this package shows those who have the key; it panics for others.
func (internal) Show(key *friend.Key) friends {
	if !key.Allows() {
		panic("ibv: Internal is for this module only")
	}
	return friends{}
}

// friends has what packages of this module need of objects of this one, beyond what everybody may have.
type friends struct{}

// OpenLent makes a Device of a struct ibv_context that librdmacm has opened and does not close.
func (friends) OpenLent(handle uintptr) (*Device, error) { return lentContext(handle) }

// CloseLent closes a Device of OpenLent, before librdmacm may close the device. It fails with a *BusyError while
// something is open on it.
func (friends) CloseLent(d *Device) error {
	return d.node.close(func() error {
		if err := d.closeOwnChannel(); err != nil {
			return err
		}
		d.async.Close()
		return nil
	})
}

// NoteRemoved notes that the device is gone, for those who wait for its CQs.
func (friends) NoteRemoved(d *Device) { d.removed.note(ErrDeviceRemoved) }

// CreateQP is pd.CreateQP with another function that makes the C object, and one that destroys it, nil for DestroyQP.
func (friends) CreateQP(pd *PD, send, recv *CQ, opt *QPOptions,
	create func(pd uintptr, attr *abi.QPInitAttrEx) (uintptr, error), destroy func(qp uintptr) error) (*QP, error) {
	if destroy == nil {
		destroy = pd.dev.v.DestroyQP
	}
	return pd.createQP(send, recv, opt, qpMaker{create, destroy})
}

// DestroyQP destroys the C object of a QP of pd as QP.Close does.
func (friends) DestroyQP(pd *PD, qp uintptr) error { return pd.dev.v.DestroyQP(qp) }

// CreateCQ is d.CreateCQ with another function that makes the C object.
func (friends) CreateCQ(d *Device, cqe int, opt *CQOptions,
	create func(dev uintptr, attr *abi.CQInitAttrEx) (uintptr, error)) (*CQ, error) {
	return d.createCQ(cqe, opt, create)
}

// ChoosePath returns the data path that a CQ of these options would have.
func (friends) ChoosePath(d *Device, opt *CQOptions) (DataPath, error) {
	path, _, err := chooseDataPath(opt.DataPath, os.Getenv(DataPathEnv), d.directError)
	return path, err
}

// Enter keeps an object open until leave, and returns the address of its C object.
func (friends) Enter(obj entered, op string) (handle uintptr, leave func(), err error) {
	if err := obj.enter(op); err != nil {
		return 0, nil, err
	}
	return obj.cObject(), obj.leave, nil
}

// entered is an object of this package that has a C object.
type entered interface {
	enter(op string) error
	leave()
	cObject() uintptr
}

func (d *Device) cObject() uintptr { return d.handle }
func (cq *CQ) cObject() uintptr    { return cq.handle }
func (qp *QP) cObject() uintptr    { return qp.handle }
func (s *SRQ) cObject() uintptr    { return s.handle }

// NextHalf returns where the QP's thread domain keeps which half of the BlueFlame register is next; nil without a
// thread domain.
func (friends) NextHalf(qp *QP) *uintptr {
	if td := qp.pd.td; td != nil && !shutUpBF() {
		return &td.half
	}
	return nil
}

// Events returns how many events the CQ had.
func (friends) Events(cq *CQ) uint32 { return cq.events.Load() }

// WaitEvent sleeps until the CQ had more events than seen.
func (friends) WaitEvent(ctx context.Context, cq *CQ, seen uint32) error {
	return cq.waitEvent(ctx, seen)
}

// OrZero returns v, or def for 0, or 0 for Zero.
func (friends) OrZero(v, def uint8) uint8 { return orZero(v, def) }

// ReadLimits returns how many reads and atomics a QP of the device can answer at a time, and how many it can have
// outstanding.
func (friends) ReadLimits(d *Device) (dest, init int) {
	return d.attr.MaxQPRdAtom, d.attr.MaxQPInitRdAtom
}

// QPAttr converts C's attributes.
func (friends) QPAttr(c *abi.QPAttr) *QPAttr {
	a := new(QPAttr)
	a.fromC(c)
	return a
}

// AHAttr converts C's address vector.
func (friends) AHAttr(c *abi.AHAttr) (a AHAttr) {
	a.fromC(c)
	return a
}
