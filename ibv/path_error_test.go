package ibv

import (
	"strings"
	"syscall"
	"testing"
)

func mustGID(t *testing.T, s string) GID {
	t.Helper()
	if s == "" {
		return GID{}
	}
	g, err := ParseGID(s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestPathReason(t *testing.T) {
	const (
		v1 = GIDTypeRoCEv1
		v2 = GIDTypeRoCEv2
		ib = GIDTypeIB
	)
	tests := []struct {
		name          string
		local, remote string
		typ           GIDType
		netdev        string
		errno         syscall.Errno
		want          []string
	}{
		{"empty sgid", "", "fe80::1", v2, "", syscall.EINVAL, []string{"empty", "show_gids"}},
		{"zero dgid", "fe80::1", "", v2, "v0", syscall.EINVAL, []string{"peer's GID is zero"}},
		{"families", "::ffff:10.8.0.1", "2001:db8::2", v2, "v0", syscall.ENETUNREACH, []string{"local GID is IPv4",
			"peer's is IPv6"}},
		{"families back", "2001:db8::2", "::ffff:10.8.0.1", v2, "v0", syscall.EINVAL, []string{"local GID is IPv6",
			"peer's is IPv4"}},
		{"local link-local", "fe80::1", "2001:db8::2", v2, "v0", syscall.ENETUNREACH,
			[]string{"local GID is link-local"}},
		{"remote link-local", "2001:db8::2", "fe80::1", v2, "v0", syscall.ETIMEDOUT,
			[]string{"peer's GID is link-local"}},
		{"IPv4 link-local", "::ffff:169.254.0.1", "::ffff:10.8.0.1", v2, "v0", syscall.ENETUNREACH,
			[]string{"local GID is link-local"}},
		{"multicast", "fe80::1", "ff12::1", v2, "v0", syscall.EINVAL, []string{"multicast"}},
		{"no netdev", "fe80::1", "fe80::2", v2, "", syscall.EINVAL, []string{"no network interface"}},
		{"down", "fe80::1", "fe80::2", v2, "v0", syscall.ENETDOWN, []string{"v0 is down"}},
		{"itself", "fe80::1", "fe80::1", v2, "v0", syscall.EINVAL, []string{"loop"}},
		{"no route", "::ffff:10.8.0.1", "::ffff:192.0.2.7", v2, "v0", syscall.ENETUNREACH,
			[]string{"no route to 192.0.2.7 through v0", "ip route get 192.0.2.7 oif v0"}},
		{"v1 beyond the LAN", "::ffff:10.8.0.1", "::ffff:192.0.2.7", v1, "v0", syscall.ENETUNREACH,
			[]string{"RoCE v1 is not routed"}},
		{"no ARP", "::ffff:10.8.0.1", "::ffff:10.8.0.9", v2, "v0", syscall.ETIMEDOUT, []string{"ARP for 10.8.0.9 on v0",
			"ip neigh show dev v0", "ping -I v0 10.8.0.9"}},
		{"no neighbour", "fe80::1", "fe80::2", v2, "v0", syscall.EHOSTUNREACH,
			[]string{"neighbour discovery for fe80::2 on v0"}},
		{"gone", "fe80::1", "fe80::2", v2, "v0", syscall.ENODEV, []string{"gone"}},
		{"other", "fe80::1", "fe80::2", v2, "v0", syscall.EINVAL, []string{"two GIDs fit", "active MTU"}},
		{"other v1", "fe80::1", "fe80::2", v1, "v0", syscall.EINVAL, []string{"peer that uses v1"}},
		{"IB to RoCE", "fe80::1", "::ffff:10.8.0.1", ib, "", syscall.EINVAL, []string{"local port is InfiniBand"}},
		{"IB subnets", "fe80::1", "fec0:0:0:1::2", ib, "", syscall.EINVAL, []string{"different InfiniBand subnets"}},
		{"IB timeout", "fe80::1", "fe80::2", ib, "", syscall.ETIMEDOUT, []string{"subnet manager"}},
		{"IB by LID", "fe80::1", "", ib, "", syscall.EINVAL, []string{"peer's LID"}},
		{"IB other", "fe80::1", "fe80::2", ib, "", syscall.EINVAL, []string{"LID"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &PathError{Device: "rxe0", Port: 1, SGIDIndex: 3, Local: mustGID(t, tt.local), LocalType: tt.typ,
				Netdev: tt.netdev, Remote: mustGID(t, tt.remote), Errno: tt.errno}
			s := e.Error()
			for _, want := range append(tt.want, "rxe0 port 1, sgid index 3", e.Remote.String(), tt.errno.Error()) {
				if !strings.Contains(s, want) {
					t.Errorf("no %q in %q", want, s)
				}
			}
			if !e.Local.IsZero() && !strings.Contains(s, e.Local.String()+", "+tt.typ.String()) {
				t.Errorf("no local GID in %q", s)
			}
		})
	}
}

func TestPathErrno(t *testing.T) {
	for _, e := range []syscall.Errno{syscall.ETIMEDOUT, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EINVAL,
		errNoData} {
		if !pathErrno(&OpError{Err: e}) {
			t.Errorf("%v may come from an address", e)
		}
	}
	for _, e := range []syscall.Errno{syscall.ENOMEM, syscall.EIO, syscall.EOPNOTSUPP} {
		if pathErrno(&OpError{Err: e}) {
			t.Errorf("%v does not come from an address", e)
		}
	}
	if pathErrno(nil) {
		t.Error("nil is no error")
	}
}
