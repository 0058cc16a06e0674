package ucma

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// GetEvent is rdma_get_cm_event and rdma_ack_cm_event. It calls do before it acknowledges the event.
func (c *CM) GetEvent(h control.Handle, do func(*control.CMEvent)) error {
	ch, err := c.channels.get(h)
	if err != nil {
		return err
	}
	for news := false; !news; {
		if err := c.acks.read(&ch.reading, func() (err error) { news, err = c.next(ch, do); return err }); err != nil {
			return err
		}
	}
	return nil
}

// next reads an event, and reports whether it was one for the program.
func (c *CM) next(ch *channel, do func(*control.CMEvent)) (news bool, err error) {
	var (
		e  abi.UCMEventResp
		of subject
		ev *control.CMEvent
	)
	err = ch.file.Do(func(w usercm.Writer) error {
		var q abi.UCMGetEvent
		if err := usercm.Ask(w, usercm.CmdGetEvent, &q, &q.Response, &e); err != nil {
			return err
		}
		of = subjectOf(c, &e)
		ev = (&arrival{c, w, ch, &e, of, new(control.CMEvent)}).event()
		return nil
	})
	if err != nil {
		return false, err
	}
	if of.id != nil {
		defer c.acks.add(of.counters()...)
	}
	if ev == nil {
		return false, nil
	}
	do(ev)
	return true, nil
}

// subject is whose an event is: an ID, and a group of it in events of groups. The zero subject is of an object that is
// gone.
type subject struct {
	id    *id
	group *group
}

func subjectOf(c *CM, e *abi.UCMEventResp) (s subject) {
	if g, err := c.groups.get(control.Handle(e.UID)); err == nil {
		return subject{g.id, g}
	}
	s.id, _ = c.ids.get(control.Handle(e.UID))
	return s
}

func (s subject) counters() []*events {
	if s.group != nil {
		return []*events{&s.id.events, &s.group.events}
	}
	return []*events{&s.id.events}
}

// arrival is an event of the kernel on its way to the program.
type arrival struct {
	c  *CM
	w  usercm.Writer
	ch *channel
	e  *abi.UCMEventResp
	of subject
	ev *control.CMEvent
}

// event makes the program's event of the kernel's, after it has done what librdmacm does then. It returns nil if the
// event is none for the program.
func (a *arrival) event() *control.CMEvent {
	multicast := a.e.Event == abi.RDMA_CM_EVENT_MULTICAST_JOIN || a.e.Event == abi.RDMA_CM_EVENT_MULTICAST_ERROR
	if a.of.id == nil || multicast != (a.of.group != nil) {
		if a.e.Event == abi.RDMA_CM_EVENT_CONNECT_REQUEST {
			_, _ = destroy(a.w, usercm.CmdDestroyID, a.e.ID) // nobody will
		}
		return nil
	}
	a.ev.ID, a.ev.Event, a.ev.Status = a.of.id.handle, a.e.Event, a.e.Status
	if !a.take() {
		return nil
	}
	return a.ev
}

// take does what an event asks for, and reports whether it is one for the program.
func (a *arrival) take() bool {
	i := a.of.id
	switch a.e.Event {
	case abi.RDMA_CM_EVENT_ADDR_RESOLVED:
		if err := a.resolved(); err != nil {
			a.fail(abi.RDMA_CM_EVENT_ADDR_ERROR, unopened)
		}
	case abi.RDMA_CM_EVENT_ROUTE_RESOLVED:
		if err := a.routed(); err != nil {
			a.fail(abi.RDMA_CM_EVENT_ROUTE_ERROR, statusOf(err))
		}
	case abi.RDMA_CM_EVENT_CONNECT_REQUEST:
		a.param()
		return a.request()
	case abi.RDMA_CM_EVENT_CONNECT_RESPONSE:
		a.conn()
		a.response()
	case abi.RDMA_CM_EVENT_REJECTED, abi.RDMA_CM_EVENT_DISCONNECTED:
		if i.now().failed {
			return false
		}
		if a.e.Event == abi.RDMA_CM_EVENT_REJECTED {
			_ = a.c.qps.stop(i)
		}
		a.param()
	case abi.RDMA_CM_EVENT_CONNECT_ERROR, abi.RDMA_CM_EVENT_UNREACHABLE, abi.RDMA_CM_EVENT_ESTABLISHED:
		a.param()
	case abi.RDMA_CM_EVENT_DEVICE_REMOVAL:
		a.c.devices.removed(i.now().dev)
	case abi.RDMA_CM_EVENT_MULTICAST_JOIN, abi.RDMA_CM_EVENT_MULTICAST_ERROR:
		a.multicast()
	case abi.RDMA_CM_EVENT_USER:
		a.ev.Param.PrivateData = uintptr(usercm.Arg(a.e)) // where the union has it
	case abi.RDMA_CM_EVENT_INTERNAL: // of ResolveAddrInfo
		a.ev.Event = abi.RDMA_CM_EVENT_ADDRINFO_RESOLVED
		return usercm.Arg(a.e) == abi.RDMA_CM_EVENT_ADDRINFO_RESOLVED
	}
	return true
}

// fail makes the event one of failure.
func (a *arrival) fail(event uint32, status int32) { a.ev.Event, a.ev.Status = event, status }

// unopened is the status, as librdmacm has it, of an event for a device that cannot be used.
const unopened = -1

// statusOf returns the negated errno of an error, as the status of an event.
func statusOf(err error) int32 {
	var e syscall.Errno
	if !errors.As(err, &e) {
		e = syscall.EIO
	}
	return -int32(e)
}

// resolved fetches what the kernel knows of an ID once its destination is resolved.
func (a *arrival) resolved() error {
	i := a.of.id
	if err := i.query(a.w, &a.c.devices); err != nil {
		return err
	}
	if i.now().dev == nil {
		return syscall.ENODEV
	}
	return nil
}

// routed fetches the paths of an ID.
func (a *arrival) routed() error {
	d := a.of.id.now().dev
	switch {
	case d == nil:
		return syscall.ENODEV
	case d.transport != abi.IBV_TRANSPORT_IB:
		return nil
	}
	return a.of.id.query(a.w, &a.c.devices)
}

// request makes the ID of a connection request; ok is false if the request cannot be served.
func (a *arrival) request() (ok bool) {
	listener := a.of.id
	n, p := a.c.newID(a.ch, listener.ps, listener.typ), usercm.Conn(a.e)
	n.number, n.remote = a.e.ID, a.e.ECE
	n.limits = limits{responder: p.ResponderResources, initiator: p.InitiatorDepth}
	if err := n.query(a.w, &a.c.devices); err != nil {
		_, _ = destroy(a.w, usercm.CmdDestroyID, n.number)
		a.c.forget(n)
		return false
	}
	a.ev.ListenID, a.ev.ID = listener.handle, n.handle
	return true
}

// response brings up the QP of an ID whose peer has accepted, and tells the peer. If the ID has no QP, both is left to
// the program.
func (a *arrival) response() {
	i := a.of.id
	qp := i.now().qp.handle
	if qp == 0 {
		i.mu.Lock()
		i.remote = a.e.ECE
		i.mu.Unlock()
		return
	}
	err := takeECE(a.c.v, i, qp, a.e.ECE)
	if err == nil {
		err = a.c.qps.bringUp(a.w, i, nil)
	}
	if err == nil {
		err = establish(a.w, i)
	}
	if err == nil {
		err = agreeECE(a.c.v, i, qp)
	}
	if err == nil {
		a.ev.Event = abi.RDMA_CM_EVENT_ESTABLISHED
		return
	}
	_ = a.c.qps.stop(i)
	i.mu.Lock()
	i.failed = true
	i.mu.Unlock()
	a.fail(abi.RDMA_CM_EVENT_CONNECT_ERROR, statusOf(err))
}

// multicast gives the program the address of a group, and its own name for it.
func (a *arrival) multicast() {
	a.ud()
	a.ev.Data, a.ev.Param.PrivateData, a.ev.Param.PrivateDataLen = nil, a.of.group.cookie, 0
	if a.e.Event == abi.RDMA_CM_EVENT_MULTICAST_JOIN && a.e.Status == 0 {
		if err := a.c.qps.join(a.of.group, &a.ev.Param.AHAttr); err != nil {
			a.fail(abi.RDMA_CM_EVENT_MULTICAST_ERROR, statusOf(err))
		}
	}
}

// param gives the program what the peer has sent.
func (a *arrival) param() {
	if a.of.id.typ == abi.IBV_QPT_UD {
		a.ud()
	} else {
		a.conn()
	}
}

func (a *arrival) conn() {
	p := usercm.Conn(a.e)
	*a.ev.Conn() = abi.RDMAConnParam{PrivateDataLen: p.PrivateDataLen, ResponderResources: p.ResponderResources,
		InitiatorDepth: p.InitiatorDepth, FlowControl: p.FlowControl, RetryCount: p.RetryCount,
		RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ, QPNum: p.QPNum}
	a.ev.Data = append([]byte(nil), p.PrivateData[:p.PrivateDataLen]...)
}

func (a *arrival) ud() {
	p := usercm.UD(a.e)
	a.ev.UD = true
	a.ev.Param = abi.RDMAUDParam{PrivateDataLen: p.PrivateDataLen, AHAttr: p.AHAttr, QPNum: p.QPNum, QKey: p.QKey}
	a.ev.Data = append([]byte(nil), p.PrivateData[:p.PrivateDataLen]...)
}
