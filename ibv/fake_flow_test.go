package ibv

import (
	"encoding/hex"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/cmem"
)

// bytesOf returns n bytes of a variable of the fake library.
func bytesOf(t testing.TB, symbol string, n int) []byte {
	t.Helper()
	return cmem.Slice[byte](must(needFake(t).Symbol(symbol))(t), n)
}

// fakeRaw is a raw packet QP of the fake library.
func fakeRaw(t testing.TB, o RawOptions) *side {
	t.Helper()
	s := fakeSide(t, nil)
	s.newQP(t, &QPOptions{Type: RawPacket, MaxSendSGE: 2, MaxInline: 64, Raw: o})
	return s
}

// TestFake_ShortFrame posts frames with the run that checks nothing, but for one that is too short: it is named.
func TestFake_ShortFrame(t *testing.T) {
	s := fakeRaw(t, RawOptions{})
	rawReady(t, s.qp)
	frame := func(n int) SendWR { return SendWR{Opcode: OpSend, SGEs: []SGE{s.mr.SGE(0, n)}} }
	if n, err := s.qp.PostSend([]SendWR{frame(60), frame(1), frame(61)}); n != 3 || err != nil {
		t.Errorf("%d of 3: %v", n, err)
	}
	n, err := s.qp.PostSend([]SendWR{frame(60), frame(0), frame(60)})
	wantErr(t, err, syscall.EINVAL, "work request 1", "0 bytes")
	if n != 1 {
		t.Errorf("%d were posted before the short one", n)
	}
}

// The bytes of each spec, as libibverbs' structs have them.
func TestFake_FlowSpecs(t *testing.T) {
	s := fakeRaw(t, RawOptions{})
	n := closing(t, must(s.dev.CreateCounters())(t))
	act := closing(t, must(s.dev.CreateESPAction(&ESPAction{AESGCM: &ESPKey{Key: make([]byte, 16), ICVLen: 8}}))(t))
	mac := func(b byte) MAC { return MAC{b, b, b, b, b, b} }
	eth := FlowEthFields{DstMAC: mac(1), SrcMAC: mac(2), EtherType: 0x0800, VLANTag: 0x0102}
	ethMask := FlowEthFields{DstMAC: mac(255), SrcMAC: mac(3), EtherType: 0xffff, VLANTag: 0x0fff}
	v4 := [4]byte{10, 1, 2, 3}
	all4 := [4]byte{255, 255, 255, 255}
	v6 := [16]byte{0: 0xfd, 15: 1}
	all6 := [16]byte{0: 0xff, 15: 0xff}
	words := func(parts ...string) string { return strings.ReplaceAll(strings.Join(parts, ""), " ", "") }
	for _, c := range []struct {
		name string
		spec FlowSpec
		want string // little-endian type, size; then the filters in network order
	}{
		{"eth", FlowEth{Value: eth, Mask: ethMask}, words("20000000 2800", "010101010101 020202020202 0800 0102",
			"ffffffffffff 030303030303 ffff 0fff", "0000")},
		{"inner eth", FlowEth{Inner: true, Mask: FlowEthFields{EtherType: 1}}, words("20010000 2800",
			strings.Repeat("00", 16),
			"000000000000 000000000000 0001 0000", "0000")},
		{"ipv4", FlowIPv4{Value: FlowIPv4Fields{Src: v4}, Mask: FlowIPv4Fields{Src: all4, Dst: v4}},
			words("30000000 1800 0000", "0a010203 00000000", "ffffffff 0a010203")},
		{"ipv4 ext", FlowIPv4{Inner: true, Value: FlowIPv4Fields{Dst: v4, TOS: 4}, Mask: FlowIPv4Fields{Dst: all4,
			Protocol: 1,
			TOS:      4, TTL: 3, Flags: 2}}, words("32010000 2000 0000", "00000000 0a010203 00 04 00 00",
			"00000000 ffffffff 01 04 03 02")},
		{"ipv6", FlowIPv6{Value: FlowIPv6Fields{Src: v6, FlowLabel: 0x12345}, Mask: FlowIPv6Fields{Src: all6,
			FlowLabel:  0xfffff,
			NextHeader: 1, TrafficClass: 2, HopLimit: 3}}, words("31000000 5800 0000",
			hex.EncodeToString(v6[:]), strings.Repeat("00", 16), "00012345 00 00 00 00",
			hex.EncodeToString(all6[:]), strings.Repeat("00", 16), "000fffff 01 02 03 00")},
		{"tcp", FlowTCP{Value: FlowPorts{Dst: 1, Src: 2}, Mask: FlowPorts{Dst: 0xff, Src: 3}},
			words("40000000 1000", "0001 0002", "00ff 0003", "0000")},
		{"udp", FlowUDP{Inner: true, Mask: FlowPorts{Dst: 0xff}}, words("41010000 1000", "0000 0000", "00ff 0000",
			"0000")},
		{"vxlan", FlowVXLAN{Value: FlowVXLANFields{VNI: 0x123456}, Mask: FlowVXLANFields{VNI: 0xffffff}},
			words("50000000 1000 0000", "00123456", "00ffffff")},
		{"esp", FlowESP{Value: FlowESPFields{SPI: 1}, Mask: FlowESPFields{SPI: 3, Seq: 4}},
			words("34000000 1800 0000", "00000001 00000000", "00000003 00000004")},
		{"gre", FlowGRE{Value: FlowGREFields{Protocol: 0x6558}, Mask: FlowGREFields{Flags: 0x2000, Protocol: 0xffff,
			Key: 1}},
			words("51000000 1800 0000", "0000 6558 00000000", "2000 ffff 00000001")},
		{"mpls", FlowMPLS{Inner: true, Value: FlowMPLSFields{Label: 1 << 12}, Mask: FlowMPLSFields{Label: 0xfffff000}},
			words("60010000 1000 0000", "00001000", "fffff000")},
		{"tag", FlowTag(0x123456), words("00100000 0c00 0000", "56341200")},
		{"drop", FlowDrop{}, words("01100000 0800 0000")},
		{"handle", FlowHandle{act}, words("02100000 1000 0000", pointer(act.handle))},
		{"count", FlowCount{n}, words("03100000 1000 0000", pointer(n.handle))},
	} {
		a := FlowAttr{Priority: 0x102, Port: 2, Flags: FlowDontTrap | FlowEgress, Specs: []FlowSpec{c.spec, FlowTag(7)}}
		f := must(s.qp.CreateFlow(&a))(t)
		size := 20 + len(c.want)/2 + 12
		want := words("00000000 00000000", hex.EncodeToString([]byte{byte(size), 0, 2, 1, 2, 2, 0, 0, 6, 0, 0, 0}),
			c.want,
			"00100000 0c00 0000 07000000")
		if got := hex.EncodeToString(bytesOf(t, "fv_flow", size)); got != want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, want)
		}
		if f.QP() != s.qp {
			t.Error("the flow leads elsewhere")
		}
		ok(t, f.Close())
		ok(t, f.Close())
	}
}

// pointer is the address of a C object as it lies in memory.
func pointer(h uintptr) string {
	var b [8]byte
	for i := range b {
		b[i] = byte(h >> (8 * i))
	}
	return hex.EncodeToString(b[:])
}

func TestFake_FlowRefusals(t *testing.T) {
	s := fakeRaw(t, RawOptions{})
	other := closing(t, must(Open("fake1"))(t))
	foreign := closing(t, must(other.CreateCounters())(t))
	foreignAct := closing(t, must(other.CreateESPAction(&ESPAction{AESGCM: &ESPKey{Key: make([]byte, 32),
		ICVLen: 16}}))(t))
	closed := must(s.dev.CreateCounters())(t)
	ok(t, closed.Close())
	eth := func(kind uint16) FlowSpec {
		return FlowEth{Value: FlowEthFields{EtherType: kind}, Mask: FlowEthFields{EtherType: 0xffff}}
	}
	set(t, "fail.create_flow", int(syscall.EIO)) // what is wrong never gets there
	for _, c := range []struct {
		a    *FlowAttr
		want string
	}{
		{nil, "attr is nil"},
		{&FlowAttr{}, "Port is 0; it must be a port of fake0, 1 to 2"},
		{&FlowAttr{Port: 3}, "Port is 3"},
		{&FlowAttr{Port: 1, Type: 4}, "FlowType(4)"},
		{&FlowAttr{Port: 1, Priority: -1}, "Priority is -1"},
		{&FlowAttr{Port: 1, Priority: 1 << 16}, "flow priority 65536"},
		{&FlowAttr{Port: 1, Flags: 9}, "Flags is 0x9"},
		{&FlowAttr{Port: 1, Flags: FlowEgress, Type: FlowSniffer}, "Egress with type Sniffer"},
		{&FlowAttr{Port: 1, Specs: make([]FlowSpec, 11)}, "flow specs 11"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{nil}}, "Specs[0] is nil"},
		{&FlowAttr{Port: 1, Type: FlowAllDefault, Specs: []FlowSpec{FlowTCP{}}}, "a match with type AllDefault"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{FlowTCP{Value: FlowPorts{Dst: 1}}}},
			"Specs[0] is a Value with bits that are not in the Mask"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{eth(1), eth(1)}}, "Specs[1] is a second match of Ethernet"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{FlowIPv4{}, FlowIPv6{}}}, "second match of IP"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{FlowTCP{}, FlowUDP{}}}, "second match of TCP"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{FlowVXLAN{}, FlowGRE{}}}, "second match of VXLAN"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{eth(0x86dd), FlowIPv4{}}},
			"a match of IPv4 behind an EtherType of 0x86dd"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{eth(0x0800), FlowIPv6{}}}, "a match of IPv6"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{FlowTag(1 << 24)}}, "Specs[0].FlowTag 16777216"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{FlowVXLAN{Mask: FlowVXLANFields{VNI: 1 << 24}}}}, "Mask.VNI 16777216"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{FlowIPv6{Mask: FlowIPv6Fields{FlowLabel: 1 << 20}}}},
			"Mask.FlowLabel 1048576"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{FlowCount{}}}, "Specs[0].Counters is nil"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{FlowCount{foreign}}}, "another Device"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{FlowHandle{}}}, "Specs[0].Action is nil"},
		{&FlowAttr{Port: 1, Specs: []FlowSpec{FlowHandle{foreignAct}}}, "another Device"},
	} {
		_, err := s.qp.CreateFlow(c.a)
		wantErr(t, err, syscall.EINVAL, "create flow", c.want)
	}
	_, err := s.qp.CreateFlow(&FlowAttr{Port: 1, Specs: []FlowSpec{FlowCount{closed}}})
	wantErr(t, err, ErrClosed)
	rc := closing(t, must(s.pd.CreateQP(s.cq, s.cq, nil))(t))
	_, err = rc.CreateFlow(&FlowAttr{Port: 1})
	wantErr(t, err, syscall.EINVAL, "QP is of type RC")

	for e, want := range map[syscall.Errno]string{syscall.EIO: "create flow", syscall.EPERM: "CAP_NET_RAW",
		syscall.EEXIST: "same matches"} {
		failing(t, "create_flow", e)
		_, err := s.qp.CreateFlow(&FlowAttr{Port: 1})
		wantErr(t, err, e, want)
	}
	failing(t, "create_flow", syscall.EOPNOTSUPP)
	_, err = s.qp.CreateFlow(&FlowAttr{Port: 1})
	wantErr(t, err, ErrNotSupported, "steering rules", "fake0")
	failing(t, "create_flow", syscall.ENOMEM)
	_, err = s.qp.CreateFlow(&FlowAttr{Port: 1, Priority: 20})
	wantErr(t, err, syscall.ENOMEM, "priority 20")
	unset(t, "fail.create_flow")

	f := must(s.qp.CreateFlow(&FlowAttr{Port: 1}))(t)
	var be *BusyError
	if err := s.qp.Close(); !errors.As(err, &be) {
		t.Errorf("closing the QP of a flow: %v", err)
	}
	failing(t, "destroy_flow", syscall.EIO)
	wantErr(t, f.Close(), syscall.EIO, "close flow")
	unset(t, "fail.destroy_flow")
	ok(t, f.Close())
	q := must(s.pd.CreateQP(s.cq, s.cq, &QPOptions{Type: RawPacket}))(t)
	ok(t, q.Close())
	_, err = q.CreateFlow(&FlowAttr{Port: 1})
	wantErr(t, err, ErrClosed)
}

func TestFake_Counters(t *testing.T) {
	s := fakeRaw(t, RawOptions{})
	n := must(s.dev.CreateCounters())(t)
	ok(t, n.AttachFlow(CountBytes, 3, nil))
	if get(t, "attach.desc") != 1 || get(t, "attach.index") != 3 {
		t.Errorf("asked for %d at %d", get(t, "attach.desc"), get(t, "attach.index"))
	}
	v := make([]uint64, 4)
	ok(t, n.Read(v, true))
	if v[3] != 1003 || v[0] != 0 || get(t, "read.flags") != 1 {
		t.Errorf("%d, flags %d", v, get(t, "read.flags"))
	}
	wantErr(t, n.Read(v[:3], false), syscall.EINVAL, "3 values")
	wantErr(t, n.Read(nil, false), syscall.EINVAL, "values is empty")
	wantErr(t, n.AttachFlow(2, 0, nil), syscall.EINVAL, "CounterKind(2)")
	wantErr(t, n.AttachFlow(CountBytes, -1, nil), syscall.EINVAL, "index is -1")
	wantErr(t, n.AttachFlow(CountBytes, 1<<16, nil), syscall.EINVAL, "index is 65536")
	f := must(s.qp.CreateFlow(&FlowAttr{Port: 1, Specs: []FlowSpec{FlowCount{n}}}))(t)
	wantErr(t, n.AttachFlow(CountBytes, 0, f), ErrNotSupported, "nil Flow")
	wantErr(t, n.Close(), syscall.EBUSY, "1 flow")
	ok(t, f.Close())
	wantErr(t, n.AttachFlow(CountBytes, 0, f), ErrClosed)
	failing(t, "attach_counters", syscall.EBUSY)
	wantErr(t, n.AttachFlow(CountBytes, 0, nil), syscall.EBUSY, "before CreateFlow")
	ok(t, n.Close())
	wantErr(t, n.AttachFlow(CountBytes, 0, nil), ErrClosed)
	wantErr(t, n.Read(v, false), ErrClosed)
	for _, e := range []syscall.Errno{syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EPROTONOSUPPORT} {
		failing(t, "create_counters", e)
		_, err := s.dev.CreateCounters()
		wantErr(t, err, ErrNotSupported, "mlx5")
		failing(t, "create_flow_action_esp", e)
		_, err = s.dev.CreateESPAction(&ESPAction{AESGCM: &ESPKey{Key: make([]byte, 16), ICVLen: 8}})
		wantErr(t, err, ErrNotSupported, "ip xfrm")
	}
}

func TestFake_ESP(t *testing.T) {
	s := fakeSide(t, nil)
	esn := uint32(0x01020304)
	a := ESPAction{SPI: 1, Seq: 2, TFCPad: 3, Flags: ESPTransport | ESPEncrypt, HardLimitPackets: 0x0102030405060708,
		ESN:          &esn,
		AESGCM:       &ESPKey{IV: 0x1112131415161718, Salt: 0x21222324, ICVLen: 16, Key: []byte("0123456789abcdef")},
		ReplayWindow: 64}
	f := must(s.dev.CreateESPAction(&a))(t)
	want := "01000000" + "02000000" + "03000000" + "06000000" + "0807060504030201" +
		"1817161514131211" + "00000000" + "24232221" + "10000000" + "10000000" +
		hex.EncodeToString([]byte("0123456789abcdef")) + strings.Repeat("00", 32) + "01000000" + "40000000" +
		strings.Repeat("00", 8) + "01000000" + "04030201"
	if got := hex.EncodeToString(bytesOf(t, "fv_esp", 120)); got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
	ok(t, f.ModifyESP(&ESPAction{Flags: ESPNewESNWindow, ESN: &esn}))
	if got := bytesOf(t, "fv_esp", 120); got[12] != 8 || got[112] != 1 || got[24+20] != 0 || got[96] != 0 {
		t.Errorf("%x", got)
	}
	for _, c := range []struct {
		a    *ESPAction
		want string
	}{
		{nil, "attr is nil"}, {&ESPAction{Flags: 16}, "0x10"}, {&ESPAction{}, "AESGCM is nil"},
		{&ESPAction{AESGCM: &ESPKey{Key: make([]byte, 17), ICVLen: 8}}, "17 bytes"},
		{&ESPAction{AESGCM: &ESPKey{Key: make([]byte, 16), ICVLen: 9}}, "ICVLen is 9"},
	} {
		_, err := s.dev.CreateESPAction(c.a)
		wantErr(t, err, syscall.EINVAL, "create esp action", c.want)
	}
	failing(t, "modify_flow_action_esp", syscall.EOPNOTSUPP)
	wantErr(t, f.ModifyESP(&ESPAction{}), ErrNotSupported, "IPsec")
	ok(t, f.Close())
	wantErr(t, f.ModifyESP(&ESPAction{}), ErrClosed)
}

// What a raw packet QP asks of the library, and what it refuses.
func TestFake_Raw(t *testing.T) {
	set(t, "raw_packet_caps", 3)
	set(t, "device_cap_flags", int(DeviceRawIPCsum))
	set(t, "tso.max", 4096)
	set(t, "tso.qpts", 1<<RawPacket)
	s := fakeRaw(t, RawOptions{StripVLAN: true, ScatterFCS: true, MaxTSOHeader: 100})
	if get(t, "qp.comp_mask") != 1|4|8 || get(t, "qp.create_flags") != 0x300 || get(t, "qp.max_tso_header") != 100 {
		t.Errorf("asked for %#x, %#x, %d", get(t, "qp.comp_mask"), get(t, "qp.create_flags"), get(t,
			"qp.max_tso_header"))
	}
	head := make([]byte, 66)
	fill(head, 1)
	rawReady(t, s.qp)
	post(t, s.qp, SendWR{ID: 1, Opcode: OpTSO, Flags: Signaled | IPCsum, TSO: &TSO{Header: head, MSS: 1460},
		SGEs: []SGE{s.mr.SGE(0, 4000), s.mr.SGE(4000, 96)}})
	if wc := s.good(t, 1); wc.Opcode != WCTSO {
		t.Errorf("%+v", wc)
	}
	if got := bytesOf(t, "fv_tso", 70); string(got) != string(append([]byte{66, 0, 0xb4, 5}, head...)) {
		t.Errorf("%x", got)
	}
	set(t, "sink", 1)
	wrs := []SendWR{{Opcode: OpTSO, TSO: &TSO{Header: head, MSS: 1460}, SGEs: []SGE{s.mr.SGE(0, 4000)}}}
	if n := testing.AllocsPerRun(100, func() { _, _ = s.qp.PostSend(wrs) }); n != 0 {
		t.Errorf("posting allocates %v times", n)
	}
	unset(t, "sink")
	_, err := s.qp.PostSend([]SendWR{{Opcode: OpTSO, TSO: &TSO{Header: head, MSS: 1}, SGEs: []SGE{s.mr.SGE(0, 4097)}}})
	wantErr(t, err, syscall.EINVAL, "tso bytes 4097 exceeds the limit of fake0 (4096)")
	for _, c := range []struct {
		o    QPOptions
		want string
	}{
		{QPOptions{Raw: RawOptions{StripVLAN: true}}, "Raw is set; it must be nothing with type RC"},
		{QPOptions{Type: RawPacket, Raw: RawOptions{MaxTSOHeader: -1}}, "MaxTSOHeader is -1"},
		{QPOptions{Type: RawPacket, Raw: RawOptions{MaxTSOHeader: 1 << 16}}, "max_tso_header 65536"},
	} {
		_, err := s.pd.CreateQP(s.cq, s.cq, &c.o)
		wantErr(t, err, syscall.EINVAL, c.want)
	}
	failing(t, "ibv_create_qp", syscall.EPERM)
	_, err = s.pd.CreateQP(s.cq, s.cq, &QPOptions{Type: RawPacket})
	wantErr(t, err, syscall.EPERM, "CAP_NET_RAW")
	unset(t, "fail.ibv_create_qp")

	// libmlx5 may damage frames of TSO. Before v22 it does not tell which devices are its own.
	set(t, "vendor_id", vendorMellanox)
	set(t, "vendor_part_id", partConnectIB)
	m := &side{dev: closing(t, must(Open("fake1"))(t))}
	m.more(t, nil)
	_, err = m.pd.CreateQP(m.cq, m.cq, &QPOptions{Type: RawPacket, Raw: RawOptions{MaxTSOHeader: 54}})
	wantErr(t, err, ErrNotSupported, "TSO", "CQs of the direct data path")
	unset(t, "vendor_id")
	unset(t, "vendor_part_id")

	// A device without an offload says which it lacks.
	set(t, "raw_packet_caps", 0)
	set(t, "tso.qpts", 0)
	d := &side{dev: closing(t, must(Open("fake1"))(t))}
	d.more(t, nil)
	for o, want := range map[RawOptions]string{{StripVLAN: true}: "VLANStripping", {ScatterFCS: true}: "ScatterFCS",
		{MaxTSOHeader: 1}: "TSO"} {
		_, err := d.pd.CreateQP(d.cq, d.cq, &QPOptions{Type: RawPacket, Raw: o})
		wantErr(t, err, ErrNotSupported, want, "fake1")
	}
}

// A library without the calls says which release it takes.
func TestFake_FlowOldLibrary(t *testing.T) {
	inChild(t, variant(t, "OLD=15"), nil, func(t *testing.T) {
		s := fakeRaw(t, RawOptions{})
		f := must(s.qp.CreateFlow(&FlowAttr{Port: 1}))(t)
		ok(t, f.Close())
		_, err := s.dev.CreateCounters()
		wantErr(t, err, ErrNotSupported, "v19")
		_, err = s.dev.CreateESPAction(&ESPAction{AESGCM: &ESPKey{Key: make([]byte, 16), ICVLen: 8}})
		wantErr(t, err, ErrNotSupported, "v18")
	})
}
