package rdmacm

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// Verbs returns the ID's device, opened by librdmacm, on which to create PDs, CQs and QPs. IDs of
// one device share it. It stays open until these IDs and all objects created on it are closed. The
// error is a *StateError if the ID has no device yet.
//
// C: rdma_cm_id.verbs.
func (id *ID) Verbs() (*ibv.Device, error) {
	const op = "device of cm id"
	if err := id.enter(op); err != nil {
		return nil, err
	}
	defer id.leave()
	return id.verbs(op)
}

// Preconditions: the ID is entered.
func (id *ID) verbs(op string) (*ibv.Device, error) {
	h := id.lib.State(id.handle).Verbs
	if h == 0 {
		return nil, &ibv.OpError{Op: op, Object: id.name,
			Err: &StateError{Op: op, Need: needDevice}}
	}
	id.own.Lock()
	defer id.own.Unlock()
	if id.own.dev == nil {
		d, err := acquire(h)
		if err != nil {
			return nil, err
		}
		id.own.dev = d
	}
	return id.own.dev.dev, nil
}

// removed wakes all goroutines that wait on CQs of the device.
func (id *ID) removed() {
	id.own.Lock()
	defer id.own.Unlock()
	if id.own.dev != nil {
		verbs.NoteRemoved(id.own.dev.dev)
	}
}

// Port returns the device's port, 0 before the ID has a device.
func (id *ID) Port() uint8 { return id.state().Port }

// PKey returns the partition key of the ID.
func (id *ID) PKey() uint16 { return id.state().PKey }

// GIDs returns the local and the peer's GID, zero before they are known.
func (id *ID) GIDs() (local, peer ibv.GID) {
	s := id.state()
	return ibv.GID(s.SGID), ibv.GID(s.DGID)
}

// CreateQP creates a QP whose states librdmacm changes. It is in INIT (datagrams: RTS) and is ready
// when EventEstablished arrives. PD and CQs must belong to the Device that Verbs returns. The QP
// must be closed before the ID; that detaches it from the groups that the ID has joined.
//
// PD.CreateQP with BringUp has no such restrictions.
//
// C: rdma_create_qp(3), rdma_create_qp_ex(3).
func (id *ID) CreateQP(pd *ibv.PD, send, recv *ibv.CQ, opt *ibv.QPOptions) (*ibv.QP, error) {
	const op = "create qp"
	fail := func(err error) (*ibv.QP, error) {
		return nil, &ibv.OpError{Op: op, Object: id.name, Err: err}
	}
	if err := id.enter(op); err != nil {
		return nil, err
	}
	defer id.leave()
	dev, err := id.verbs(op)
	if err != nil {
		return nil, err
	}
	var o ibv.QPOptions
	if opt != nil {
		o = *opt
	}
	if o.Type == 0 && id.ps.datagram() {
		o.Type = ibv.UD
	}
	if pd == nil || pd.Device() != dev {
		return fail(&ibv.ArgError{Arg: "PD", Got: "nil, or a PD of another Device",
			Want: "a PD of the Device that Verbs returns; or use PD.CreateQP and BringUp"})
	}
	if o.Type == 0 && id.typ == ibv.XRCSend {
		o.Type = id.typ
	}
	if id.typ == ibv.XRCSend && o.Type != id.typ {
		return fail(&ibv.ArgError{Arg: "Type", Got: o.Type.String(), Want: "XRCSend, the type of the ID"})
	}
	if o.Type == ibv.XRCRecv {
		return fail(&ibv.ArgError{Arg: "Type", Got: "XRCRecv", Want: "another one; or use XRCD.CreateQP and BringUp"})
	}
	if send == nil || recv == nil && o.Type != ibv.XRCSend {
		return fail(&ibv.ArgError{Arg: "CQ", Got: "nil", Want: "a CQ of the same Device"})
	}
	id.qpMu.Lock()
	defer id.qpMu.Unlock()
	if id.qp != nil {
		return fail(&ibv.BusyError{Object: "cm id", Children: []string{"1 qp"}})
	}
	creating := true
	qp, err := verbs.CreateQP(pd, send, recv, &o,
		func(pd uintptr, attr *abi.QPInitAttrEx) (h uintptr, err error) {
			err = id.call(func() (err error) {
				h, err = id.lib.CreateQP(id.handle, pd, attr)
				return err
			})
			return h, err
		},
		func(h uintptr) error {
			if !creating {
				if err := id.enter("close qp"); err != nil { // the QP, a child, keeps the ID open
					return err
				}
				defer id.leave()
				id.qpMu.Lock()
				defer id.qpMu.Unlock()
			}
			return id.destroyQP(pd, h)
		})
	creating = false
	if err != nil {
		return nil, err
	}
	id.lead(qp)
	id.qp = qp
	id.life.Adopt("qp")
	return id.qp, nil
}

// destroyQP runs when the QP is closed, and when CreateQP fails. It replaces rdma_destroy_qp, which
// does not report errors.
//
// Preconditions: the ID is entered, and id.qpMu is held.
func (id *ID) destroyQP(pd *ibv.PD, qp uintptr) error {
	// C reads the ID's QP while it reads an event.
	ch := id.Channel()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	err := verbs.DestroyQP(pd, qp)
	if errors.Is(err, syscall.EBUSY) { // of ibv_destroy_qp(3): attached to a group
		if attach, some := id.detach(pd, qp); some {
			if err = verbs.DestroyQP(pd, qp); err != nil {
				attach()
			}
		}
	}
	if err != nil {
		return err
	}
	id.unattached()
	id.lib.ForgetQP(id.handle)
	if id.qp != nil {
		id.qp = nil
		id.life.Forget("qp")
	}
	return nil
}

// QPAttr returns the attributes that move a QP to a state for this connection: INIT once the ID has
// a device, RTR and RTS after EventConnectRequest or EventConnectResponse.
//
// C: rdma_init_qp_attr(3).
func (id *ID) QPAttr(state ibv.QPState) (*ibv.QPAttr, ibv.QPAttrMask, error) {
	const op = "qp attributes"
	var (
		attr *ibv.QPAttr
		mask ibv.QPAttrMask
	)
	err := id.bound(op, func() error {
		c := &abi.QPAttr{QPState: uint32(state)}
		m, err := id.lib.InitQPAttr(id.handle, c)
		if err != nil {
			return err
		}
		// Kernels before 3.19 set bits for RoCE that user space does not define.
		attr, mask = verbs.QPAttr(c), ibv.QPAttrMask(m)&^0x1e00000
		return nil
	})
	return attr, mask, err
}

// InitQP moves a QP of PD.CreateQP to INIT, where receives can be posted.
func (id *ID) InitQP(qp *ibv.QP) error { return id.modify(qp, ibv.StateInit, nil) }

// BringUp moves a QP of PD.CreateQP through INIT and RTR to RTS. The connecting side calls it after
// EventConnectResponse and before Establish, the other side before Accept. p may be nil; it can
// lower the resources for reads and atomics, and sets the access of the peer and OwnRNRRetryCount. Give Accept the same
// p. A peer that sends before a receive is posted tries again after 0.64 ms, not after librdmacm's
// 655 ms.
//
// On iWARP (ibv.TransportType.CMOnly) it moves the QP to INIT, and the kernel moves it to RTS before EventEstablished,
// which both sides get. There the connecting side may call BringUp before Connect; EventConnectResponse does not come.
func (id *ID) BringUp(qp *ibv.QP, p *ConnParam) error {
	if qp == nil {
		return &ibv.OpError{Op: "bring up qp", Object: id.name, Err: &ibv.ArgError{Arg: "QP", Got: "nil", Want: "a QP"}}
	}
	if p != nil {
		if err := errors.Join(p.check(), id.checkDepth(p)); err != nil {
			return &ibv.OpError{Op: "bring up qp", Object: id.name, Err: err}
		}
	}
	// INIT again: its access flags depend on the peer's request.
	states := []ibv.QPState{ibv.StateInit, ibv.StateRTR, ibv.StateRTS}
	if id.cmOnly() {
		states = states[:1]
	}
	for _, s := range states {
		if err := id.modify(qp, s, p); err != nil {
			return err
		}
	}
	return nil
}

// transport returns the protocol family of the ID's device, InfiniBand's before it has one.
// Preconditions: the ID is entered.
func (id *ID) transport() ibv.TransportType {
	return ibv.TransportType(id.lib.State(id.handle).Transport)
}

// cmOnly reports whether the kernel moves the QP of the connection.
func (id *ID) cmOnly() bool { return ibv.TransportType(id.state().Transport).CMOnly() }

// lead has follow note the states of a QP that the kernel moves.
func (id *ID) lead(qp *ibv.QP) {
	if qp.Device().Info().Transport.CMOnly() {
		id.led.Store(qp)
	}
}

// follow notes the state to which the kernel has moved the QP of the connection, where it does that.
func (id *ID) follow(t EventType) {
	qp := id.led.Load()
	switch {
	case qp == nil:
	case t == EventEstablished:
		verbs.NoteState(qp, ibv.StateRTS)
	case t == EventDisconnected:
		verbs.NoteState(qp, ibv.StateErr)
	}
}

// minRNRTimer is 0.64 ms, as in QP.Connect. With the kernel's 0, which means 655 ms, a peer that sends before a receive
// is posted would wait that long.
const minRNRTimer = 12

func (id *ID) modify(qp *ibv.QP, state ibv.QPState, p *ConnParam) error {
	var (
		attr *ibv.QPAttr
		mask ibv.QPAttrMask
		err  error
	)
	if qp.Type() == ibv.UD && state != ibv.StateInit {
		attr, mask = &ibv.QPAttr{State: state}, ibv.MaskState
		if state == ibv.StateRTS {
			mask |= ibv.MaskSQPSN
		}
	} else if attr, mask, err = id.QPAttr(state); err != nil {
		return err
	}
	maxDest, maxInit := verbs.ReadLimits(qp.Device())
	clip := func(v uint8, device, own int) uint8 { return uint8(verbs.OrDefault(own, min(int(v), device))) }
	if p == nil {
		p = &ConnParam{}
	}
	if mask&ibv.MaskAccessFlags != 0 {
		if p.Access != 0 {
			attr.Access = p.Access &^ ibv.AccessNone
		} else if !verbs.HasAtomics(qp.Device()) { // the kernel permits them, and mlx5's driver refuses them later
			attr.Access &^= ibv.RemoteAtomic
		}
	}
	if mask&ibv.MaskMaxDestRdAtomic != 0 {
		attr.MaxDestRdAtomic = clip(attr.MaxDestRdAtomic, maxDest, p.ResponderResources)
	}
	if mask&ibv.MaskMinRNRTimer != 0 && attr.MinRNRTimer == 0 {
		attr.MinRNRTimer = minRNRTimer
	}
	if mask&ibv.MaskMaxQPRdAtomic != 0 { // the kernel's value is the peer's limit, which an acceptance may have lowered
		peers := attr.MaxRdAtomic
		attr.MaxRdAtomic = min(clip(peers, maxInit, p.InitiatorDepth), peers)
	}
	if mask&ibv.MaskRNRRetry != 0 && p.OwnRNRRetryCount != 0 {
		attr.RNRRetry = uint8(verbs.OrDefault(p.OwnRNRRetryCount, 0))
	}
	if err := qp.Modify(attr, mask); err != nil {
		return fmt.Errorf("cm id: to %v: %w", state, err)
	}
	id.lead(qp)
	return nil
}
