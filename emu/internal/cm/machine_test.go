//go:build linux

package cm

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMachine asks the real machine for its addresses and routes.
func TestMachine(t *testing.T) {
	nowhere := netip.MustParseAddr("203.0.113.77") // kept for documentation
	if !hostAddr(netip.MustParseAddr("127.0.0.1")) || hostAddr(nowhere) {
		t.Error("127.0.0.1 is not local, or 203.0.113.77 is")
	}
	for _, ip := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
		if e := route(ip); e != 0 && !(ip.Is6() && e == unix.EADDRNOTAVAIL) { // IPv6 may be off
			t.Errorf("no route to %s: %v", ip, e)
		}
	}
	if e := route(netip.MustParseAddr("255.255.255.255")); e == 0 {
		t.Error("a route to the broadcast address")
	}
}
