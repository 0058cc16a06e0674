package rdmacm

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/control"
)

// Connect sends a connection request, after ResolveRoute. p may be nil with a QP of CreateQP, or in a datagram port
// space; otherwise p.QPN names the QP. With a QP of CreateQP, and in datagram port spaces,
// EventEstablished follows. Otherwise EventConnectResponse follows, after which the caller calls
// BringUp and Establish. EventRejected reports a refusal.
//
// C: rdma_connect(3).
func (id *ID) Connect(p *ConnParam) error {
	const op = "connect"
	return id.bound(op, func() error {
		needQP := id.checkQP(p, id.ps.datagram()) // a request for datagrams names no QP
		if p == nil {
			p = &ConnParam{}
		}
		if err := errors.Join(needQP, p.check(),
			checkData(op, id.ps, id.transport(), p.PrivateData, id.ps.ConnectDataLimit())); err != nil {
			return err
		}
		if err := id.lib.Connect(id.handle, p.toC(), p.PrivateData); err != nil {
			return id.explainParam(p, err)
		}
		id.order.advance(stageConnecting)
		return nil
	})
}

// checkQP rejects a call that would name QP 0, the subnet manager's, to the peer.
func (id *ID) checkQP(p *ConnParam, unnamed bool) error {
	const want = "the number of a QP in ConnParam.QPN, or a QP of ID.CreateQP"
	switch {
	case unnamed || guarded(&id.qpMu, &id.qp) != nil:
	case p == nil:
		return &ibv.ArgError{Arg: "parameter", Got: "nil", Want: want}
	case p.QPN == 0:
		return &ibv.ArgError{Arg: "QPN", Got: "0", Want: want}
	}
	return nil
}

// checkDepth rejects more outstanding reads than the peer's request allows; its device would refuse them.
//
// C: rdma_accept(3), initiator_depth.
func (id *ID) checkDepth(p *ConnParam) error {
	if id.asked == nil || p == nil || p.InitiatorDepth <= id.asked.InitiatorDepth {
		return nil
	}
	return &ibv.LimitError{What: "InitiatorDepth", Asked: uint64(p.InitiatorDepth),
		Limit: uint64(id.asked.InitiatorDepth), Where: peersRequest}
}

// peersRequest is the Where of a *LimitError about what a peer's request allows.
const peersRequest = "the peer's request, its ResponderResources"

// Accept accepts the request of an EventConnectRequest. p may be nil with a QP of CreateQP;
// otherwise p.QPN names the QP, which BringUp has made ready. EventEstablished follows.
//
// C: rdma_accept(3).
func (id *ID) Accept(p *ConnParam) error {
	const op = "accept"
	return id.bound(op, func() error {
		needQP := id.checkQP(p, false)
		if id.order.load() < stageRequested {
			needQP = nil // the call's place is the mistake
		}
		if p == nil {
			p = &ConnParam{}
		}
		if err := errors.Join(needQP, p.check(), id.checkDepth(p),
			checkData(op, id.ps, id.transport(), p.PrivateData, id.ps.AcceptDataLimit())); err != nil {
			return err
		}
		if id.lib.Old() { // it must read no event of the ID meanwhile
			ch := id.Channel()
			ch.mu.Lock()
			defer ch.mu.Unlock()
		}
		if err := id.lib.Accept(id.handle, p.toC(), p.PrivateData); err != nil {
			return id.explainParam(p, err)
		}
		id.order.advance(stageConnecting)
		return nil
	})
}

// explainParam names the parameters that exceed the device's limits. librdmacm returns only EINVAL
// for them.
// Preconditions: the ID is entered.
func (id *ID) explainParam(p *ConnParam, err error) error {
	if !errors.Is(err, syscall.EINVAL) {
		return err
	}
	dev, e := id.verbs("read limits")
	if e != nil {
		return err
	}
	dest, init := verbs.ReadLimits(dev)
	for _, f := range []struct {
		name     string
		v, limit int
	}{{"ResponderResources", p.ResponderResources, dest}, {"InitiatorDepth", p.InitiatorDepth, init}} {
		if f.v > f.limit {
			err = errors.Join(&ibv.LimitError{What: f.name, Asked: uint64(f.v), Limit: uint64(f.limit),
				Where: dev.Name()}, err)
		}
	}
	return err
}

// Establish notifies the peer, after EventConnectResponse, that the QP is ready. It is not for QPs of CreateQP.
// librdmacm v21 and v22 notify the peer before EventConnectResponse, so the peer's first messages may have to be
// repeated.
//
// C: rdma_establish(3).
func (id *ID) Establish() error {
	return id.bound("establish", func() error {
		if id.established.Load() {
			return nil
		}
		return id.lib.Establish(id.handle)
	})
}

// Reject refuses the request of an EventConnectRequest. The ID must still be closed. Do not call it after Accept: Linux
// then goes on to repeat its reply (cm_send_rej_locked does not cancel it), and Close waits until the retries that the
// peer asks for are spent, a minute by default. Close alone refuses such a request, without data.
//
// C: rdma_reject(3).
func (id *ID) Reject(data []byte) error { return id.reject(control.CM.Reject, data) }

// RejectECE is Reject with the reason RejectVendorOption: the peer's enhanced connection options
// are refused. It needs rdma-core v31.
//
// C: rdma_reject_ece(3).
func (id *ID) RejectECE(data []byte) error { return id.reject(control.CM.RejectECE, data) }

func (id *ID) reject(call func(l control.CM, id uintptr, data []byte) error, data []byte) error {
	const op = "reject"
	return id.bound(op, func() error {
		if err := checkData(op, id.ps, id.transport(), data, id.ps.RejectDataLimit()); err != nil {
			return err
		}
		return call(id.lib, id.handle, data)
	})
}

// Disconnect ends a connection. The peer gets EventDisconnected and replies with Disconnect or by closing its ID. This
// side gets EventDisconnected when the peer has replied, or after a timeout. A QP of CreateQP enters the state ERR.
//
// C: rdma_disconnect(3).
func (id *ID) Disconnect() error {
	return id.bound("disconnect", func() error { return id.lib.Disconnect(id.handle) })
}

// Notify reports an asynchronous event of the QP to the ID. It is needed for EventCommEst, which
// may arrive before the peer's last message of the handshake.
//
// C: rdma_notify(3).
func (id *ID) Notify(t ibv.AsyncEventType) error {
	return id.bound("notify", func() error { return id.lib.Notify(id.handle, uint32(t)) })
}

// WriteEvent puts an EventUser on the ID's channel. It needs rdma-core v60 and a kernel that
// supports it.
//
// C: rdma_write_cm_event(3).
func (id *ID) WriteEvent(status int32, arg uint64) error {
	return id.do("write cm event", func() error {
		return id.lib.WriteCMEvent(id.handle, uint32(EventUser), status, arg)
	})
}
