package gid

import (
	"net/netip"
	"strings"
	"testing"
)

func gidOf(s string) [16]byte { return netip.MustParseAddr(s).As16() }

func TestScopeOf(t *testing.T) {
	for s, want := range map[string]Scope{
		"::":                     ScopeZero,
		"::ffff:10.0.0.1":        ScopeIPv4,
		"::ffff:224.0.0.1":       ScopeNotUnicast,
		"::ffff:0.0.0.0":         ScopeNotUnicast,
		"::ffff:127.0.0.1":       ScopeNotUnicast,
		"::ffff:255.255.255.255": ScopeNotUnicast,
		"::ffff:169.254.3.4":     ScopeIPv4LinkLocal,
		"::1":                    ScopeNotUnicast,
		"::a00:1":                ScopeGlobal,
		"2001:db8::1":            ScopeGlobal,
		"fec0::1:2:3:4:5":        ScopeGlobal,
		"fd12::1":                ScopeUniqueLocal,
		"fc00::1":                ScopeUniqueLocal,
		"fe80::1":                ScopeLinkLocal,
		"febf::1":                ScopeLinkLocal,
		"fe80::":                 ScopeNoInterface,
		"ff02::1":                ScopeNotUnicast,
	} {
		if got := ScopeOf(gidOf(s)); got != want {
			t.Errorf("%s: %v, want %v", s, got, want)
		}
	}
	if s := Scope(99).String(); s != "Scope(99)" {
		t.Errorf("got %s", s)
	}
}

// base is as good as a GID on Ethernet can be.
func base(change func(*Candidate)) Candidate {
	c := Candidate{GID: gidOf("::ffff:10.0.0.1"), Index: 3, Type: TypeRoCEv2, PortActive: true, Netdev: LinkUp}
	if change != nil {
		change(&c)
	}
	return c
}

func TestCompare(t *testing.T) {
	// Each is worse than all before it: the order of the criteria.
	worse := []struct {
		name   string
		change func(*Candidate)
		why    string
	}{
		{"InfiniBand", func(c *Candidate) { c.Type, c.Netdev, c.GID = TypeIB, LinkUnknown, gidOf("fe80::2") }, ""},
		{"base", nil, "InfiniBand is preferred"},
		{"higher index", func(c *Candidate) { c.Index = 5 }, "higher index"},
		{"VLAN", func(c *Candidate) { c.Above, c.Index = "VLAN", 0 }, "on a VLAN"},
		{"off the route", func(c *Candidate) { c.OffRoute, c.Index = true, 0 }, "by another interface"},
		{"temporary", func(c *Candidate) { c.Address, c.Index = AddressTemporary, 0 }, "address is temporary"},
		{"deprecated", func(c *Candidate) { c.Address, c.Index = AddressDeprecated, 0 }, "address is deprecated"},
		{"IPv6", func(c *Candidate) { c.GID, c.Index = gidOf("2001:db8::1"), 0 }, "IPv4 is preferred"},
		{"IPv4 link-local", func(c *Candidate) { c.GID, c.Index = gidOf("::ffff:169.254.0.1"), 0 }, "link-local"},
		{"link-local", func(c *Candidate) { c.GID, c.Index = gidOf("fe80::1"), 0 }, "link-local"},
		{"v1", func(c *Candidate) { c.Type, c.Index = TypeRoCEv1, 0 }, "RoCE v1"},
		{"type unknown", func(c *Candidate) { c.Type, c.Index = -1, 0 }, "type is not known"},
		{"netdev unknown", func(c *Candidate) { c.Netdev, c.Index = LinkUnknown, 0 }, "not known"},
		{"netdev down", func(c *Candidate) { c.Netdev, c.Index = LinkDown, 0 }, "netdev is down"},
		{"port down", func(c *Candidate) { c.PortActive, c.Index = false, 0 }, "port is not ACTIVE"},
		{"unusable", func(c *Candidate) { c.GID, c.Index = gidOf("ff02::1"), 0 }, "not a unicast address"},
	}
	for i, w := range worse {
		c := base(w.change)
		if o, why := Compare(c, c); o != 0 || why != "" {
			t.Errorf("%s with itself: %d %q", w.name, o, why)
		}
		for j, b := range worse[:i] {
			o, why := Compare(base(b.change), c)
			if o != 1 {
				t.Errorf("%s against %s: %d (%s), want 1", b.name, w.name, o, why)
			}
			if j == i-1 && !strings.Contains(why, w.why) {
				t.Errorf("%s against %s: %q, want %q", b.name, w.name, why, w.why)
			}
			if back, whyBack := Compare(c, base(b.change)); back != -1 || whyBack != why {
				t.Errorf("%s against %s: %d %q, want -1 %q", w.name, b.name, back, whyBack, why)
			}
		}
	}
}

func TestBest(t *testing.T) {
	ib := func(index int, gid string) Candidate {
		return Candidate{GID: gidOf(gid), Index: index, Type: TypeIB, PortActive: true}
	}
	for _, tc := range []struct {
		name string
		c    []Candidate
		want int
	}{
		{"none", nil, -1},
		{"only unusable", []Candidate{{}, base(func(c *Candidate) { c.GID = gidOf("fe80::") })}, -1},
		{"v2 IPv4 in the middle", []Candidate{
			base(func(c *Candidate) { c.Type = TypeRoCEv1 }),
			base(func(c *Candidate) { c.GID = gidOf("fe80::1") }),
			base(nil),
			base(func(c *Candidate) { c.Index = 9 }),
		}, 2},
		{"first of equals", []Candidate{base(nil), base(nil)}, 0},
		{"InfiniBand, default prefix", []Candidate{ib(0, "fe80::1"), ib(1, "fec0::1:0:0:0:1"),
			ib(2, "::ffff:10.0.0.1")}, 0},
		{"InfiniBand, order of the list", []Candidate{ib(2, "fec0::2"), ib(0, "fe80::1")}, 1},
		{"unusable is worse than down", []Candidate{
			base(func(c *Candidate) { c.Address = AddressNone }),
			base(func(c *Candidate) { c.Address = AddressTentative }),
			base(func(c *Candidate) { c.Address = AddressDuplicate }),
			base(func(c *Candidate) { c.Type = TypeIWARP }),
			base(func(c *Candidate) { c.Type = TypeUSNIC }),
			base(func(c *Candidate) { c.Netdev = LinkDown }),
		}, 5},
		{"down is better than nothing", []Candidate{{}, base(func(c *Candidate) { c.PortActive = false })}, 1},
	} {
		if got := Best(tc.c); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestDown(t *testing.T) {
	for want, c := range map[string]Candidate{
		"":                   base(nil),
		"port is not ACTIVE": base(func(c *Candidate) { c.PortActive = false }),
		"netdev is down":     base(func(c *Candidate) { c.Netdev = LinkDown }),
	} {
		if got := Down(c); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestWhy(t *testing.T) {
	v4 := [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}
	c := []Candidate{
		{GID: v4, Type: TypeRoCEv2, PortActive: true, Netdev: LinkUp},
		{GID: v4, Index: 1, Type: TypeRoCEv1, PortActive: true, Netdev: LinkUp},
		{GID: v4, Index: 2, Type: TypeRoCEv2, PortActive: true, Netdev: LinkDown},
		{PortActive: true},
		{GID: v4, Type: TypeRoCEv2, PortActive: true, Netdev: LinkUp},
	}
	for i, want := range []string{"", "RoCE v1, which no router forwards", "netdev is down", "empty entry",
		"as good, but later in the list"} {
		if got := Why(c, 0, i); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	if got := Why(c, -1, 1); got != "" {
		t.Errorf("none is chosen: %q", got)
	}
}
