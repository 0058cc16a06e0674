package sockaddr

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

func TestBytes(t *testing.T) {
	family := func(f uint16) []byte { return binary.NativeEndian.AppendUint16(nil, f) }
	v4, bad := New(netip.MustParseAddrPort("1.2.3.4:258"))
	if bad != nil {
		t.Fatal(bad)
	}
	if want := string(family(INET)) + "\x01\x02\x01\x02\x03\x04"; string(v4[:8]) != want || v4.Len() != 16 {
		t.Errorf("sockaddr_in is % x, %d bytes", v4[:8], v4.Len())
	}
	v6, bad := New(netip.MustParseAddrPort("[fe80::1%424242]:258"))
	if bad != nil {
		t.Fatal(bad)
	}
	want := string(family(INET6)) + "\x01\x02\x00\x00\x00\x00" +
		"\xfe\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
		string(binary.NativeEndian.AppendUint32(nil, 424242))
	if string(v6[:28]) != want || v6.Len() != 28 {
		t.Errorf("sockaddr_in6 is % x, %d bytes", v6[:28], v6.Len())
	}
	ib := InfiniBand{
		GID: [16]byte{0xfe, 15: 1}, PKey: 0x8001, FlowInfo: 7, ServiceID: 0x1060102, ServiceIDMask: 9, ScopeID: 3,
	}
	a := NewIB(ib)
	if got, ok := a.IB(); !ok || got != ib || a.Len() != 48 || a.Port() != 0x102 {
		t.Errorf("%+v became %+v, %d bytes, port %#x", ib, got, a.Len(), a.Port())
	}
}

func TestUnknown(t *testing.T) {
	for _, raw := range [][]byte{nil, {INET}, {255, 255, 0, 1, 2, 3, 4}} {
		a := Of(raw)
		if a.Family() == INET {
			continue // cut short: the rest is 0
		}
		if _, ib := a.IB(); ib || a.AddrPort().IsValid() || a.Len() != 0 || a.Port() != 0 {
			t.Errorf("% x is an address", raw)
		}
	}
	if _, bad := New(netip.AddrPort{}); bad == nil || bad.Arg != "address" {
		t.Errorf("no address: %v", bad)
	}
	if _, bad := New(netip.MustParseAddrPort("[fe80::1%nosuchif]:9")); bad == nil || bad.Arg != "zone" {
		t.Errorf("no such zone: %v", bad)
	}
}
