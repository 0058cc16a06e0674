package netview

import (
	"net/netip"
	"testing"

	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// TestParseAddresses reads lines of ip -o addr, iproute2 6.1.
func TestParseAddresses(t *testing.T) {
	const text = `1: lo    inet 127.0.0.1/8 scope host lo\       valid_lft forever preferred_lft forever
4: eth2    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth2\       valid_lft forever preferred_lft forever
4: eth2    inet 10.0.0.2/24 scope global secondary eth2\       valid_lft forever preferred_lft forever
4: eth2    inet6 2001:db8::1/64 scope global tentative \       valid_lft forever preferred_lft forever
4: eth2    inet6 2001:db8::2/64 scope global deprecated \       valid_lft 86394sec preferred_lft 0sec
4: eth2    inet6 2001:db8::3/64 scope global temporary dynamic \       valid_lft 86394sec preferred_lft 86394sec
4: eth2    inet6 2001:db8::4/64 scope global dadfailed tentative \       valid_lft forever preferred_lft forever
5: p2p0    inet 10.1.0.1 peer 10.1.0.2/32 scope global p2p0\       valid_lft forever preferred_lft forever

6: eth3    link/ether 00:00:00:00:00:00
7: eth4    inet nonsense/24
`
	want := map[string]gid.Address{"127.0.0.1": gid.AddressPreferred, "10.0.0.1": gid.AddressPreferred,
		"10.0.0.2": gid.AddressPreferred, "2001:db8::1": gid.AddressTentative, "2001:db8::2": gid.AddressDeprecated,
		"2001:db8::3": gid.AddressTemporary, "2001:db8::4": gid.AddressDuplicate, "10.1.0.1": gid.AddressPreferred}
	got := parseAddresses(text).states
	for a, s := range got {
		if s != want[a.ip.String()] || s == gid.AddressUnknown {
			t.Errorf("%v: %v", a, s)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d addresses, want %d: %v", len(got), len(want), got)
	}
}

func TestLinkLocal(t *testing.T) {
	for mac, want := range map[string]string{"0c:42:a1:65:1a:2e": "fe80::e42:a1ff:fe65:1a2e", "": "::", "0c:42": "::",
		"0c:42:a1:65:1a:2e:00:00": "::", "0c:42:a1:65:1a:xx": "::"} {
		if got := netip.AddrFrom16(linkLocal(mac)); got.String() != want {
			t.Errorf("%q: %v, want %s", mac, got, want)
		}
	}
}

// TestAddressOfMAC: a default GID has no address if IPv6 is off, and is nevertheless not another namespace's. One that
// was made from another MAC is.
func TestAddressOfMAC(t *testing.T) {
	byMAC, other := sysfs.GID(linkLocal("0c:42:a1:65:1a:2e")), sysfs.GID(linkLocal("0c:42:a1:65:1a:2f"))
	for _, netdev := range []string{"eth2", "eth2.100", "bond0", "macvlan0"} {
		v := &View{addrs: newAddresses(), netdevs: map[string]*sysfs.Netdev{netdev: nil}}
		v.addrs.macs[netdev] = "0c:42:a1:65:1a:2e"
		for _, tc := range []struct {
			gid    sysfs.GID
			typ    gid.Type
			netdev string
			want   gid.Address
		}{
			{byMAC, gid.TypeRoCEv2, netdev, gid.AddressDefault},
			{byMAC, gid.TypeRoCEv1, netdev, gid.AddressUnknown}, // peers take the MAC from it
			{other, gid.TypeRoCEv2, netdev, gid.AddressNone},
			{other, gid.TypeRoCEv1, netdev, gid.AddressNone},
			{byMAC, gid.TypeRoCEv2, "elsewhere0", gid.AddressNone},
			{sysfs.GID{15: 1}, gid.TypeRoCEv2, netdev, gid.AddressNone},
		} {
			e := &sysfs.GIDEntry{GID: tc.gid, Type: tc.typ, Netdev: tc.netdev}
			v.netdevs["elsewhere0"] = nil
			if got := v.Candidate(e, true).Address; got != tc.want {
				t.Errorf("%v %v on %s: %v, want %v", tc.gid, tc.typ, tc.netdev, got, tc.want)
			}
		}
		e := &sysfs.GIDEntry{GID: byMAC, Type: gid.TypeRoCEv2, Netdev: netdev}
		v.addrs.states[address{netdev, byMAC.Addr()}] = gid.AddressPreferred
		if got := v.Candidate(e, true).Address; got != gid.AddressPreferred {
			t.Errorf("with the address: %v", got)
		}
	}
}

// TestThisHost checks what the kernel reports in every network namespace that has a loopback interface.
func TestThisHost(t *testing.T) {
	v := New("/sys")
	home := netip.MustParseAddr("127.0.0.1")
	if s := v.addrs.states[address{"lo", home}]; s != gid.AddressPreferred {
		t.Errorf("127.0.0.1 of lo: %v in %v", s, v.addrs.states)
	}
	if netdev, err := Route(home); err != nil || netdev != "lo" {
		t.Errorf("route to 127.0.0.1: %s, %v", netdev, err)
	}
	for _, routed := range []bool{true, false} {
		if a, err := Source(home, "lo", routed); err != nil || a != home {
			t.Errorf("from lo to 127.0.0.1: %v, %v", a, err)
		}
		if a, err := Source(home, "nothere0", routed); err == nil {
			t.Errorf("from no interface to 127.0.0.1: %v", a)
		}
	}
	e := &sysfs.GIDEntry{GID: sysfs.GID(home.As16()), Type: gid.TypeRoCEv2, Netdev: "lo"}
	if c := v.Candidate(e, true); c.Address != gid.AddressPreferred {
		t.Errorf("%+v", c)
	}
	if n := v.Network(e); n.String() != "127.0.0.0/8" {
		t.Errorf("the network of 127.0.0.1: %v", n)
	}
	if e.Netdev = "nothere0"; v.Candidate(e, true).Address != gid.AddressNone {
		t.Error("an interface that is not here has the address")
	}
}
