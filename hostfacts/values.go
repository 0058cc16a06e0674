package hostfacts

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/pureverbs/pureverbs/internal/flags"
	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// Unknown is a number that the kernel does not report: a NUMA node, a code of [NodeType], [PortState] or [PhysState].
const Unknown = -1

// LinkLayer is what a port is connected to, as the kernel writes it.
type LinkLayer string

// The link layers.
const (
	InfiniBand LinkLayer = sysfs.LinkInfiniBand
	Ethernet   LinkLayer = sysfs.LinkEthernet // RoCE, iWARP and others
)

// GID is the 16 bytes of a GID in network order.
type GID [16]byte

// String returns the kernel's form: eight groups of four hex digits.
func (g GID) String() string { return sysfs.GID(g).String() }

// MarshalText implements [encoding.TextMarshaler] with [GID.String].
func (g GID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] for what [GID.String] returns.
func (g *GID) UnmarshalText(b []byte) error {
	v, err := sysfs.ParseGID(string(b))
	if err == nil {
		*g = GID(v)
	}
	return err
}

// Addr returns the GID as an IP address. An IPv4-mapped address is returned as IPv4. On InfiniBand and iWARP a GID is
// no IP address, whatever it looks like.
func (g GID) Addr() netip.Addr { return sysfs.GID(g).Addr() }

// Scope returns the kind of address that the GID is.
func (g GID) Scope() Scope { return Scope(gid.ScopeOf(g)) }

// GIDType is the protocol of a GID.
// C: enum ibv_gid_type.
type GIDType int32

// The types of GIDs. C has no negative ones. GIDTypeUnknown means that the kernel did not report the type; it reports
// those of iWARP and usNIC, which do not connect by GIDs, as IB/RoCE v1.
const (
	GIDTypeUSNIC   GIDType = -3
	GIDTypeIWARP   GIDType = -2
	GIDTypeUnknown GIDType = -1
	GIDTypeIB      GIDType = 0
	GIDTypeRoCEv1  GIDType = 1
	GIDTypeRoCEv2  GIDType = 2
)

// String returns IB, RoCEv1, RoCEv2, iWARP, usNIC or unknown, and GIDType(17) for other values.
func (t GIDType) String() string { return gid.Type(t).String() }

// MarshalText implements [encoding.TextMarshaler] with [GIDType.String].
func (t GIDType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] for what [GIDType.String] returns.
func (t *GIDType) UnmarshalText(b []byte) error {
	return parse(b, t, "GIDType", GIDTypeUSNIC, GIDTypeRoCEv2)
}

// Scope is the kind of address that a GID is.
type Scope uint8

// The scopes.
const (
	ScopeZero          = Scope(gid.ScopeZero)          // an empty entry
	ScopeIPv4          = Scope(gid.ScopeIPv4)          // IPv4-mapped
	ScopeIPv4LinkLocal = Scope(gid.ScopeIPv4LinkLocal) // IPv4-mapped of 169.254.0.0/16
	ScopeGlobal        = Scope(gid.ScopeGlobal)        // any other IPv6, or an InfiniBand GID with its own prefix
	ScopeUniqueLocal   = Scope(gid.ScopeUniqueLocal)   // fc00::/7
	ScopeLinkLocal     = Scope(gid.ScopeLinkLocal)     // fe80::/10, also the default prefix of InfiniBand
	ScopeNotUnicast    = Scope(gid.ScopeNotUnicast)    // multicast, loopback, unspecified or broadcast address
	ScopeNoInterface   = Scope(gid.ScopeNoInterface)   // fe80:: without an interface id
)

// String returns a short name, and Scope(17) for other values.
func (s Scope) String() string { return gid.Scope(s).String() }

// MarshalText implements [encoding.TextMarshaler] with [Scope.String].
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] for what [Scope.String] returns.
func (s *Scope) UnmarshalText(b []byte) error {
	return parse(b, s, "Scope", ScopeZero, ScopeNoInterface)
}

// AddressState is the state of the IP address of a GID in a network namespace, those of RFC 4862 and RFC 8981.
type AddressState uint8

// The states of an address.
const (
	AddressUnknown    = AddressState(gid.AddressUnknown) // or the GID is no IP address
	AddressPreferred  = AddressState(gid.AddressPreferred)
	AddressTemporary  = AddressState(gid.AddressTemporary)  // it expires in days, and connections with it
	AddressDeprecated = AddressState(gid.AddressDeprecated) // for connections that have begun
	AddressTentative  = AddressState(gid.AddressTentative)  // another host may have it
	AddressDuplicate  = AddressState(gid.AddressDuplicate)  // another host has it
	AddressNone       = AddressState(gid.AddressNone)       // no interface of the GID's netdev's name has it
	AddressDefault    = AddressState(gid.AddressDefault)    // the same, but the kernel made the GID from a MAC
)

var addressStates = []string{AddressUnknown: "unknown", AddressPreferred: "preferred",
	AddressTemporary: "temporary", AddressDeprecated: "deprecated", AddressTentative: "tentative",
	AddressDuplicate: "duplicate", AddressNone: "none", AddressDefault: "default"}

// String returns a short name, and AddressState(17) for other values.
func (s AddressState) String() string { return flags.Name("AddressState", int64(s), addressStates) }

// Missing reports whether no interface has the address.
func (s AddressState) Missing() bool { return gid.Address(s).Missing() }

// MarshalText implements [encoding.TextMarshaler] with [AddressState.String].
func (s AddressState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] for what [AddressState.String] returns.
func (s *AddressState) UnmarshalText(b []byte) error {
	return parse(b, s, "AddressState", AddressUnknown, AddressDefault)
}

// LinkState is the state of the network interface of a GID.
type LinkState uint8

// The states of a network interface.
const (
	LinkUnknown = LinkState(gid.LinkUnknown) // or there is none
	LinkUp      = LinkState(gid.LinkUp)
	LinkDown    = LinkState(gid.LinkDown)
)

var linkStates = []string{LinkUnknown: "unknown", LinkUp: "up", LinkDown: "down"}

// String returns unknown, up or down, and LinkState(17) for other values.
func (s LinkState) String() string { return flags.Name("LinkState", int64(s), linkStates) }

// MarshalText implements [encoding.TextMarshaler] with [LinkState.String].
func (s LinkState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] for what [LinkState.String] returns.
func (s *LinkState) UnmarshalText(b []byte) error {
	return parse(b, s, "LinkState", LinkUnknown, LinkDown)
}

// text is a type whose values have names.
type text interface {
	~int32 | ~uint8
	String() string
}

// parse reads what String returns, for the values from first to last and for "Kind(17)".
func parse[T text](b []byte, to *T, kind string, first, last T) error {
	s := string(b)
	for v := first; v <= last; v++ {
		if v.String() == s {
			*to = v
			return nil
		}
	}
	var n int64
	if _, err := fmt.Sscanf(s, kind+"(%d)", &n); err == nil && fmt.Sprintf("%s(%d)", kind, int64(T(n))) == s {
		*to = T(n)
		return nil
	}
	return fmt.Errorf("%s %s is none of this package", kind, strconv.Quote(s[:min(len(s), 64)]))
}
