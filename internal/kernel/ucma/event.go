package ucma

import (
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
		if err := c.read(ch, func() (err error) { news, err = c.next(ch, do); return err }); err != nil {
			return err
		}
	}
	return nil
}

// next reads an event, and reports whether it was one for the program.
func (c *CM) next(ch *channel, do func(*control.CMEvent)) (news bool, err error) {
	var (
		e  usercm.Event
		of subject
		ev *control.CMEvent
	)
	err = ch.file.Do(func(w usercm.Writer) error {
		var q usercm.GetEvent
		if err := usercm.Ask(w, usercm.CmdGetEvent, &q, &q.Response, &e); err != nil {
			return err
		}
		of = c.subject(&e)
		ev = c.event(w, ch, of, &e)
		return nil
	})
	if err != nil {
		return false, err
	}
	if of.id != nil {
		defer c.ack(of.counters()...)
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

func (c *CM) subject(e *usercm.Event) (s subject) {
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

// event makes the program's event of the kernel's, after it has done what librdmacm does then. It returns nil if the
// event is none for the program.
func (c *CM) event(w usercm.Writer, ch *channel, of subject, e *usercm.Event) *control.CMEvent {
	request := e.Event == abi.RDMA_CM_EVENT_CONNECT_REQUEST
	multicast := e.Event == abi.RDMA_CM_EVENT_MULTICAST_JOIN || e.Event == abi.RDMA_CM_EVENT_MULTICAST_ERROR
	if of.id == nil || multicast != (of.group != nil) {
		if request {
			_, _ = destroy(w, usercm.CmdDestroyID, e.ID) // nobody will
		}
		return nil
	}
	i, ev := of.id, &control.CMEvent{}
	ev.ID, ev.Event, ev.Status = i.handle, e.Event, e.Status
	fail := func(as uint32, status int32) { ev.Event, ev.Status = as, status }
	switch e.Event {
	case abi.RDMA_CM_EVENT_ADDR_RESOLVED:
		if err := c.resolved(w, i); err != nil {
			fail(abi.RDMA_CM_EVENT_ADDR_ERROR, unopened)
		}
		return ev
	case abi.RDMA_CM_EVENT_ROUTE_RESOLVED:
		if d := i.device(); d == nil {
			fail(abi.RDMA_CM_EVENT_ROUTE_ERROR, -int32(syscall.ENODEV))
		} else if d.transport == abi.IBV_TRANSPORT_IB {
			if err := c.queryPaths(w, i); err != nil {
				fail(abi.RDMA_CM_EVENT_ROUTE_ERROR, statusOf(err))
			}
		}
		return ev
	case abi.RDMA_CM_EVENT_CONNECT_REQUEST:
		n := c.request(w, ch, i, e)
		if n == nil {
			return nil
		}
		ev.ListenID, ev.ID = i.handle, n.handle
	case abi.RDMA_CM_EVENT_CONNECT_RESPONSE:
		if i.pair().handle == 0 {
			i.mu.Lock()
			i.remote = e.ECE
			i.mu.Unlock()
		} else if err := c.response(w, i, e); err != nil {
			fail(abi.RDMA_CM_EVENT_CONNECT_ERROR, statusOf(err))
		} else {
			ev.Event = abi.RDMA_CM_EVENT_ESTABLISHED
		}
		takeConn(ev, e)
		return ev
	case abi.RDMA_CM_EVENT_REJECTED, abi.RDMA_CM_EVENT_DISCONNECTED:
		i.mu.Lock()
		failed := i.failed
		i.mu.Unlock()
		if failed {
			return nil
		}
		if e.Event == abi.RDMA_CM_EVENT_REJECTED {
			_ = c.stop(i)
		}
	case abi.RDMA_CM_EVENT_CONNECT_ERROR, abi.RDMA_CM_EVENT_UNREACHABLE, abi.RDMA_CM_EVENT_ESTABLISHED:
	case abi.RDMA_CM_EVENT_DEVICE_REMOVAL:
		c.devices.removed(i.device())
		return ev
	case abi.RDMA_CM_EVENT_MULTICAST_JOIN, abi.RDMA_CM_EVENT_MULTICAST_ERROR:
		p := takeUD(ev, e)
		ev.Data, ev.Param.PrivateData, ev.Param.PrivateDataLen = nil, of.group.cookie, 0
		if e.Event == abi.RDMA_CM_EVENT_MULTICAST_JOIN && e.Status == 0 {
			if err := c.join(of.group, &p); err != nil {
				fail(abi.RDMA_CM_EVENT_MULTICAST_ERROR, statusOf(err))
			}
		}
		return ev
	case abi.RDMA_CM_EVENT_USER:
		ev.Param.PrivateData = uintptr(e.Arg()) // where the union has it
		return ev
	case abi.RDMA_CM_EVENT_INTERNAL: // of ResolveAddrInfo
		if e.Arg() != abi.RDMA_CM_EVENT_ADDRINFO_RESOLVED {
			return nil
		}
		ev.Event = abi.RDMA_CM_EVENT_ADDRINFO_RESOLVED
		return ev
	default:
		return ev
	}
	if i.typ == abi.IBV_QPT_UD {
		takeUD(ev, e)
	} else {
		takeConn(ev, e)
	}
	return ev
}

// unopened is the status, as librdmacm has it, of an event for a device that cannot be used.
const unopened = -1

// resolved fetches what the kernel knows of an ID once its destination is resolved.
func (c *CM) resolved(w usercm.Writer, i *id) error {
	if err := c.queryAddr(w, i); err != nil {
		return err
	}
	d := i.device()
	switch {
	case d == nil:
		return syscall.ENODEV
	case d.transport != abi.IBV_TRANSPORT_IB:
		return nil
	}
	return c.queryGIDs(w, i)
}

// request returns the ID of a connection request, or nil if the request cannot be served.
func (c *CM) request(w usercm.Writer, ch *channel, listener *id, e *usercm.Event) *id {
	n := c.newID(ch, listener.ps, listener.typ)
	p := e.Conn()
	n.number, n.remote = e.ID, e.ECE
	n.limits = limits{responder: p.ResponderResources, initiator: p.InitiatorDepth}
	for _, query := range []func(usercm.Writer, *id) error{c.queryAddr, c.queryGIDs, c.queryPaths} {
		if query(w, n) != nil {
			_, _ = destroy(w, usercm.CmdDestroyID, n.number)
			c.forget(n)
			return nil
		}
	}
	return n
}

// response brings up the QP of an ID whose peer has accepted, and tells the peer.
func (c *CM) response(w usercm.Writer, i *id, e *usercm.Event) error {
	qp := i.pair().handle
	err := c.takeECE(i, qp, e.ECE)
	if err == nil {
		err = c.bringUp(w, i, nil)
	}
	if err == nil {
		err = establish(w, i)
	}
	if err == nil {
		err = c.agreeECE(i, qp)
	}
	if err != nil {
		_ = c.stop(i)
		i.mu.Lock()
		i.failed = true
		i.mu.Unlock()
	}
	return err
}

func takeConn(ev *control.CMEvent, e *usercm.Event) {
	p := e.Conn()
	*ev.Conn() = abi.RDMAConnParam{PrivateDataLen: p.PrivateLen, ResponderResources: p.ResponderResources,
		InitiatorDepth: p.InitiatorDepth, FlowControl: p.FlowControl, RetryCount: p.RetryCount,
		RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ, QPNum: p.QPNum}
	ev.Data = append([]byte(nil), p.Private[:p.PrivateLen]...)
}

func takeUD(ev *control.CMEvent, e *usercm.Event) usercm.UDParam {
	p := e.UD()
	ev.UD = true
	ev.Param = abi.RDMAUDParam{PrivateDataLen: p.PrivateLen, AHAttr: p.AHAttr, QPNum: p.QPNum, QKey: p.QKey}
	ev.Data = append([]byte(nil), p.Private[:p.PrivateLen]...)
	return p
}
