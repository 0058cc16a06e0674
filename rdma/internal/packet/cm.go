package packet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/admit"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// packetResolve bounds each step of finding the path to a peer, and packetTimeout all of them, including the peer's
// reply, which the kernel requests repeatedly. packetAgain is packetTimeout for a peer that was known.
const (
	packetResolve = 2 * time.Second
	Timeout       = 30 * time.Second
	Again         = 5 * time.Second
)

// packetCM is the connection manager's part of a socket.
type packetCM struct {
	ch     *rdmacm.EventChannel
	id     *rdmacm.ID     // bound to the socket's address; listens
	asking sync.WaitGroup // goroutines that use ch; it grows under the socket's mu
	proofs *admit.Gate[packetRequest]
	stop   context.CancelFunc
	events sync.WaitGroup

	joining sync.Mutex
	member  *rdmacm.ID // of groups, made by the first join; under joining

	mu      sync.Mutex
	waiting map[*rdmacm.ID]chan *rdmacm.Event
}

// open begins to read events for a socket.
func (m *packetCM) open(c *Conn) (err error) {
	if m.ch, err = rdmacm.NewEventChannel(); err != nil {
		return err
	}
	m.waiting = make(map[*rdmacm.ID]chan *rdmacm.Event)
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.proofs = admit.New(ctx, admit.Limits{Handshakes: datagram.AskMost, Backlog: datagram.AskMost,
		Waiting: admit.WaitingMost, Grace: admit.Grace}, c.prove)
	m.events.Go(func() { c.watch(ctx) })
	return nil
}

// bind makes the ID of the socket's address.
func (m *packetCM) bind(at netip.AddrPort, reuse bool) (*rdmacm.ID, error) {
	id, err := m.ch.CreateID(rdmacm.PortSpaceUDP)
	if err != nil {
		return nil, err
	}
	m.id = id
	if reuse {
		if err := id.SetReuseAddr(true); err != nil {
			return nil, err
		}
	}
	return id, id.Bind(at)
}

// wait has the events of an ID sent to a channel until done.
func (m *packetCM) wait(id *rdmacm.ID) (events chan *rdmacm.Event, done func()) {
	events = make(chan *rdmacm.Event, 8)
	m.mu.Lock()
	m.waiting[id] = events
	m.mu.Unlock()
	return events, func() {
		m.mu.Lock()
		delete(m.waiting, id)
		m.mu.Unlock()
	}
}

// pass passes an event to the goroutine that waits for it, if there is one.
func (m *packetCM) pass(ev *rdmacm.Event) {
	m.mu.Lock()
	ch := m.waiting[ev.ID]
	m.mu.Unlock()
	select {
	case ch <- ev:
	default:
	}
}

// joinAt returns the ID that joins groups, at an address: one that listens cannot join.
// Preconditions: joining is held.
func (m *packetCM) joinAt(at netip.Addr) (*rdmacm.ID, error) {
	if m.member != nil {
		return m.member, nil
	}
	id, err := m.ch.CreateID(rdmacm.PortSpaceUDP)
	if err != nil {
		return nil, err
	}
	if err := id.Bind(netip.AddrPortFrom(at, 0)); err != nil {
		return nil, errors.Join(err, id.Close())
	}
	m.member = id
	return id, nil
}

// halt ends reading events, and drops the requests that wait for a proof.
func (m *packetCM) halt() {
	m.stop()
	m.events.Wait()
	for _, r := range m.proofs.Close() {
		_ = r.id.Close()
	}
	m.proofs.Wait()
}

// close closes the IDs and the event channel.
func (m *packetCM) close() error {
	var errs []error
	for _, id := range []*rdmacm.ID{m.member, m.id} {
		if id != nil {
			errs = append(errs, id.Close())
		}
	}
	return errors.Join(append(errs, m.ch.Close())...)
}

// watch reads the events of the connection manager: it replies to requests for the queue pair, and passes the other
// events to the goroutines that wait for them.
func (c *Conn) watch(ctx context.Context) {
	for {
		ev, err := c.cm.ch.Event(ctx)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				c.FailAs(err)
			}
			return
		case ev.Type == rdmacm.EventConnectRequest:
			r := packetRequest{id: ev.ID}
			var ask bool
			if r.from, ask = c.unproven(ev.ID.PeerAddr().Addr(), ev.PrivateData); !ask {
				c.reply(r)
			} else if oldest, over := c.cm.proofs.Add(r); over {
				c.reply(oldest)
			}
		case ev.Type == rdmacm.EventDeviceRemoval:
			c.FailAs(ev.Err())
		default:
			c.cm.pass(ev)
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
func (c *Conn) prove(ctx context.Context, h *admit.Handshake, r packetRequest) {
	_, _ = c.resolve(turn.Bound{Ctx: ctx}, r.from, Again, false) // without a proof its datagrams have a PacketAddr
	c.reply(r)
	c.cm.proofs.Done(h, false)
}

// reply replies to a request, if the socket is open.
func (c *Conn) reply(r packetRequest) {
	c.Mu.Lock()
	closed, qp := c.closed, c.QP
	c.Mu.Unlock()
	if !closed {
		_ = r.id.Accept(&rdmacm.ConnParam{QPN: qp.Num()}) // the requester asks again
	}
	_ = r.id.Close()
}

// ask begins something that needs the event channel, with an ID whose events are sent to a channel. The caller ends it
// by done.
func (c *Conn) ask() (id *rdmacm.ID, events chan *rdmacm.Event, done func(), err error) {
	if err := c.enter(); err != nil {
		return nil, nil, nil, err
	}
	if id, err = c.cm.ch.CreateID(rdmacm.PortSpaceUDP); err != nil {
		c.cm.asking.Done()
		return nil, nil, nil, err
	}
	if c.opt.TOS != 0 {
		_ = id.SetTOS(c.opt.TOS)
	}
	events, waited := c.cm.wait(id)
	return id, events, func() {
		waited()
		_ = id.Close()
		c.cm.asking.Done()
	}, nil
}

// enter keeps the event channel open until cm.asking.Done, unless the socket is closed.
func (c *Conn) enter() error {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.closed {
		return ibv.ErrClosed
	}
	c.cm.asking.Add(1)
	return nil
}

// await waits for an event.
func (c *Conn) await(b turn.Bound, events <-chan *rdmacm.Event, want rdmacm.EventType,
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
		case <-c.Over.Done():
			return nil, c.why()
		}
		if err := b.Expired(); err != nil { // else the deadline was moved meanwhile
			return nil, err
		}
	}
}

// why is why the socket is over.
func (c *Conn) why() error {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.closed {
		return ibv.ErrClosed
	}
	return c.Err
}

// localFor returns the address from which a peer is reached.
func (c *Conn) localFor(b turn.Bound, to netip.AddrPort) (netip.AddrPort, error) {
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
func (c *Conn) askAgain(n *datagram.Name) {
	_, err := c.resolve(turn.Bound{}, n.AP, Again, true)
	c.Mu.Lock()
	c.Table.Asked(n, c.now(), err)
	c.Mu.Unlock()
}

// resolve asks the owner of an address for its queue pair. Only rdma_cm of the peer's system decides which program
// that is, so the reply proves which queue pair the address has. limit bounds all of it.
// announce has the peer ask for this side's address as well.
func (c *Conn) resolve(b turn.Bound, to netip.AddrPort, limit time.Duration, announce bool) (*datagram.Name,
	error) {
	id, events, done, err := c.ask()
	if err != nil {
		return nil, err
	}
	defer done()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	p := &rdmacm.ConnParam{QPN: c.QP.Num()}
	if announce {
		p.PrivateData = datagram.Announce(c.QP.Num(), c.At.Local.Port())
	}
	fail := func(err error) (*datagram.Name, error) {
		return nil, &ibv.OpError{Op: "resolve", Object: to.String(), Err: err}
	}
	var ev *rdmacm.Event
	for _, step := range []struct {
		begin func() error
		want  rdmacm.EventType
	}{
		{func() error { return id.ResolveAddr(netip.AddrPortFrom(c.At.Local.Addr(), 0), to, packetResolve) },
			rdmacm.EventAddrResolved},
		{func() error { return id.ResolveRoute(packetResolve) }, rdmacm.EventRouteResolved},
		{func() error { return id.Connect(p) }, rdmacm.EventEstablished},
	} {
		if err = step.begin(); err == nil {
			ev, err = c.await(b, events, step.want, timer.C)
		}
		if err != nil {
			return fail(err)
		}
	}
	if ev.UD == nil {
		return fail(&rdmacm.EventError{Type: ev.Type, Status: ev.Status})
	}
	if q := ev.UD.QPN; q < 2 || q >= 1<<24-1 { // those of management, and of groups
		return fail(&wire.Error{Frame: "queue pair", Got: fmt.Sprintf("%#x", q), Want: "0x2 to 0xfffffe"})
	}
	a := datagram.Address{AP: netip.AddrPortFrom(to.Addr(), 0), Attr: ev.UD.AH, QPN: ev.UD.QPN}
	c.Mu.Lock()
	n, unused := c.Table.Found(to, &a, ev.UD.QKey, c.now())
	c.Mu.Unlock()
	CloseAHs(unused)
	return n, nil
}

// Join joins a multicast group.
func (c *Conn) Join(ctx context.Context, group netip.Addr) error {
	c.cm.joining.Lock()
	defer c.cm.joining.Unlock()
	group = group.Unmap()
	if err := c.enter(); err != nil {
		return err
	}
	defer c.cm.asking.Done()
	c.Mu.Lock()
	joined := c.Table.Joined(group)
	c.Mu.Unlock()
	if joined {
		return &ibv.ArgError{Arg: "group", Got: group.String(), Want: "one that was not joined"}
	}
	member, err := c.cm.joinAt(c.At.Local.Addr())
	if err != nil {
		return err
	}
	events, done := c.cm.wait(member)
	defer done()
	if err := member.JoinMulticast(group, rdmacm.JoinFullMember); err != nil {
		return err
	}
	ev, err := c.await(turn.Bound{Ctx: ctx}, events, rdmacm.EventMulticastJoin, nil)
	if err == nil && ev.UD == nil {
		err = &rdmacm.EventError{Type: ev.Type, Status: ev.Status}
	}
	if err == nil {
		err = c.QP.AttachMcast(ev.UD.AH.DGID, ev.UD.AH.DLID)
	}
	if err != nil {
		return errors.Join(err, member.LeaveMulticast(group))
	}
	c.Mu.Lock()
	c.Table.Join(group, datagram.Address{AP: netip.AddrPortFrom(group, 0), Attr: ev.UD.AH, QPN: ev.UD.QPN}, ev.UD.QKey)
	c.Mu.Unlock()
	return nil
}

// Leave leaves a group.
func (c *Conn) Leave(group netip.Addr) error {
	c.cm.joining.Lock()
	defer c.cm.joining.Unlock()
	group = group.Unmap()
	if err := c.enter(); err != nil {
		return err
	}
	defer c.cm.asking.Done()
	c.writeTurn.Take() // no other goroutine makes its AH
	c.Mu.Lock()
	p, busy := c.Table.Leave(group)
	c.Mu.Unlock()
	c.writeTurn.Leave()
	var err error
	switch {
	case p == nil:
		err = &ibv.ArgError{Arg: "group", Got: group.String(), Want: "one that was joined"}
	case busy:
		err = &ibv.BusyError{Object: "group " + group.String(), Children: []string{"sends"}}
	default:
		if p.AH != nil {
			CloseAHs([]*ibv.AH{p.AH})
		}
		at := p.Addr.Attr
		err = errors.Join(c.QP.DetachMcast(at.DGID, at.DLID), c.cm.member.LeaveMulticast(group))
	}
	return err
}
