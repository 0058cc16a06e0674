//go:build linux

package netdev

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// TestChanges takes interfaces up and down, changes their MTU and their addresses, and takes one away.
func TestChanges(t *testing.T) {
	elsewhere(t)
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	c, err := config.Parse([]string{"mlx5_0", "mlx5_1"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(fd, c, Kinds)
	if err != nil {
		t.Fatal(err)
	}
	heard, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(heard), "changes")
	defer file.Close()
	if err := unix.Bind(heard, &unix.SockaddrNetlink{Family: unix.AF_NETLINK,
		Groups: unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR}); err != nil {
		t.Fatal(err)
	}
	conn, err := file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	l.SetCarrier("emu1", false) // which is not told
	l.Follow(conn)
	index := l.Index("emu0")
	set := func(flags, mask, mtu int) {
		if err := l.change(index, flags, mask, func(m *Message) {
			if mtu != 0 {
				m.U32(unix.IFLA_MTU, uint32(mtu))
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	ip := netip.MustParseAddr("10.1.2.3")
	g := config.GID{GID: ip.As16(), Netdev: "emu0"}
	link := func(up bool, mtu int) Change { return Change{Name: "emu0", There: true, Up: up, MTU: mtu} }
	addr := func(a string, there bool) Change {
		return Change{Name: "emu0", Addr: netip.MustParseAddr(a), There: there}
	}
	local := config.Addr(c.Devices[0].Ports[0].MAC.LinkLocal()).IP().String()
	lost := []Change{addr("fd00:88::1", false), addr(local, false)}
	for _, x := range []struct {
		what string
		do   func()
		want []Change
	}{
		{"nothing", func() {}, nil},
		{"down", func() { set(0, unix.IFF_UP, 0) }, append([]Change{link(false, 1500)}, lost...)},
		{"up", func() { set(unix.IFF_UP, unix.IFF_UP, 0) }, []Change{link(true, 1500)}},
		{"mtu", func() { set(0, 0, 9000) }, []Change{link(true, 9000)}},
		{"down and up", func() { set(0, unix.IFF_UP, 0); set(unix.IFF_UP, unix.IFF_UP, 0) },
			[]Change{link(false, 9000), link(true, 9000)}},
		{"an address", func() { l.SetGID(g, true) }, []Change{addr("10.1.2.3", true)}},
		{"it goes, and another one comes and goes", func() {
			l.SetGID(g, false)
			other := g
			other.GID[15] = 9
			l.SetGID(other, true)
			l.SetGID(other, false)
		}, []Change{addr("10.1.2.3", false)}},
		{"too much", func() {
			if err := unix.SetsockoptInt(heard, unix.SOL_SOCKET, unix.SO_RCVBUF, 1); err != nil {
				t.Fatal(err)
			}
			l.SetGID(g, true)
			for i := range 200 {
				set(0, 0, 2000+i)
			}
		}, []Change{link(true, 2199), addr("10.1.2.3", true)}},
		{"gone, and too much", func() { l.Remove(c, 0) },
			[]Change{{Name: "emu0"}, addr("10.1.2.3", false), addr("10.88.0.1", false)}},
	} {
		x.do()
		var got []Change
		for _, c := range l.Changes() {
			if !c.Addr.IsValid() && !c.There {
				c = Change{Name: c.Name} // the rest says nothing
			}
			if n := len(got); c.Name == "emu0" && (n == 0 || got[n-1] != c) { // the kernel may say it twice
				got = append(got, c)
			}
		}
		if strings.HasSuffix(x.what, "too much") { // something is heard nevertheless
			for len(got) > 0 && got[0].MTU != x.want[0].MTU {
				got = got[1:]
			}
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", x.what, got, x.want)
		}
	}
}
