package config

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Addr is the 16 bytes of a GID in network order.
type Addr [16]byte

// GUID is a 64-bit identifier, most significant byte first on the wire.
type GUID uint64

// MAC is an Ethernet address.
type MAC [6]byte

// String returns the form of the kernel: eight groups of four hex digits.
func (a Addr) String() string { return netip.AddrFrom16(a).StringExpanded() }

// IsZero reports whether the address is that of an empty entry.
func (a Addr) IsZero() bool { return a == Addr{} }

// IP returns the GID as an IP address; IPv4-mapped ones become IPv4.
func (a Addr) IP() netip.Addr { return netip.AddrFrom16(a).Unmap() }

// ParseAddr reads an IPv6 or IPv4 address; the latter becomes IPv4-mapped.
func ParseAddr(s string) (Addr, error) {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return Addr{}, fmt.Errorf("gid %q is neither an IPv6 nor an IPv4 address: write fe80::1 or 10.0.0.1", clip(s))
	}
	return ip.As16(), nil
}

// String returns the form of the kernel: four groups of four hex digits.
func (g GUID) String() string {
	v := uint64(g)
	return fmt.Sprintf("%04x:%04x:%04x:%04x", v>>48, v>>32&0xffff, v>>16&0xffff, v&0xffff)
}

// Bytes returns the GUID in network order.
func (g GUID) Bytes() (b [8]byte) {
	binary.BigEndian.PutUint64(b[:], uint64(g))
	return b
}

// ParseGUID reads 16 hex digits, with or without colons or 0x.
func ParseGUID(s string) (GUID, error) {
	v, err := strconv.ParseUint(strings.ReplaceAll(strings.TrimPrefix(s, "0x"), ":", ""), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("guid %q is not 16 hex digits: write e41d:2d03:0012:3450", clip(s))
	}
	return GUID(v), nil
}

// MAC returns the Ethernet address that a GUID of the vendor is made of; port counts from 1.
func (g GUID) MAC(port int) MAC {
	b := g.Bytes()
	return MAC{b[0], b[1], b[2], b[5], b[6], b[7] + byte(port-1)}
}

// String returns the form of the kernel: six pairs of hex digits.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// LinkLocal returns the IPv6 link-local address that is made of the MAC.
func (m MAC) LinkLocal() Addr {
	return Addr{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]}
}

// ParseMAC reads six pairs of hex digits.
func ParseMAC(s string) (m MAC, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, ":", ""))
	if err != nil || len(b) != len(m) {
		return m, fmt.Errorf("mac %q is not six pairs of hex digits: write e4:1d:2d:12:34:50", clip(s))
	}
	return MAC(b), nil
}
