package ucma

import (
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind/libibverbs"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// end is an end of a connection: IDs on a channel, with verbs of libibverbs. So the kernel's own rdma_cm runs this
// package also on SoftRoCE, whose queues only the library knows.
type end struct {
	*CM
	t  *testing.T
	ch control.Handle
	ps uint32
	at sockaddr.Addr // of the device
}

func newEnd(t *testing.T, ps uint32) *end {
	t.Helper()
	r := testutil.NeedRXE(t)
	v, err := libibverbs.Open()
	if err != nil {
		t.Fatal(err)
	}
	e := &end{CM: New(v), t: t, ps: ps}
	e.at, _ = sockaddr.New(netip.AddrPortFrom(netip.MustParseAddr(r.IP[0]), 0))
	e.ch = e.must(e.CreateEventChannel())
	t.Cleanup(func() {
		e.DestroyEventChannel(e.ch)
		for _, d := range e.devices.open {
			if d.refs != 0 {
				t.Errorf("%s has %d users", d.name, d.refs)
			}
			e.ok(v.CloseDevice(d.context))
		}
	})
	return e
}

func (e *end) must(h control.Handle, err error) control.Handle {
	e.t.Helper()
	e.ok(err)
	return h
}

func (e *end) ok(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// await waits for an event.
func (e *end) await(want uint32) (got *control.CMEvent) {
	e.t.Helper()
	for {
		err := e.GetEvent(e.ch, func(ev *control.CMEvent) { got = ev })
		if err == nil {
			break
		}
		if err != syscall.EAGAIN {
			e.t.Fatal(err)
		}
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(e.ChannelFD(e.ch)), Events: unix.POLLIN}}, -1)
		if err != nil && err != unix.EINTR {
			e.t.Fatal(err)
		}
	}
	if got.Event != want || got.Status != 0 {
		e.t.Fatalf("event %d with status %d, want %d", got.Event, got.Status, want)
	}
	return got
}

// qp makes a QP of an ID, and returns what destroys it.
func (e *end) qp(id control.Handle) (qp control.Handle, destroy func()) {
	e.t.Helper()
	pd := e.must(e.v.AllocPD(e.Verbs(id)))
	cq := e.must(e.v.CreateCQ(e.Verbs(id), 4, 0, 0, 0))
	attr := &abi.QPInitAttrEx{SendCQ: cq, RecvCQ: cq, QPType: abi.IBV_QPT_RC,
		Cap: abi.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}
	if e.ps == abi.RDMA_PS_UDP {
		attr.QPType = abi.IBV_QPT_UD
	}
	qp = e.must(e.CreateQP(id, pd, attr))
	return qp, func() {
		e.ok(e.v.DestroyQP(qp))
		e.ForgetQP(id)
		e.ok(e.v.DestroyCQ(cq))
		e.ok(e.v.DeallocPD(pd))
	}
}

// state checks the state that the device has for a QP.
func (e *end) state(qp control.Handle, want uint32) {
	e.t.Helper()
	attr := &abi.QPAttr{}
	e.ok(e.v.QueryQP(qp, attr, abi.IBV_QP_STATE, &abi.QPInitAttrEx{}))
	if attr.QPState != want {
		e.t.Errorf("the QP is in state %d, want %d", attr.QPState, want)
	}
}

// resolved returns an ID with a route.
func (e *end) resolved(to sockaddr.Addr) control.Handle {
	e.t.Helper()
	id := e.must(e.CreateID(e.ch, e.ps))
	e.ok(e.ResolveAddr(id, nil, &to, 2000))
	e.await(abi.RDMA_CM_EVENT_ADDR_RESOLVED)
	e.ok(e.ResolveRoute(id, 2000))
	e.await(abi.RDMA_CM_EVENT_ROUTE_RESOLVED)
	return id
}

// TestRXE_Connect connects two IDs with their QPs, and moves one to another channel on the way.
func TestRXE_Connect(t *testing.T) {
	r := testutil.NeedRXE(t)
	for name, ps := range map[string]uint32{"connections": abi.RDMA_PS_TCP, "datagrams": abi.RDMA_PS_UDP} {
		t.Run(name, func(t *testing.T) {
			server, client := newEnd(t, ps), newEnd(t, ps)
			l := server.must(server.CreateID(server.ch, ps))
			server.ok(server.SetOption(l, abi.RDMA_OPTION_ID, abi.RDMA_OPTION_ID_REUSEADDR, []byte{1, 0, 0, 0}))
			server.ok(server.BindAddr(l, &server.at))
			server.ok(server.Listen(l, 4))
			to := server.Src(l)
			if to.Port() == 0 || server.Verbs(l) == 0 {
				t.Fatalf("the listener is at %v, on the context %#x", to.AddrPort(), server.Verbs(l))
			}
			c := client.resolved(to)
			if local, peer := client.GIDs(c); local != peer || local == (abi.GID{}) || len(client.Paths(c)) != 1 ||
				client.Port(c) != r.Port {
				t.Errorf("GIDs %v and %v, port %d, paths %+v", local, peer, client.Port(c), client.Paths(c))
			}
			cq, destroy := client.qp(c)
			defer func() { destroy(); client.ok(client.DestroyID(c)) }()
			client.ok(client.Connect(c, everything, []byte("hello")))

			ev := server.await(abi.RDMA_CM_EVENT_CONNECT_REQUEST)
			s := ev.ID
			from, peer := client.Src(c), server.Dst(s)
			if ev.ListenID != l || string(ev.Data[:5]) != "hello" || peer.AddrPort() != from.AddrPort() {
				t.Errorf("%+v from %v, want %v", ev, peer.AddrPort(), from.AddrPort())
			}
			other := server.must(server.CreateEventChannel())
			defer server.DestroyEventChannel(other)
			server.ok(server.MigrateID(s, other))
			sq, destroyS := server.qp(s)
			defer func() { destroyS(); server.ok(server.DestroyID(s)); server.ok(server.DestroyID(l)) }()
			server.ok(server.Accept(s, everything, []byte("you")))
			ev = client.await(abi.RDMA_CM_EVENT_ESTABLISHED)
			if string(ev.Data[:3]) != "you" || ev.UD != (ps == abi.RDMA_PS_UDP) {
				t.Errorf("%+v, data %q", ev, ev.Data)
			}
			client.state(cq, abi.IBV_QPS_RTS)
			server.state(sq, abi.IBV_QPS_RTS)
			if ps == abi.RDMA_PS_UDP {
				return
			}
			moved := *server
			moved.ch = other
			moved.await(abi.RDMA_CM_EVENT_ESTABLISHED)
			client.ok(client.Disconnect(c))
			client.state(cq, abi.IBV_QPS_ERR)
			if ev := moved.await(abi.RDMA_CM_EVENT_DISCONNECTED); ev.ID != s {
				t.Errorf("event of %d, want %d", ev.ID, s)
			}
			server.ok(server.Disconnect(s))
			client.await(abi.RDMA_CM_EVENT_DISCONNECTED)
		})
	}
}

// TestRXE_Multicast joins and leaves a group.
func TestRXE_Multicast(t *testing.T) {
	testutil.NeedRXE(t)
	e := newEnd(t, abi.RDMA_PS_UDP)
	id := e.must(e.CreateID(e.ch, e.ps))
	e.ok(e.BindAddr(id, &e.at))
	_, destroy := e.qp(id)
	defer func() { destroy(); e.ok(e.DestroyID(id)) }()
	group, _ := sockaddr.New(netip.MustParseAddrPort("239.1.2.9:0"))
	e.ok(e.JoinMulticast(id, &group, 0, 77))
	ev := e.await(abi.RDMA_CM_EVENT_MULTICAST_JOIN)
	if !ev.UD || ev.Param.PrivateData != 77 || ev.Param.QPNum != 0xffffff || ev.ID != id {
		t.Errorf("%+v", ev)
	}
	e.ok(e.LeaveMulticast(id, &group))
	if err := e.LeaveMulticast(id, &group); err != syscall.EADDRNOTAVAIL {
		t.Errorf("left twice: %v", err)
	}
}

// TestRXE_Errnos: the kernel's errors come as they are.
func TestRXE_Errnos(t *testing.T) {
	e := newEnd(t, abi.RDMA_PS_TCP)
	a, b := e.must(e.CreateID(e.ch, e.ps)), e.must(e.CreateID(e.ch, e.ps))
	defer func() { e.ok(e.DestroyID(a)); e.ok(e.DestroyID(b)) }()
	e.ok(e.BindAddr(a, &e.at))
	e.ok(e.Listen(a, 1))
	taken := e.Src(a)
	got := []error{e.ResolveRoute(b, 1), e.Connect(b, everything, nil), e.BindAddr(b, &taken)}
	want := []error{syscall.EINVAL, syscall.EINVAL, syscall.EADDRINUSE}
	if !slices.Equal(got, want) {
		t.Errorf("errors %v, want %v", got, want)
	}
	nowhere, _ := sockaddr.New(netip.MustParseAddrPort("192.0.2.1:0"))
	if err := e.BindAddr(b, &nowhere); err != syscall.ENODEV && err != syscall.EADDRNOTAVAIL { // by the route to it
		t.Errorf("an address of no device: %v", err)
	}
}
