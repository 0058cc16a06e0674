package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/loader"
)

func TestSockaddr(t *testing.T) {
	for _, c := range []struct {
		in, want string
		family   Family
		len      uint32
	}{
		{"10.8.0.1:7471", "10.8.0.1:7471", FamilyINET, 16},
		{"[::ffff:10.8.0.1]:7471", "10.8.0.1:7471", FamilyINET, 16},
		{"[fd00::1]:1", "[fd00::1]:1", FamilyINET6, 28},
		{"[fe80::1%1]:65535", "[fe80::1%lo]:65535", FamilyINET6, 28},
		{"[fe80::1%424242]:2", "[fe80::1%424242]:2", FamilyINET6, 28},
		{"0.0.0.0:0", "0.0.0.0:0", FamilyINET, 16},
	} {
		a, err := newSockaddr(netip.MustParseAddrPort(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		want := netip.MustParseAddrPort(c.want)
		if got := a.AddrPort(); got != want || family(&a) != c.family || a.Len() != c.len || a.Port() != want.Port() {
			t.Errorf("%s became %v of %v, %d bytes, port %d", c.in, got, family(&a), a.Len(), a.Port())
		}
		if _, ok := ibAddr(&a); ok {
			t.Errorf("%s is an InfiniBand address", c.in)
		}
	}
	// struct sockaddr_in, byte for byte.
	a, _ := newSockaddr(netip.MustParseAddrPort("1.2.3.4:258"))
	if want := [8]byte{2, 0, 1, 2, 1, 2, 3, 4}; [8]byte(a[:8]) != want {
		t.Errorf("sockaddr_in is % x, want % x", a[:8], want)
	}
	var arg *ibv.ArgError
	for _, bad := range []netip.AddrPort{{},
		netip.AddrPortFrom(netip.MustParseAddr("fe80::1").WithZone("no such interface"), 1)} {
		if _, err := newSockaddr(bad); !errors.As(err, &arg) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	var empty sockaddr.Addr
	if empty.AddrPort().IsValid() || empty.Len() != 0 || empty.Port() != 0 {
		t.Error("no address is one")
	}
}

func TestIBAddr(t *testing.T) {
	want := IBAddr{GID: ibv.GID{0xfe, 0x80, 15: 1}, PKey: 0x8001, FlowInfo: 7, ServiceID: 0x1060001,
		ServiceIDMask: ^uint64(0), ScopeID: 3}
	a := want.sockaddr()
	if got, ok := ibAddr(&a); !ok || got != want {
		t.Errorf("%+v became %+v", want, got)
	}
	if family(&a) != FamilyIB || a.Len() != 48 || a.Port() != 1 || a.AddrPort().IsValid() {
		t.Errorf("%v, %d bytes, port %d, %v", family(&a), a.Len(), a.Port(), a.AddrPort())
	}
}

func TestLimits(t *testing.T) {
	for ps, want := range map[PortSpace][3]int{PortSpaceTCP: {56, 196, 148}, PortSpaceUDP: {180, 136, 136},
		PortSpaceIPoIB: {180, 136, 136}, PortSpaceIB: {92, 196, 148}} {
		if got := [3]int{ps.ConnectDataLimit(), ps.AcceptDataLimit(), ps.RejectDataLimit()}; got != want {
			t.Errorf("%v: %v, want %v", ps, got, want)
		}
	}
}

func TestEventErrors(t *testing.T) {
	for _, c := range []struct {
		t      EventType
		status int32
		ud     bool
		is     error
		text   string
	}{
		{EventAddrError, -int32(syscall.ENODEV), false, syscall.ENODEV, "no RDMA device has the address"},
		{EventAddrError, -int32(syscall.ETIMEDOUT), false, syscall.ETIMEDOUT, "ARP"},
		{EventAddrError, -int32(syscall.ENETUNREACH), false, syscall.ENETUNREACH, "ip route get"},
		{EventRouteError, -int32(syscall.ETIMEDOUT), false, syscall.ETIMEDOUT, "subnet manager"},
		{EventUnreachable, -int32(syscall.ETIMEDOUT), false, syscall.ETIMEDOUT, "4791"},
		{EventRejected, 8, false, ErrRejected, "nobody listens"},
		{EventRejected, 28, false, syscall.ECONNREFUSED, "program refused"},
		{EventRejected, -int32(syscall.ECONNREFUSED), false, ErrRejected, "program refused"},
		{EventRejected, -int32(syscall.ECONNRESET), false, ErrRejected, "program refused"},
		{EventRejected, 99, false, ErrRejected, "RejectReason(99)"},
		{EventRejected, -int32(syscall.EINVAL), false, syscall.EINVAL, "rejected"},
		{EventUnreachable, 1, true, ErrRejected, "nobody listens"},
		{EventUnreachable, 2, true, ErrRejected, "program refused"},
		{EventDisconnected, 0, false, ErrDisconnected, "disconnected"},
		{EventDeviceRemoval, 0, false, ErrDeviceRemoved, "device removal"},
		{EventConnectError, -int32(syscall.EINVAL), false, syscall.EINVAL, "could not be brought up"},
		{EventMulticastError, -int32(syscall.ENOENT), false, syscall.ENOENT, "joined"},
		{EventAddrInfoError, -int32(syscall.ENOENT), false, syscall.ENOENT, "address info"},
		{EventUser, -5, false, syscall.EIO, "user"},
		{EventType(77), -5, false, syscall.EIO, "EventType(77)"},
	} {
		err := errOf(c.t, c.status, c.ud, []byte("data"))
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v with status %d: %v", c.t, c.status, err)
		}
		var r *RejectError
		if errors.As(err, &r) && string(r.PrivateData) != "data" {
			t.Errorf("%v lost the private data", err)
		}
	}
	if err := errOf(EventRejected, -int32(syscall.ECONNREFUSED), false, nil); !errors.Is(err, ErrRejected) ||
		!strings.Contains(err.Error(), "nobody listens") {
		t.Errorf("refused on iWARP without private data: %v", err)
	}
	for _, good := range []EventType{EventAddrResolved, EventRouteResolved, EventConnectRequest, EventConnectResponse,
		EventEstablished, EventMulticastJoin, EventTimewaitExit, EventUser} {
		if err := errOf(good, 0, false, nil); err != nil {
			t.Errorf("%v is an error: %v", good, err)
		}
	}
}

func TestStrings(t *testing.T) {
	for _, c := range []struct {
		got, want string
	}{
		{PortSpaceTCP.String(), "TCP"}, {PortSpace(5).String(), "PortSpace(5)"},
		{EventType(99).String(), "EventType(99)"}, {EventEstablished.String(), "established"},
		{eventInternal.String(), "internal"},
		{RejectReason(34).String(), "RejectReason(34)"}, {RejectStaleConn.String(), "stale connection"},
		{SIDRStatus(9).String(), "SIDRStatus(9)"}, {SIDRUnsupported.String(), "invalid service ID"},
		{(AddrInfoPassive | AddrInfoResolveDNS).String(), "Passive|ResolveDNS"}, {AddrInfoFlags(0x41).String(),
			"Passive|0x40"}, {AddrInfoFlags(0).String(), "0"},
		{JoinFlags(7).String(), "JoinFlags(7)"}, {JoinSendOnly.String(), "SendOnly"},
		{FamilyINET6.String(), "IPv6"}, {Family(3).String(), "Family(3)"}, {Family(0).String(), "no family"},
		{(&PrivateDataError{"connect", 57, 56, PortSpaceTCP}).Error(),
			"57 bytes of private data with connect: the port space TCP carries at most 56"},
		{(&StateError{Op: "connect", Need: "resolve first"}).Error(), "connect comes too early: resolve first"},
		{(&StateError{Op: "bind", Need: "use another ID", Late: true}).Error(), "bind comes too late: use another ID"},
		{(&AddrInfoError{"n", "s", -2, "name or service not known"}).Error(),
			`resolve "n", service "s": name or service not known (code -2)`},
		{(&Event{Type: EventMulticastJoin, Group: netip.MustParseAddr("239.1.1.1")}).String(),
			"multicast join of 239.1.1.1"},
		{(&Event{Type: EventUser, Arg: 16}).String(), "user 0x10"},
		{(&Event{Type: EventRejected, Status: 8}).String(), "connection rejected: invalid service ID (reason 8): " +
			"nobody listens on that port in that port space"},
		{(&RejectError{Reason: 99, PrivateData: []byte("no\x00\x00")}).Error(),
			`connection rejected: RejectReason(99): not a reason of the InfiniBand specification; private data "no"`},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	for r := RejectNoQP; r <= RejectVendorOption; r++ {
		if r == 34 {
			continue
		}
		if strings.HasPrefix(r.String(), "RejectReason") || r.Explain() == "" {
			t.Errorf("reason %d has no text", r)
		}
	}
	for e := EventAddrResolved; e <= eventInternal; e++ {
		if strings.HasPrefix(e.String(), "EventType") || e.String() == "" {
			t.Errorf("event %d has no name", e)
		}
	}
}

func TestConnParam(t *testing.T) {
	p := ConnParam{}
	if c := p.toC(); c.ResponderResources != 255 || c.InitiatorDepth != 255 || c.RetryCount != 7 ||
		c.RNRRetryCount != 7 || c.SRQ != 0 {
		t.Errorf("the zero value is %+v", c)
	}
	p = ConnParam{ResponderResources: ibv.None, InitiatorDepth: 3, RetryCount: ibv.None, RNRRetryCount: 1,
		FlowControl: true, SRQ: true, QPN: 0x123456}
	c := p.toC()
	var back ConnParam
	back.fromC(&c)
	if want := (ConnParam{InitiatorDepth: 3, RNRRetryCount: 1, FlowControl: true, SRQ: true, QPN: 0x123456}); back.
		ResponderResources != want.ResponderResources ||
		back.InitiatorDepth != 3 || back.RetryCount != 0 || back.RNRRetryCount != 1 || !back.FlowControl || !back.SRQ ||
		back.QPN != want.QPN {
		t.Errorf("%+v became %+v", p, back)
	}
	var limit *ibv.LimitError
	p.QPN = maxQPN
	if err := p.check(); err != nil {
		t.Errorf("the largest number: %v", err)
	}
	p.QPN++ // the kernel would cut it
	if err := p.check(); !errors.As(err, &limit) || limit.Asked != 1<<24 {
		t.Errorf("a number of 25 bits: %v", err)
	}
}

// TestNoDevice is what a machine without the library, or without a device, says.
func TestNoDevice(t *testing.T) {
	if os.Getenv(testutil.TierEnv) != "" {
		t.Skip("this machine has devices")
	}
	ch, err := NewEventChannel()
	if err == nil {
		_ = ch.Close()
		t.Skip("this machine has devices")
	}
	if !errors.Is(err, loader.ErrLibrary) && !errors.Is(err, ibv.ErrNoDevice) {
		t.Errorf("event channel: %v", err)
	}
	if _, err := Dial(context.Background(), "127.0.0.1:1", nil); !errors.Is(err, loader.ErrLibrary) &&
		!errors.Is(err, ibv.ErrNoDevice) {
		t.Errorf("dial: %v", err)
	}
	if _, err := Listen(context.Background(), "127.0.0.1:0", nil); !errors.Is(err, loader.ErrLibrary) &&
		!errors.Is(err, ibv.ErrNoDevice) {
		t.Errorf("listen: %v", err)
	}
	if _, err := GetAddrInfo(context.Background(), "127.0.0.1", "1", nil); err == nil {
		t.Error("address info without a device")
	}
	if _, _, err := Devices(); err == nil {
		t.Error("devices without a device")
	}
}

// TestConnEndsAtOnce: the peer leaves right after the handshake, so that Accept finds both events, or only the second
// since the first one's message was lost.
func TestConnEndsAtOnce(t *testing.T) {
	for range 2000 {
		c := &Conn{events: make(chan *Event, handshakeEvents), done: make(chan struct{})}
		go func() {
			c.handle(&Event{Type: EventEstablished})
			c.finish(ErrDisconnected)
		}()
		if ev, err := c.await(t.Context(), EventEstablished); err != nil || ev.Type != EventEstablished {
			t.Fatalf("await: %v, %v; want the event that came before the end", ev, err)
		}
		if err := c.awaitEstablished(t.Context()); err != nil {
			t.Fatalf("a peer that disconnects has been connected: %v", err)
		}
	}
	for _, err := range []error{ErrDeviceRemoved, ErrClosed} {
		c := &Conn{events: make(chan *Event, handshakeEvents), done: make(chan struct{})}
		c.finish(err)
		if got := c.awaitEstablished(t.Context()); !errors.Is(got, err) {
			t.Errorf("%v, want %v", got, err)
		}
	}
}
