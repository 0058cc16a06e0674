package ibv

import (
	"encoding/hex"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/loader"
)

func TestFake_ECE(t *testing.T) {
	a, _ := fakePair(t, nil)
	fresh := closing(t, must(a.pd.CreateQP(a.cq, a.cq, nil))(t))
	if e := must(fresh.QueryECE())(t); e != (ECE{0x2c9, 5}) {
		t.Errorf("%+v", e)
	}
	ok(t, fresh.SetECE(ECE{0x2c9, 1}))
	if get(t, "ece.options") != 1 {
		t.Error("set", get(t, "ece.options"))
	}
	wantErr(t, fresh.SetECE(ECE{1, 1}), syscall.EINVAL, "VendorID")
	var se *StateError
	if err := a.qp.SetECE(ECE{0x2c9, 1}); !errors.As(err, &se) || se.State != StateRTS {
		t.Errorf("in RTS: %v", err)
	}
	for _, e := range []syscall.Errno{syscall.EOPNOTSUPP, syscall.ENOSYS} {
		failing(t, "ibv_set_ece", e)
		failing(t, "ibv_query_ece", e)
		wantErr(t, fresh.SetECE(ECE{0x2c9, 1}), ErrNotSupported, "without ECE")
		_, err := fresh.QueryECE()
		wantErr(t, err, ErrNotSupported, "without ECE")
	}
	gone := must(a.pd.CreateQP(a.cq, a.cq, nil))(t)
	ok(t, gone.Close())
	wantErr(t, gone.SetECE(ECE{}), ErrClosed)
	_, err := gone.QueryECE()
	wantErr(t, err, ErrClosed)
}

func TestFake_RateLimit(t *testing.T) {
	set(t, "pacing.min", 10)
	set(t, "pacing.max", 1000)
	a, _ := fakePair(t, nil)
	for _, r := range []RateLimit{{}, {Rate: 10}, {Rate: 1000, MaxBurst: 4096, TypicalPacket: 1024}} {
		ok(t, a.qp.ModifyRateLimit(r))
		if get(t, "rate.limit") != int(r.Rate) || get(t, "rate.burst") != int(r.MaxBurst) ||
			get(t, "rate.packet") != int(r.TypicalPacket) {
			t.Errorf("%+v asked for %d, %d, %d", r, get(t, "rate.limit"), get(t, "rate.burst"), get(t, "rate.packet"))
		}
	}
	var le *LimitError
	if err := a.qp.ModifyRateLimit(RateLimit{Rate: 1001}); !errors.As(err, &le) {
		t.Errorf("too fast: %v", err)
	}
	wantErr(t, a.qp.ModifyRateLimit(RateLimit{Rate: 9}), syscall.EINVAL, "10 to 1000 kb/s")
	failing(t, "modify_qp_rate_limit", syscall.EOPNOTSUPP)
	wantErr(t, a.qp.ModifyRateLimit(RateLimit{Rate: 10}), ErrNotSupported, "PacketPacing")
	ud := closing(t, must(a.pd.CreateQP(a.cq, a.cq, &QPOptions{Type: UD}))(t))
	wantErr(t, ud.ModifyRateLimit(RateLimit{Rate: 10}), syscall.EINVAL, "RTS")
	must(ud.Endpoint(1, 1))(t)
	ok(t, ud.Connect(Endpoint{}, nil))
	wantErr(t, ud.ModifyRateLimit(RateLimit{Rate: 10}), ErrNotSupported, "a UD QP", "RC")
}

func TestFake_DataInOrder(t *testing.T) {
	a, _ := fakePair(t, nil)
	if o := must(a.qp.DataInOrder(OpWrite))(t); o != 0 {
		t.Errorf("%v by default", o)
	}
	set(t, "order.whole", 1)
	if o := must(a.qp.DataInOrder(OpWrite))(t); o != InOrderMessage || o.String() != "Message" {
		t.Errorf("%v of a library that knows no flag", o)
	}
	set(t, "order.caps", 2)
	set(t, "order.whole", 0)
	if o := must(a.qp.DataInOrder(OpWrite))(t); o != InOrder128 {
		t.Errorf("%v", o)
	}
	if o := must(a.qp.DataInOrder(OpSend))(t); o != 0 {
		t.Errorf("%v of another opcode", o)
	}
}

func TestFake_Fork(t *testing.T) {
	leavesNothing(t)
	for i, name := range []string{"Disabled", "Enabled", "Unneeded", "ForkStatus(3)"} {
		set(t, "fork", i)
		if s := must(QueryForkStatus())(t); s.String() != name {
			t.Errorf("%d is %v", i, s)
		}
	}
}

func TestFake_SmallOldLibrary(t *testing.T) {
	inChild(t, variant(t, "OLD=15"), nil, func(t *testing.T) {
		set(t, "pacing.max", 1000)
		a, _ := fakePair(t, nil)
		var se *loader.SymbolError
		_, err := a.qp.QueryECE()
		_, err2 := a.qp.DataInOrder(OpWrite)
		_, err3 := QueryForkStatus()
		for i, err := range []error{err, a.qp.SetECE(ECE{}), err2, err3} {
			if i != 1 && !errors.As(err, &se) {
				t.Errorf("%d: %v", i, err)
			}
		}
		wantErr(t, a.qp.ModifyRateLimit(RateLimit{}), ErrNotSupported, "v18")
	})
}

func TestFake_ResolveMAC(t *testing.T) {
	s := fakeSide(t, nil)
	to := &AHAttr{Port: 1, Global: true, DGID: GID{10: 1, 2, 3, 4, 5, 6}}
	mac, vlan, err := s.dev.ResolveMAC(to)
	if err != nil || mac.String() != "01:02:03:04:05:06" || vlan != -1 {
		t.Errorf("%v, %d, %v", mac, vlan, err)
	}
	set(t, "vid", 7)
	if _, vlan, err := s.dev.ResolveMAC(to); vlan != 7 || err != nil {
		t.Errorf("VLAN %d, %v", vlan, err)
	}
	failing(t, "ibv_resolve_eth_l2_from_gid", syscall.EHOSTUNREACH)
	_, _, err = s.dev.ResolveMAC(to)
	wantErr(t, err, syscall.EHOSTUNREACH, "resolve mac fake0")
	// A Close that comes while it is in C waits for it, and it must not wait for the Close.
	dev := must(Open("fake0"))(t)
	set(t, "resolve.inside", 0)
	set(t, "resolve.hold", 1)
	done := make(chan error)
	go func() { _, _, err := dev.ResolveMAC(to); done <- err }()
	for get(t, "resolve.inside") == 0 {
		runtime.Gosched()
	}
	go func() { done <- dev.Close() }()
	for dev.life.TryEnter() {
		dev.life.Leave()
		runtime.Gosched()
	}
	unset(t, "resolve.hold")
	if err := errors.Join(<-done, <-done); !errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	_, _, err = s.dev.ResolveMAC(nil)
	wantErr(t, err, syscall.EINVAL, "attr is nil")
}

// Headers as they lie before a datagram; the port's GIDs are those of the fake device.
func TestFake_AddressOfWC(t *testing.T) {
	s := fakeSide(t, nil)
	table := must(s.dev.GIDTable())(t)
	wc := WC{Opcode: WCRecv, Flags: WCGRH, SLID: 5, SL: 3, DLIDPathBits: 2}
	var v2 *GIDEntry
	for i := range table {
		if e := &table[i]; e.Port == 1 && e.Type == GIDTypeRoCEv2 && e.GID.IsIPv4Mapped() {
			v2 = e
		}
	}
	if v2 == nil {
		t.Fatal("no IPv4 GID: ", table)
	}
	ip4 := make([]byte, 40)
	copy(ip4[20:], []byte{0x45, 0xa5, 0, 60, 0, 0, 0x40, 0, 63, 17, 0, 0, 10, 8, 0, 9})
	copy(ip4[36:], v2.GID[12:])
	sum := checksum(ip4[20:])
	ip4[30], ip4[31] = byte(sum>>8), byte(sum)
	a := must(s.dev.AddressOfWC(1, &wc, ip4))(t)
	if want := (AHAttr{Port: 1, DLID: 5, SL: 3, SrcPathBits: 2, Global: true, DGID: mapped([4]byte{10, 8, 0, 9}),
		SGIDIndex: uint8(v2.Index), HopLimit: 63, TrafficClass: 0xa5}); *a != want {
		t.Errorf("IPv4: %+v, want %+v", *a, want)
	}
	ip4[0] = 0x60 // left from another message
	if a := must(s.dev.AddressOfWC(1, &wc, ip4))(t); a.SGIDIndex != uint8(v2.Index) || a.HopLimit != 63 {
		t.Errorf("IPv4 after the start of IPv6: %+v", *a)
	}
	for _, e := range table {
		if e.Port != 1 {
			continue
		}
		ip6 := make([]byte, 40)
		copy(ip6, []byte{0x6a, 0x5f, 0x12, 0x34, 0, 60, nextIBA, 7})
		if e.Type == GIDTypeRoCEv2 {
			ip6[6] = nextUDP
		}
		copy(ip6[8:], []byte{0xfe, 0x80, 15: 9})
		copy(ip6[24:], e.GID[:])
		a := must(s.dev.AddressOfWC(1, &wc, ip6))(t)
		got := table[a.SGIDIndex]
		if got.GID != e.GID || (got.Type == GIDTypeRoCEv2) != (e.Type == GIDTypeRoCEv2) ||
			a.FlowLabel != 0xf1234 || a.TrafficClass != 0xa5 || a.HopLimit != 7 ||
			a.DGID != (GID{0xfe, 0x80, 15: 9}) {
			t.Errorf("GID %d: %+v", e.Index, *a)
		}
	}
	plain := must(s.dev.AddressOfWC(1, &WC{Opcode: WCRecv, SLID: 5}, nil))(t)
	if *plain != (AHAttr{Port: 1, DLID: 5}) {
		t.Errorf("without GRH: %+v", *plain)
	}
	ok(t, must(s.pd.CreateAHFromWC(1, &wc, ip4))(t).Close())

	for _, c := range []struct {
		wc   *WC
		grh  string
		want string
	}{
		{nil, "", "wc is nil"},
		{&WC{Opcode: WCSend}, "", "Send, Success"},
		{&WC{Opcode: WCRecv, Status: WCLocLenErr}, "", "that succeeded"},
		{&wc, "6000", "2 bytes"},
		{&wc, strings.Repeat("00", 40), "IP versions 0 and 0"},
		{&wc, "60000000" + "00000640" + strings.Repeat("00", 32), "next header 6"},
	} {
		b, _ := hex.DecodeString(c.grh)
		_, err := s.dev.AddressOfWC(1, c.wc, b)
		wantErr(t, err, syscall.EINVAL, c.want)
	}
	unknown := make([]byte, 40)
	unknown[0], unknown[6], unknown[39] = 0x60, nextIBA, 99
	_, err := s.dev.AddressOfWC(1, &wc, unknown)
	wantErr(t, err, ErrNotFound, "port 1 has no GID ::63")
	_, err = s.pd.CreateAHFromWC(1, &wc, unknown)
	wantErr(t, err, ErrNotFound)
}

// As ibv_flow_label_to_udp_sport of infiniband/verbs.h has it.
func TestFlowLabelUDPSport(t *testing.T) {
	for label, want := range map[uint32]uint16{0: 0xc000, 1: 0xc001, 0x3fff: 0xffff, 0x4000: 0xc001, 0xfffff: 0xffc0,
		0x12345: 0xe341} {
		if got := FlowLabelUDPSport(label); got != want {
			t.Errorf("%#x: %#x, want %#x", label, got, want)
		}
	}
}
