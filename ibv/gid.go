package ibv

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// GID is a global identifier: 16 bytes in network order, written as an IPv6
// address. It is a plain value; == compares.
//
// C: union ibv_gid.
type GID [16]byte

// ParseGID reads a GID in any IPv6 notation: all eight groups, shortened as in
// RFC 5952, or with an IPv4 tail. A zone is refused.
func ParseGID(s string) (GID, error) {
	const want = "an IPv6 address, as in fe80::1 or ::ffff:10.0.0.1"
	if len(s) > 64 {
		return GID{}, &ArgError{Arg: "gid", Got: strconv.Quote(s[:16]) + "…", Want: want}
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Is4() || a.Zone() != "" {
		return GID{}, &ArgError{Arg: "gid", Got: strconv.Quote(s), Want: want}
	}
	return GID(a.As16()), nil
}

// GIDFromAddr returns the GID of an IP address on RoCE: it maps IPv4 addresses and
// drops a zone. For the zero Addr it returns the zero GID.
func GIDFromAddr(a netip.Addr) GID {
	if !a.IsValid() {
		return GID{}
	}
	return GID(a.As16())
}

// String returns the short form of RFC 5952, as in "fe80::1" and "::ffff:10.0.0.1".
func (g GID) String() string { return netip.AddrFrom16(g).String() }

// Full returns the form that the kernel's files and the Mellanox tools use: eight
// groups of four digits.
func (g GID) Full() string {
	var b strings.Builder
	for i := 0; i < len(g); i += 2 {
		if i > 0 {
			b.WriteByte(':')
		}
		fmt.Fprintf(&b, "%02x%02x", g[i], g[i+1])
	}
	return b.String()
}

// IsZero reports whether the GID is all zero, which marks an empty table entry.
func (g GID) IsZero() bool { return g == GID{} }

// IsIPv4Mapped reports whether the GID represents an IPv4 address.
func (g GID) IsIPv4Mapped() bool { return netip.AddrFrom16(g).Is4In6() }

// IsLinkLocal reports whether the GID is in fe80::/10, or maps an IPv4 address in
// 169.254.0.0/16. Such a GID is valid only within one LAN or subnet.
func (g GID) IsLinkLocal() bool { return g.Addr().IsLinkLocalUnicast() }

// IsMulticast reports whether the GID names a multicast group.
func (g GID) IsMulticast() bool { return g[0] == 0xff || g.Addr().IsMulticast() }

// Addr returns the IP address that the GID represents on RoCE v2; a mapped IPv4 address is returned as IPv4.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// SubnetPrefix returns the upper half.
func (g GID) SubnetPrefix() uint64 { return binary.BigEndian.Uint64(g[:8]) }

// InterfaceID returns the lower half: the port's GUID in an InfiniBand GID.
func (g GID) InterfaceID() GUID { return GUID(binary.BigEndian.Uint64(g[8:])) }

// MarshalText returns String.
func (g GID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads what ParseGID reads.
func (g *GID) UnmarshalText(text []byte) error { return unmarshal(g, text, ParseGID) }

// unmarshal sets to to what parse reads, and leaves it as it is if that fails.
func unmarshal[T any](to *T, text []byte, parse func(string) (T, error)) error {
	v, err := parse(string(text))
	if err == nil {
		*to = v
	}
	return err
}

// GUID is a node, port or system image identifier (EUI-64), in host order.
type GUID uint64

// ParseGUID reads four groups of four hexadecimal digits, as in
// "0c42:a103:0065:1a2e", or sixteen digits with or without 0x.
func ParseGUID(s string) (GUID, error) {
	digits := s
	switch {
	case len(s) == 19 && s[4] == ':' && s[9] == ':' && s[14] == ':':
		digits = s[:4] + s[5:9] + s[10:14] + s[15:]
	case len(s) == 18 && (s[:2] == "0x" || s[:2] == "0X"):
		digits = s[2:]
	}
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || len(digits) != 16 {
		if len(s) > 32 {
			s = s[:32]
		}
		return 0, &ArgError{Arg: "guid", Got: strconv.Quote(s),
			Want: "16 hexadecimal digits, as in 0c42:a103:0065:1a2e"}
	}
	return GUID(v), nil
}

// String returns four groups of four hexadecimal digits.
func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint16(g>>48), uint16(g>>32), uint16(g>>16), uint16(g))
}

// MarshalText returns String.
func (g GUID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads what ParseGUID reads.
func (g *GUID) UnmarshalText(text []byte) error { return unmarshal(g, text, ParseGUID) }
