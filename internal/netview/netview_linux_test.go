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
	e := &sysfs.GIDEntry{GID: sysfs.GID(home.As16()), Type: sysfs.GIDTypeRoCEv2, Netdev: "lo"}
	if c := v.Candidate(e, true); c.Address != gid.AddressPreferred {
		t.Errorf("%+v", c)
	}
	if e.Netdev = "nothere0"; v.Candidate(e, true).Address != gid.AddressNone {
		t.Error("an interface that is not here has the address")
	}
}
