package rdmacm

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_CM_Connect takes a connection through its life, with the QPs ours and
// with the QPs librdmacm's, each way.
func TestRXE_CM_Connect(t *testing.T) {
	for _, c := range []struct {
		name            string
		active, passive bool
	}{{"ours", false, false}, {"librdmacm's", true, true}, {"active librdmacm's", true, false},
		{"passive librdmacm's", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			ch := newChannel(t)
			l, addr := listener(t, ch, PortSpaceTCP, 4)
			id := resolved(t, ch, PortSpaceTCP, addr)
			a := newRig(t, id, c.active)
			ok(t, id.Connect(a.param("hello")))

			req := event(t, ch, EventConnectRequest)
			peer := closing(t, req.ID)
			if req.Listener != l || string(req.PrivateData[:5]) != "hello" ||
				len(req.PrivateData) != PortSpaceTCP.ConnectDataLimit() {
				t.Fatalf("request of %v with %q", req.Listener, req.PrivateData)
			}
			if req.Conn.QPN != a.qp.Num() {
				t.Errorf("request of QP %#x, want %#x", req.Conn.QPN, a.qp.Num())
			}
			b := newRig(t, peer, c.passive)
			if !c.passive {
				ok(t, peer.BringUp(b.qp, nil))
			}
			ok(t, peer.Accept(b.param("welcome")))

			if !c.active {
				resp := event(t, ch, EventConnectResponse)
				if string(resp.PrivateData[:7]) != "welcome" || resp.Conn.QPN != b.qp.Num() {
					t.Fatalf("response %q of QP %#x", resp.PrivateData, resp.Conn.QPN)
				}
				ok(t, id.BringUp(a.qp, nil))
				ok(t, id.Establish())
				if ev := event(t, ch, EventEstablished); ev.ID != peer {
					t.Fatalf("established is %v, want %v", ev.ID, peer)
				}
			} else {
				got := map[*ID]bool{event(t, ch, EventEstablished).ID: true, event(t, ch, EventEstablished).ID: true}
				if !got[id] || !got[peer] {
					t.Fatalf("established are %v", got)
				}
			}
			pingpong(t, a, b)

			ok(t, id.Disconnect())
			if ev := event(t, ch, EventDisconnected); ev.ID != peer {
				t.Fatalf("disconnected is %v, want the peer", ev.ID)
			}
			ok(t, peer.Disconnect()) // the answer
			if ev := event(t, ch, EventDisconnected); ev.ID != id {
				t.Fatalf("disconnected is %v, want the one that did", ev.ID)
			}
			if c.active {
				if s := a.qp.State(); s != ibv.StateErr {
					t.Errorf("the QP is in %v after disconnect", s)
				}
			}
		})
	}
}

// TestRXE_CM_Datagrams finds a peer by address and sends it datagrams.
func TestRXE_CM_Datagrams(t *testing.T) {
	for _, own := range []bool{false, true} {
		name := "ours"
		if own {
			name = "librdmacm's"
		}
		t.Run(name, func(t *testing.T) {
			ch := newChannel(t)
			_, addr := listener(t, ch, PortSpaceUDP, 4)
			id := resolved(t, ch, PortSpaceUDP, addr)
			a := newRig(t, id, own)
			ok(t, id.Connect(a.param("who are you")))
			req := event(t, ch, EventConnectRequest)
			peer := closing(t, req.ID)
			if string(req.PrivateData[:11]) != "who are you" || req.UD == nil {
				t.Fatalf("request with %q, %v", req.PrivateData, req.UD)
			}
			b := newRig(t, peer, own)
			if !own {
				ok(t, peer.BringUp(b.qp, nil))
			}
			ok(t, peer.Accept(b.param("")))
			ev := event(t, ch, EventEstablished)
			if ev.UD == nil || ev.UD.QPN != b.qp.Num() || ev.UD.QKey != UDPQKey || !ev.UD.AH.Global {
				t.Fatalf("the peer is %+v, want QP %#x", ev.UD, b.qp.Num())
			}
			if !own {
				ok(t, id.BringUp(a.qp, nil))
			}
			sendDatagram(t, a, b, ev.UD)
		})
	}
}

// sendDatagram sends one to where u says, which b must receive.
func sendDatagram(t *testing.T, a, b *rig, u *UDParam) {
	t.Helper()
	const grh = 40
	ah := closing(t, must(a.pd.CreateAH(&u.AH))(t))
	copy(a.mr.Bytes(), "a datagram")
	must(b.qp.PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{b.mr.SGE(0, 256)}}}))(t)
	wr := ibv.SendWR{ID: 2, Opcode: ibv.OpSend, Flags: ibv.Signaled, SGEs: []ibv.SGE{a.mr.SGE(0, 10)}, AH: ah,
		RemoteQPN: u.QPN, RemoteQKey: u.QKey}
	must(a.qp.PostSend([]ibv.SendWR{wr}))(t)
	if a == b { // both completions come on one CQ
		got := map[uint64]bool{a.one(t).ID: true, a.one(t).ID: true}
		if !got[1] || !got[2] {
			t.Fatalf("completions of %v", got)
		}
	} else {
		a.one(t)
		if wc := b.one(t); wc.ByteLen != grh+10 {
			t.Fatalf("%d bytes were received", wc.ByteLen)
		}
	}
	if got := string(b.mr.Bytes()[grh:][:10]); got != "a datagram" {
		t.Fatalf("received %q", got)
	}
}

// TestRXE_CM_Multicast joins a group, sends to it and leaves it.
func TestRXE_CM_Multicast(t *testing.T) {
	group := netip.MustParseAddr("239.1.2.3")
	for _, own := range []bool{false, true} {
		name := "ours"
		if own {
			name = "librdmacm's"
		}
		t.Run(name, func(t *testing.T) {
			ch := newChannel(t)
			id := newIDOn(t, ch, PortSpaceUDP)
			ok(t, id.Bind(local(t)))
			var arg *ibv.ArgError
			if err := id.JoinMulticast(netip.MustParseAddr("10.0.0.1"), JoinFullMember); !errors.As(err, &arg) {
				t.Errorf("join an address that is no group: %v", err)
			}
			if err := id.LeaveMulticast(group); !errors.Is(err, syscall.EADDRNOTAVAIL) {
				t.Errorf("leave a group before joining: %v", err)
			}
			a := newRig(t, id, own)
			if !own {
				ok(t, id.BringUp(a.qp, nil))
			}
			ok(t, id.JoinMulticast(group, JoinFullMember))
			ev := event(t, ch, EventMulticastJoin)
			if ev.Group != group || ev.ID != id || ev.UD == nil || ev.UD.QPN != 0xffffff ||
				!ev.UD.AH.DGID.IsMulticast() {
				t.Fatalf("joined %v: %+v", ev.Group, ev.UD)
			}
			if !own {
				ok(t, a.qp.AttachMcast(ev.UD.AH.DGID, ev.UD.AH.DLID))
			}
			sendDatagram(t, a, a, ev.UD)
			if !own {
				ok(t, a.qp.DetachMcast(ev.UD.AH.DGID, ev.UD.AH.DLID))
			}
			ok(t, id.LeaveMulticast(group))

			ok(t, id.JoinMulticast(netip.MustParseAddr("239.1.2.4"), JoinSendOnly))
			if ev := event(t, ch, EventMulticastJoin); ev.Group != netip.MustParseAddr("239.1.2.4") {
				t.Errorf("joined %v", ev.Group)
			}
			// Closing the ID leaves it.
		})
	}
}

func TestRXE_CM_Options(t *testing.T) {
	ch := newChannel(t)
	l := newIDOn(t, ch, PortSpaceTCP)
	ok(t, l.SetReuseAddr(true))
	ok(t, l.SetAFOnly(true))
	ok(t, l.Bind(local(t)))
	ok(t, l.Listen(0))
	id := newIDOn(t, ch, PortSpaceTCP)
	ok(t, id.SetTOS(32))
	var arg *ibv.ArgError
	if err := id.SetAckTimeout(32); !errors.As(err, &arg) {
		t.Errorf("ack timeout 32: %v", err)
	}
	ok(t, id.SetAckTimeout(17))
	ok(t, id.ResolveAddr(netip.AddrPort{}, l.LocalAddr(), wait))
	event(t, ch, EventAddrResolved)
	ok(t, id.ResolveRoute(wait))
	event(t, ch, EventRouteResolved)
	if id.Port() != 1 || id.PKey() != 0 && id.PKey() != 0xffff || id.DstPort() != l.SrcPort() || id.SrcPort() == 0 {
		t.Errorf("port %d, pkey %#x, %d → %d", id.Port(), id.PKey(), id.SrcPort(), id.DstPort())
	}
	if src, dst := id.GIDs(); src.Addr() != id.LocalAddr().Addr() || dst.Addr() != id.PeerAddr().Addr() {
		t.Errorf("GIDs %v and %v of %v", src, dst, id)
	}
	if p := id.Paths(); len(p) != 1 || p[0].DGID.Addr() != id.PeerAddr().Addr() || p[0].TrafficClass != 32 {
		t.Errorf("paths %+v", p)
	}
	r := newRig(t, id, false)
	ok(t, id.Connect(r.param("")))
	req := event(t, ch, EventConnectRequest)
	peer := closing(t, req.ID)
	b := newRig(t, peer, false)
	ok(t, peer.BringUp(b.qp, nil))
	ok(t, peer.Accept(b.param("")))
	event(t, ch, EventConnectResponse)
	attr, mask, err := id.QPAttr(ibv.StateRTS)
	ok(t, err)
	if mask&ibv.MaskTimeout == 0 || attr.Timeout != 17 {
		t.Errorf("the QP's timeout is %d, want 17", attr.Timeout)
	}
	attr, _, err = id.QPAttr(ibv.StateRTR)
	ok(t, err)
	if attr.AV.TrafficClass != 32 || attr.DestQPN != b.qp.Num() {
		t.Errorf("the QP's traffic class is %d, its peer %#x", attr.AV.TrafficClass, attr.DestQPN)
	}
}

// TestRXE_CM_Migrate moves an ID, with its unread events, to another channel.
func TestRXE_CM_Migrate(t *testing.T) {
	a, b := newChannel(t), newChannel(t)
	l, addr := listener(t, a, PortSpaceTCP, 4)
	id := newIDOn(t, a, PortSpaceTCP)
	ok(t, id.ResolveAddr(netip.AddrPort{}, addr, wait))
	time.Sleep(50 * time.Millisecond) // the event waits
	ok(t, id.Migrate(b))
	ok(t, id.Migrate(b))
	event(t, b, EventAddrResolved)
	if id.Channel() != b {
		t.Error("the ID has the old channel")
	}
	ok(t, id.ResolveRoute(wait))
	event(t, b, EventRouteResolved)
	r := newRig(t, id, false)
	ok(t, id.Connect(r.param("")))
	req := event(t, a, EventConnectRequest)
	if req.Listener != l {
		t.Error("the request is another listener's")
	}
	ok(t, req.ID.Migrate(b))
	ok(t, req.ID.Close())
	event(t, b, EventRejected)
	var busy *ibv.BusyError
	if err := b.Close(); !errors.As(err, &busy) {
		t.Errorf("close of a channel with an ID that came: %v", err)
	}
	ok(t, id.Migrate(a))
	closed := must(NewEventChannel())(t)
	ok(t, closed.Close())
	if err := id.Migrate(closed); !errors.Is(err, ErrClosed) {
		t.Errorf("migrate to a closed channel: %v", err)
	}
}

func TestRXE_CM_GetAddrInfo(t *testing.T) {
	addr := local(t).Addr().String()
	list := must(GetAddrInfo(timeout(t), addr, "7471", &Hints{PortSpace: PortSpaceTCP}))(t)
	if len(list) == 0 || list[0].Dst != netip.MustParseAddrPort(addr+":7471") || list[0].PortSpace != PortSpaceTCP ||
		list[0].QPType != ibv.RC {
		t.Fatalf("the way to %s is %v", addr, list)
	}
	list = must(GetAddrInfo(timeout(t), addr, "7471", &Hints{PortSpace: PortSpaceUDP,
		Flags: AddrInfoPassive | AddrInfoNumericHost}))(t)
	if len(list) == 0 || list[0].Src != netip.MustParseAddrPort(addr+":7471") || list[0].QPType != ibv.UD {
		t.Fatalf("to listen on %s is %v", addr, list)
	}
	_, err := GetAddrInfo(timeout(t), "no such host", "7471", &Hints{Flags: AddrInfoNumericHost})
	var e *AddrInfoError
	if !errors.As(err, &e) || e.Code >= 0 || e.Text == "" {
		t.Errorf("a name that is none: %v", err)
	}
	var arg *ibv.ArgError
	if _, err := GetAddrInfo(timeout(t), "a\x00b", "", nil); !errors.As(err, &arg) {
		t.Errorf("a name with a zero byte: %v", err)
	}
}

func TestRXE_CM_Devices(t *testing.T) {
	ch := newChannel(t)
	list, release, err := Devices()
	ok(t, err)
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = d.Name()
	}
	if r := testutil.NeedRXE(t); len(list) < 2 && r.Dev[0] != r.Dev[1] {
		t.Errorf("devices are %v", names)
	}
	id := newIDOn(t, ch, PortSpaceTCP)
	ok(t, id.Bind(local(t)))
	dev := must(id.Verbs())(t)
	if !slices.Contains(list, dev) {
		t.Errorf("%s of the ID is another one than that of the list", dev.Name())
	}
	release()
	release()
	// With an ID it lives on, and with what was made of it after the ID.
	pd := must(dev.AllocPD())(t)
	var busy *ibv.BusyError
	if err := dev.Close(); !errors.As(err, &busy) {
		t.Errorf("close with a PD: %v", err)
	}
	ok(t, id.Close())
	mr := must(pd.AllocMR(4096, ibv.LocalWrite, nil))(t)
	ok(t, mr.Close())
	again := newIDOn(t, ch, PortSpaceTCP)
	ok(t, again.Bind(local(t)))
	if same := must(again.Verbs())(t); same != dev {
		t.Error("the device was wrapped again")
	}
	ok(t, pd.Close())
	ok(t, again.Close())
	if _, err := dev.AllocPD(); !errors.Is(err, ErrClosed) {
		t.Errorf("a PD of a device that nothing holds: %v", err)
	}
}

// TestRXE_CM_QPOfAnotherContext connects QPs of contexts that ibv.Open gave.
func TestRXE_CM_QPOfAnotherContext(t *testing.T) {
	ch := newChannel(t)
	id := newIDOn(t, ch, PortSpaceTCP)
	ok(t, id.Bind(local(t)))
	own := closing(t, must(ibv.Open(must(id.Verbs())(t).Name()))(t))
	pd := closing(t, must(own.AllocPD())(t))
	cq := closing(t, must(own.CreateCQ(64, nil))(t))
	var arg *ibv.ArgError
	if _, err := id.CreateQP(pd, cq, cq, nil); !errors.As(err, &arg) {
		t.Errorf("librdmacm's QP of another context: %v", err)
	}
	opt := &Options{PD: pd, SendCQ: cq, RecvCQ: cq, QP: ibv.QPOptions{SRQ: closing(t, must(pd.CreateSRQ(nil))(t))}}
	l := server(t, opt)
	a, b := pair(t, l, nil)
	if b.PD() != pd || b.CQ() != cq || b.Param().SRQ || !a.Param().SRQ {
		t.Errorf("the connection is not of the options: srq %v, %v", a.Param().SRQ, b.Param().SRQ)
	}
	mr := closing(t, must(pd.AllocMR(4096, ibv.LocalWrite, nil))(t))
	must(opt.QP.SRQ.PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{mr.SGE(0, 64)}}}))(t)
	r := rigOf(t, a)
	must(a.QP().PostSend([]ibv.SendWR{{ID: 2, Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{r.mr.SGE(0, 10)}}}))(t)
	r.one(t)
	(&rig{cq: cq}).one(t)
}

// TestRXE_CM_NewerLibrary calls what only rdma-core v60 has.
func TestRXE_CM_NewerLibrary(t *testing.T) {
	emulated := testutil.NeedRXE(t).Emulated
	ch := newChannel(t)
	id := newIDOn(t, ch, PortSpaceTCP)
	missing := func(op string, err error) bool {
		t.Helper()
		if err == nil {
			return false
		}
		if !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), "v60") {
			// A kernel may lack what the library has; the emulated one does not.
			if emulated || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOSYS) {
				t.Errorf("%s: %v", op, err)
			}
		}
		t.Logf("%s: %v", op, err)
		return true
	}
	if !missing("write event", id.WriteEvent(-5, 7)) {
		if ev := event(t, ch, EventUser); ev.Arg != 7 || ev.Status != -5 || ev.ID != id {
			t.Errorf("event %v of %v with status %d", ev, ev.ID, ev.Status)
		}
	}
	dst := netip.AddrPortFrom(local(t).Addr(), 7471)
	if !missing("resolve address info", id.ResolveAddrInfo(dst.Addr().String(), "7471",
		&Hints{PortSpace: PortSpaceTCP})) {
		event(t, ch, EventAddrInfoResolved)
		if list := must(id.QueryAddrInfo())(t); len(list) == 0 || list[0].Dst != dst {
			t.Errorf("the way to %v is %v", dst, list)
		}
	}
	if _, err := id.QueryAddrInfo(); !errors.Is(err, syscall.ENOENT) && !missing("query address info", err) {
		t.Errorf("a second result: %v", err)
	}
}

func TestRXE_CM_ECE(t *testing.T) {
	ch := newChannel(t)
	_, addr := listener(t, ch, PortSpaceTCP, 4)
	id := resolved(t, ch, PortSpaceTCP, addr)
	if err := id.SetLocalECE(ECE{}); errors.Is(err, ErrNotSupported) {
		t.Skip(err)
	} else if !errors.Is(err, syscall.EINVAL) {
		t.Errorf("options of no vendor: %v", err)
	}
	want := ECE{VendorID: 0x15b3, Options: 5}
	ok(t, id.SetLocalECE(want))
	r := newRig(t, id, false)
	ok(t, id.Connect(r.param("")))
	peer := closing(t, event(t, ch, EventConnectRequest).ID)
	if got := must(peer.RemoteECE())(t); got != want {
		t.Errorf("the peer offers %+v, want %+v", got, want)
	}
	ok(t, peer.RejectECE([]byte("no")))
	r2 := refused(t, event(t, ch, EventRejected).Err(), RejectVendorOption)
	if string(r2.PrivateData[:2]) != "no" {
		t.Errorf("private data %q", r2.PrivateData)
	}
}

// TestRXE_CM_Endpoints connects by names.
func TestRXE_CM_Endpoints(t *testing.T) {
	addr := local(t).Addr().String()
	info := must(GetAddrInfo(timeout(t), addr, "0", &Hints{PortSpace: PortSpaceTCP, Flags: AddrInfoPassive}))(t)
	l := closing(t, must(CreateEP(timeout(t), &info[0]))(t))
	ok(t, l.Listen(4))
	info = must(GetAddrInfo(timeout(t), addr, strconv.Itoa(int(l.SrcPort())), &Hints{PortSpace: PortSpaceTCP}))(t)
	id := closing(t, must(CreateEP(timeout(t), &info[0]))(t))
	a := newRig(t, id, true)
	ok(t, id.Connect(a.param("by name")))
	req := must(l.Request(timeout(t)))(t)
	peer := closing(t, req.ID)
	b := newRig(t, peer, true)
	ok(t, peer.Accept(b.param("")))
	event(t, id.Channel(), EventEstablished)
	event(t, l.Channel(), EventEstablished)
	pingpong(t, a, b)

	var arg *ibv.ArgError
	for _, i := range []*AddrInfo{nil, {PortSpace: PortSpaceTCP}, {PortSpace: PortSpaceTCP, Flags: AddrInfoPassive}} {
		if _, err := CreateEP(timeout(t), i); !errors.As(err, &arg) {
			t.Errorf("endpoint of %v: %v", i, err)
		}
	}
	if _, err := CreateEP(brief(t, time.Second), &AddrInfo{PortSpace: PortSpaceTCP,
		Dst: netip.MustParseAddrPort("192.0.2.1:1")}); err == nil {
		t.Error("an endpoint without a route was made")
	}
}
