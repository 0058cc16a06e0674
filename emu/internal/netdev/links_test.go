//go:build linux

package netdev

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// elsewhere gives the test a network of its own for as long as it lasts.
func elsewhere(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // for ever: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip("skipped: as root, make test-unit runs it: it takes root to make a network namespace: ", err)
	}
}

func TestLinks(t *testing.T) {
	elsewhere(t)
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	c, err := config.Parse([]string{"mlx5_0", "mlx5_1,ports=2,mtu=4096", "mlx5_2,link=ib"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(fd, c, Kinds)
	if err != nil {
		t.Fatal(err)
	}
	ifaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	if want := len(c.Netdevs()) + 1; len(ifaces) != want {
		t.Errorf("%d interfaces, want %d: %v", len(ifaces), want, ifaces)
	}
	for _, n := range c.Netdevs() {
		i, err := net.InterfaceByName(n.Name)
		if err != nil {
			t.Errorf("%s: %v", n.Name, err)
			continue
		}
		if i.Index != n.IfIndex || i.MTU != n.MTU || i.HardwareAddr.String() != n.MAC.String() ||
			i.Flags&net.FlagUp == 0 || l.Index(n.Name) != i.Index {
			t.Errorf("%s: index %d, mtu %d, %v, %v; want %+v, up", n.Name, i.Index, i.MTU, i.HardwareAddr, i.Flags, n)
		}
		var want, got []string
		for _, g := range c.Devices[n.Device].Ports[n.Port-1].GIDs {
			if ip := g.GID.IP().String(); g.Netdev == n.Name && !slices.Contains(want, ip) {
				want = append(want, ip)
			}
		}
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			got = append(got, a.(*net.IPNet).IP.String())
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has the addresses %v, want those of the GID table, %v", n.Name, got, want)
		}
	}
	has := func(s string) bool {
		all, err := l.Addrs()
		if err != nil {
			t.Error(err)
		}
		return slices.Contains(all, netip.MustParseAddr(s))
	}
	if !has("127.0.0.1") || !has("10.88.0.1") || has("10.1.2.3") {
		t.Error(l.Addrs())
	}
	a, err := config.ParseAddr("10.1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	g := config.GID{GID: a, Netdev: "emu0"}
	for range 2 {
		if l.SetGID(g, true); !has("10.1.2.3") {
			t.Error("the address of a new GID is missing")
		}
	}
	if l.SetGID(g, false); has("10.1.2.3") {
		t.Error("the address stays when its GID has gone")
	}
	// What is no address of an interface is left out.
	for _, s := range []string{"ff02::1", "::", "::1", "239.1.2.3"} {
		a, _ := config.ParseAddr(s)
		l.SetGID(config.GID{GID: a, Netdev: "emu0"}, true)
	}
	l.SetGID(config.GID{GID: a, Netdev: "nowhere"}, true)
	l.Remove(c, 1)
	if _, err := net.InterfaceByName("emu1"); err == nil || has("10.88.1.1") || !has("10.88.0.1") {
		t.Errorf("after a removal there is emu1: %v, and its address: %v", err, has("10.88.1.1"))
	}
	if _, err := net.Listen("tcp", "10.88.0.1:0"); err != nil {
		t.Error("nobody can listen at a port's address:", err)
	}
}

// TestNew_Refused shows the errno of a kernel that says no.
func TestNew_Refused(t *testing.T) {
	elsewhere(t)
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	c, err := config.Parse([]string{"mlx5_0"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(fd, c, Kinds); err != nil {
		t.Fatal(err)
	}
	if _, err := New(fd, c, Kinds); !errors.Is(err, unix.EEXIST) ||
		!strings.HasPrefix(err.Error(), "interface emu0: ") {
		t.Errorf("the same interfaces again: %v", err)
	}
}
