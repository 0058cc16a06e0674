package rdma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/admit"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// packetResolve bounds each step of finding the path to a peer, and packetTimeout all of them, including the peer's
// reply, which the kernel requests repeatedly. packetAgain is packetTimeout for a peer that was known.
const (
	packetResolve = 2 * time.Second
	packetTimeout = 30 * time.Second
	packetAgain   = 5 * time.Second
)

// limit bounds asking a peer that is not known.
func (c *PacketConn) limit() time.Duration {
	if c.opt.Timeout == 0 {
		return packetTimeout
	}
	return c.opt.Timeout
}

// watch reads the events of the connection manager: it replies to requests for the queue pair, and passes the other
// events to the goroutines that wait for them.
func (c *PacketConn) watch(ctx context.Context) {
	for {
		ev, err := c.ch.Event(ctx)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				c.failAs(err)
			}
			return
		case ev.Type == rdmacm.EventConnectRequest:
			r := packetRequest{id: ev.ID}
			var ask bool
			if r.from, ask = c.unproven(ev.ID.PeerAddr().Addr(), ev.PrivateData); !ask {
				c.reply(r)
			} else if oldest, over := c.proofs.Add(r); over {
				c.reply(oldest)
			}
		case ev.Type == rdmacm.EventDeviceRemoval:
			c.failAs(ev.Err())
		default:
			c.mu.Lock()
			ch := c.waiting[ev.ID]
			c.mu.Unlock()
			select {
			case ch <- ev:
			default: // no goroutine waits
			}
		}
	}
}

// packetRequest is a peer's request for the queue pair.
type packetRequest struct {
	id   *rdmacm.ID
	from netip.AddrPort // the address that it announces
}

// prove asks the owner of the address that a requester announces for its queue pair, before the requester gets its
// reply and can send. The request without an announcement needs no proof from this side.
func (c *PacketConn) prove(ctx context.Context, h *admit.Handshake, r packetRequest) {
	_, _ = c.resolve(bound{Ctx: ctx}, r.from, packetAgain, false) // without a proof its datagrams have a PacketAddr
	c.reply(r)
	c.proofs.Done(h, false)
}

// reply replies to a request, if the socket is open.
func (c *PacketConn) reply(r packetRequest) {
	c.mu.Lock()
	closed, qp := c.closed, c.qp
	c.mu.Unlock()
	if !closed {
		_ = r.id.Accept(&rdmacm.ConnParam{QPN: qp.Num()}) // the requester asks again
	}
	_ = r.id.Close()
}

// ask begins something that needs the event channel, with an ID whose events are sent to a channel. The caller ends it
// by done.
func (c *PacketConn) ask() (id *rdmacm.ID, events chan *rdmacm.Event, done func(), err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, nil, nil, ErrClosed
	}
	c.asking.Add(1)
	c.mu.Unlock()
	if id, err = c.ch.CreateID(rdmacm.PortSpaceUDP); err != nil {
		c.asking.Done()
		return nil, nil, nil, err
	}
	if c.opt.TOS != 0 {
		_ = id.SetTOS(c.opt.TOS)
	}
	events = make(chan *rdmacm.Event, 8)
	c.mu.Lock()
	c.waiting[id] = events
	c.mu.Unlock()
	return id, events, func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		_ = id.Close()
		c.asking.Done()
	}, nil
}

// await waits for an event.
func (c *PacketConn) await(b bound, events <-chan *rdmacm.Event, want rdmacm.EventType,
	timeout <-chan time.Time) (*rdmacm.Event, error) {
	for {
		done, late := b.Ends()
		select {
		case ev := <-events:
			if err := ev.Err(); err != nil {
				return nil, err
			}
			if ev.Type != want {
				return nil, &rdmacm.EventError{Type: ev.Type, Status: ev.Status}
			}
			return ev, nil
		case <-done:
		case <-late:
		case <-timeout:
			return nil, fmt.Errorf("while waiting for the event %v: %w", want, context.DeadlineExceeded)
		case <-c.over:
			return nil, c.why()
		}
		if err := b.Expired(); err != nil { // else the deadline was moved meanwhile
			return nil, err
		}
	}
}

// why is why the socket is over.
func (c *PacketConn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	return c.err
}

// localFor returns the address from which a peer is reached.
func (c *PacketConn) localFor(b bound, to netip.AddrPort) (netip.AddrPort, error) {
	id, events, done, err := c.ask()
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer done()
	if err := id.ResolveAddr(netip.AddrPort{}, to, packetResolve); err != nil {
		return netip.AddrPort{}, err
	}
	if _, err := c.await(b, events, rdmacm.EventAddrResolved, nil); err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(id.LocalAddr().Addr(), 0), nil
}

// askAgain asks the owner of an address again for its queue pair: it may be another since the peer has restarted.
func (c *PacketConn) askAgain(n *packetName) {
	_, err := c.resolve(bound{}, n.ap, packetAgain, true)
	c.mu.Lock()
	c.asked(n, c.now(), err)
	c.mu.Unlock()
}

// resolve asks the owner of an address for its queue pair. Only rdma_cm of the peer's system decides which program
// that is, so the reply proves which queue pair the address has. limit bounds all of it.
// announce has the peer ask for this side's address as well.
func (c *PacketConn) resolve(b bound, to netip.AddrPort, limit time.Duration, announce bool) (*packetName, error) {
	id, events, done, err := c.ask()
	if err != nil {
		return nil, err
	}
	defer done()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	p := &rdmacm.ConnParam{QPN: c.qp.Num()}
	if announce {
		p.PrivateData = c.announcement()
	}
	var ev *rdmacm.Event
	for _, step := range []struct {
		begin func() error
		want  rdmacm.EventType
	}{
		{func() error { return id.ResolveAddr(netip.AddrPortFrom(c.local.Addr(), 0), to, packetResolve) },
			rdmacm.EventAddrResolved},
		{func() error { return id.ResolveRoute(packetResolve) }, rdmacm.EventRouteResolved},
		{func() error { return id.Connect(p) }, rdmacm.EventEstablished},
	} {
		if err = step.begin(); err == nil {
			ev, err = c.await(b, events, step.want, timer.C)
		}
		if err != nil {
			return nil, &ibv.OpError{Op: "resolve", Object: to.String(), Err: err}
		}
	}
	if ev.UD == nil {
		return nil, &ibv.OpError{Op: "resolve", Object: to.String(), Err: &rdmacm.EventError{Type: ev.Type,
			Status: ev.Status}}
	}
	if q := ev.UD.QPN; q < 2 || q >= 1<<24-1 { // those of management, and of groups
		return nil, &ibv.OpError{Op: "resolve", Object: to.String(), Err: &ProtocolError{Frame: "queue pair",
			Got: fmt.Sprintf("%#x", q), Want: "0x2 to 0xfffffe"}}
	}
	a := &PacketAddr{of: c, ap: netip.AddrPortFrom(to.Addr(), 0), attr: ev.UD.AH, qpn: ev.UD.QPN}
	c.mu.Lock()
	n, unused := c.found(to, a, ev.UD.QKey, c.now())
	c.mu.Unlock()
	closeAHs(unused)
	return n, nil
}

// Join joins a multicast group, on the device of the socket: datagrams of its members are received, and WriteTo sends
// to it. ctx bounds the waiting.
func (c *PacketConn) Join(ctx context.Context, group netip.Addr) error {
	c.joining.Lock()
	defer c.joining.Unlock()
	err := c.join(ctx, group)
	if err != nil {
		err = c.fail("join", &ibv.OpError{Op: "join", Object: group.String(), Err: err})
	}
	return err
}

func (c *PacketConn) join(ctx context.Context, group netip.Addr) error {
	group = group.Unmap()
	c.mu.Lock()
	closed, joined := c.closed, c.groups[group] != nil
	if closed || joined {
		c.mu.Unlock()
		if closed {
			return ErrClosed
		}
		return &ibv.ArgError{Arg: "group", Got: group.String(), Want: "one that was not joined"}
	}
	c.asking.Add(1)
	c.mu.Unlock()
	defer c.asking.Done()
	if c.member == nil { // an ID that listens cannot join
		id, err := c.ch.CreateID(rdmacm.PortSpaceUDP)
		if err != nil {
			return err
		}
		if err := id.Bind(netip.AddrPortFrom(c.local.Addr(), 0)); err != nil {
			return errors.Join(err, id.Close())
		}
		c.member = id
	}
	events := make(chan *rdmacm.Event, 8)
	c.mu.Lock()
	c.waiting[c.member] = events
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, c.member)
		c.mu.Unlock()
	}()
	if err := c.member.JoinMulticast(group, rdmacm.JoinFullMember); err != nil {
		return err
	}
	ev, err := c.await(bound{Ctx: ctx}, events, rdmacm.EventMulticastJoin, nil)
	if err == nil && ev.UD == nil {
		err = &rdmacm.EventError{Type: ev.Type, Status: ev.Status}
	}
	if err == nil {
		err = c.qp.AttachMcast(ev.UD.AH.DGID, ev.UD.AH.DLID)
	}
	if err != nil {
		return errors.Join(err, c.member.LeaveMulticast(group))
	}
	c.mu.Lock()
	c.groups[group] = newPacketPeer(&PacketAddr{of: c, ap: netip.AddrPortFrom(group, 0), attr: ev.UD.AH,
		qpn: ev.UD.QPN}, ev.UD.QKey)
	c.mu.Unlock()
	return nil
}

// Leave leaves a group. Close leaves all.
func (c *PacketConn) Leave(group netip.Addr) error {
	c.joining.Lock()
	defer c.joining.Unlock()
	group = group.Unmap()
	c.writeTurn.Take() // no other goroutine makes its AH
	c.mu.Lock()
	p := c.groups[group]
	closed := c.closed
	if !closed {
		c.asking.Add(1)
		defer c.asking.Done()
	}
	busy := p != nil && p.busy > 0
	if p != nil && !closed && !busy {
		delete(c.groups, group)
	}
	c.mu.Unlock()
	c.writeTurn.Leave()
	var err error
	switch {
	case closed:
		err = ErrClosed
	case p == nil:
		err = &ibv.ArgError{Arg: "group", Got: group.String(), Want: "one that was joined"}
	case busy:
		err = &ibv.BusyError{Object: "group " + group.String(), Children: []string{"sends"}}
	default:
		if p.ah != nil {
			closeAHs([]*ibv.AH{p.ah})
		}
		err = errors.Join(c.qp.DetachMcast(p.addr.attr.DGID, p.addr.attr.DLID), c.member.LeaveMulticast(group))
	}
	return c.fail("leave", err)
}
