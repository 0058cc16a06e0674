package ibv

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

// located makes a sysfs in which fake0 is on Ethernet and fake1 on InfiniBand.
func located(t *testing.T) *sysfstest.Tree {
	t.Helper()
	tr := sysfstest.New(t)
	tr.Netdev("eth2", "up", "0x1003", 4, 9000, "")
	tr.Netdev("eth2.100", "up", "0x1003", 9, 9000, "vlan")
	tr.Netdev("ib0", "up", "0x1003", 12, 2044, "")
	const pci = "pci0000:3a/0000:3b:00.0"
	tr.Device("fake0", pci, "mlx5_core", "0002:c903:0000:0000")
	tr.Write("devices/"+pci+"/vendor", "0x15b3")
	tr.Write("devices/"+pci+"/device", "0x1021")
	tr.Write("devices/"+pci+"/local_cpulist", "0-15,32-47")
	tr.Port("fake0", 1, "4: ACTIVE", "Ethernet", "100 Gb/sec (4X EDR)", 8)
	tr.GID("fake0", 1, 0, "fe80:0000:0000:0000:0e42:a1ff:fe65:1a2e", sysfstest.V2, "eth2")
	tr.GID("fake0", 1, 1, "fe80:0000:0000:0000:0e42:a1ff:fe65:1a2e", sysfstest.V2, "eth2.100")
	tr.GID("fake0", 1, 2, "0000:0000:0000:0000:0000:ffff:0a0a:0a01", sysfstest.V1, "eth2")
	tr.GID("fake0", 1, 3, "0000:0000:0000:0000:0000:ffff:0a0a:0a01", sysfstest.V2, "eth2")
	tr.GID("fake0", 1, 4, "0000:0000:0000:0000:0000:ffff:0a0a:6401", sysfstest.V2, "eth2.100")
	tr.Write("class/infiniband/fake0/ports/1/counters/port_xmit_data", "12345")
	tr.Write("class/infiniband/fake0/ports/1/hw_counters/out_of_sequence", "7")
	tr.Device("fake1", "", "", "0002:c903:0000:0001")
	tr.Port("fake1", 1, "4: ACTIVE", "InfiniBand", "400 Gb/sec (4X NDR)", 2)
	tr.GID("fake1", 1, 0, "fe80:0000:0000:0000:0c42:a103:0065:1a30", sysfstest.V1, "")
	tr.Mkdir("class/net/ib0/device/infiniband/fake1")
	t.Setenv("SYSFS_PATH", tr.Root)
	return tr
}

func TestFake_OpenByAddress(t *testing.T) {
	needFake(t)
	located(t)
	type found struct {
		dev            string
		port           uint8
		index, ifindex int
	}
	check := func(what string, want found, d *Device, e GIDEntry, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		if got := (found{d.Name(), e.Port, e.Index, e.NetdevIndex}); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
		ok(t, d.Close())
	}
	for addr, want := range map[string]found{
		"10.10.10.1":                        {"fake0", 1, 3, 4}, // v2 before v1
		"::ffff:10.10.10.1":                 {"fake0", 1, 3, 4},
		"10.10.100.1":                       {"fake0", 1, 4, 9},
		"fe80::e42:a1ff:fe65:1a2e":          {"fake0", 1, 0, 4}, // no VLAN before a VLAN
		"fe80::e42:a1ff:fe65:1a2e%eth2.100": {"fake0", 1, 1, 9},
	} {
		d, e, err := OpenAddr(netip.MustParseAddr(addr))
		check(addr, want, d, e, err)
	}
	for netdev, want := range map[string]found{
		"eth2": {"fake0", 1, 3, 4}, "eth2.100": {"fake0", 1, 4, 9}, "ib0": {"fake1", 1, 0, 0},
	} {
		d, e, err := OpenNetdev(netdev)
		check(netdev, want, d, e, err)
	}
	_, _, err := OpenAddr(netip.Addr{})
	wantErr(t, err, errInvalid, "addr", "zero")
	for _, addr := range []string{"10.10.10.2", "fe80::c42:a103:65:1a30", "fe80::e42:a1ff:fe65:1a2e%ib0"} {
		_, _, err := OpenAddr(netip.MustParseAddr(addr))
		wantErr(t, err, ErrNoDevice, addr, "there are fake0, fake1")
	}
	_, _, err = OpenNetdev("")
	wantErr(t, err, errInvalid, "empty")
	for _, netdev := range []string{"eth3", "..", "a/b", "ib1"} {
		_, _, err := OpenNetdev(netdev)
		wantErr(t, err, ErrNoDevice, netdev, "there are fake0, fake1")
	}
}

func TestFake_Location(t *testing.T) {
	s := fakeSide(t, nil)
	tr := located(t)
	want := Location{PCI: "0000:3b:00.0", PCIID: "15b3:1021", Driver: "mlx5_core", NUMANode: 1, CPUs: "0-15,32-47"}
	if l := must(s.dev.Info().Location())(t); l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
	if l := must(DeviceInfo{Name: "fake1"}.Location())(t); l != (Location{NUMANode: -1}) {
		t.Errorf("%+v of a software device", l)
	}
	for _, name := range []string{"", "gone", "../net"} {
		_, err := DeviceInfo{Name: name}.Location()
		wantErr(t, err, nil, "locate device")
	}
	c := must(s.dev.Counters(1))(t)
	if len(c) != 2 || c["port_xmit_data"] != 12345 || c["out_of_sequence"] != 7 {
		t.Errorf("counters %v", c)
	}
	for _, port := range []uint8{0, 99} {
		_, err := s.dev.Counters(port)
		wantErr(t, err, errInvalid, "port")
	}
	tr.Remove("class/infiniband/fake0/ports/1/hw_counters")
	tr.Remove("class/infiniband/fake0/ports/1/counters")
	if c := must(s.dev.Counters(1))(t); c == nil || len(c) != 0 {
		t.Errorf("counters %v of a port without any", c)
	}
}

// A GID counts only if the interface of this network namespace has its address.
func TestFake_ForeignAddress(t *testing.T) {
	needFake(t)
	located(t).Addresses("eth2.100 10.10.100.1/24", "eth0 10.10.10.1/24")
	const reason = "no interface here has this address"
	_, _, err := OpenAddr(netip.MustParseAddr("10.10.10.1"))
	wantErr(t, err, ErrNoDevice, reason)
	_, _, err = OpenNetdev("eth2")
	wantErr(t, err, ErrNoDevice, reason)
	d, e, err := OpenAddr(netip.MustParseAddr("10.10.100.1"))
	if err != nil || e.Index != 4 {
		t.Fatalf("%+v, %v", e, err)
	}
	ok(t, d.Close())
	tr := located(t)
	tr.Write("class/infiniband/fake0/node_type", "4: RNIC")
	_, _, err = OpenNetdev("eth2")
	wantErr(t, err, ErrNoDevice, "iWARP connects by IP addresses")
}

// The choice, and why there is none.
func TestFake_BestGID(t *testing.T) {
	t.Setenv("SYSFS_PATH", t.TempDir()) // this host does not have the addresses
	s := fakeSide(t, nil)
	qp := s.newQP(t, nil)
	best := must(s.dev.BestGID(1))(t)
	if e := must(qp.Endpoint(1, BestGID))(t); e.GID != best.GID || best.Port != 1 || best.GID.IsZero() {
		t.Errorf("%+v, but Endpoint has %v", best, e.GID)
	}
	set(t, "port.state", int(PortDown))
	if e := must(s.dev.BestGID(1))(t); e != best {
		t.Errorf("%+v on a port that is down", e)
	}
	_, err := s.dev.BestGID(9)
	wantErr(t, err, errInvalid, "port")
	other := must(s.dev.BestGIDFunc(1, func(e GIDEntry) bool { return e.Index != best.Index }))(t)
	if other.Index == best.Index || other.Port != 1 || other.GID.IsZero() {
		t.Errorf("%+v, want another than %+v", other, best)
	}
	_, err = s.dev.BestGIDFunc(1, func(GIDEntry) bool { return false })
	wantErr(t, err, ErrNotFound, "none of 0 entries")
	_, err = s.dev.BestGIDFunc(9, func(GIDEntry) bool { return true })
	wantErr(t, err, errInvalid, "port")
	c := newGIDChoice()
	for i := range 10 {
		c.add("fake0", GIDEntry{GID: GID{0: 0xff, 15: byte(i)}, Index: i}, gid.TypeRoCEv2, true)
	}
	const same = "none of 10 entries is usable: not a unicast address of a network"
	if why := c.why(10); c.best() >= 0 || why != same {
		t.Errorf("%q", why)
	}
	c.add("fake0", GIDEntry{GID: GID{0: 0xfe, 1: 0x80}, Index: 10}, gid.TypeRoCEv2, true)
	const first = "none of 11 entries is usable; 0, ff00::: not a unicast"
	if why := c.why(11); c.best() >= 0 || !strings.HasPrefix(why, first) ||
		strings.Count(why, "unicast") != 8 || !strings.HasSuffix(why, "…") {
		t.Errorf("%q", why)
	}
	if why := newGIDChoice().why(0); !strings.HasPrefix(why, "the GID table is empty; each address") {
		t.Errorf("%q", why)
	}
}
