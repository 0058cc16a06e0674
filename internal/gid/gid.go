// Package gid classifies GIDs by kind of address, and chooses the one that a connection should use.
// It works on plain values and uses neither the library nor sysfs.
package gid

import (
	"cmp"
	"net/netip"
	"strconv"
)

// Scope is the kind of address that a GID represents.
type Scope uint8

// The scopes.
const (
	ScopeZero          Scope = 0 // an empty entry
	ScopeIPv4          Scope = 1 // IPv4-mapped
	ScopeIPv4LinkLocal Scope = 2 // IPv4-mapped of 169.254.0.0/16
	ScopeGlobal        Scope = 3 // any other IPv6, or an InfiniBand GID with its own prefix
	ScopeUniqueLocal   Scope = 4 // fc00::/7
	ScopeLinkLocal     Scope = 5 // fe80::/10, also the default prefix of InfiniBand
	ScopeNotUnicast    Scope = 6 // multicast, loopback, unspecified or broadcast address
	ScopeNoInterface   Scope = 7 // fe80:: without an interface id
)

var scopeNames = [...]string{"zero", "ipv4", "ipv4-link-local", "global", "unique-local", "link-local", "not-unicast",
	"no-interface-id"}

// String returns a short name.
func (s Scope) String() string {
	if int(s) < len(scopeNames) {
		return scopeNames[s]
	}
	return "Scope(" + strconv.Itoa(int(s)) + ")"
}

// ScopeOf returns the scope of a GID.
func ScopeOf(g [16]byte) Scope {
	a := netip.AddrFrom16(g)
	if g == [16]byte{} {
		return ScopeZero
	}
	if a.Is4In6() {
		a = a.Unmap()
		switch {
		case a.IsUnspecified(), a.IsLoopback(), a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			return ScopeNotUnicast
		case a.IsLinkLocalUnicast():
			return ScopeIPv4LinkLocal
		}
		return ScopeIPv4
	}
	switch {
	case a.IsMulticast(), a.IsLoopback():
		return ScopeNotUnicast
	case a.IsLinkLocalUnicast():
		if [8]byte(g[8:]) == [8]byte{} {
			return ScopeNoInterface
		}
		return ScopeLinkLocal
	case a.IsPrivate():
		return ScopeUniqueLocal
	}
	return ScopeGlobal
}

// Type is the protocol of a GID, with the values of C's enum ibv_gid_type.
type Type int32

// The types of GIDs. C has no negative ones. TypeUnknown means that the kernel did not report the type; it reports
// those of iWARP and usNIC, which do not connect by GIDs, as IB/RoCE v1.
const (
	TypeUSNIC   Type = -3
	TypeIWARP   Type = -2
	TypeUnknown Type = -1
	TypeIB      Type = 0
	TypeRoCEv1  Type = 1
	TypeRoCEv2  Type = 2
)

// typeNames are the names, from TypeUSNIC on.
var typeNames = [...]string{"usNIC", "iWARP", "unknown", "IB", "RoCEv1", "RoCEv2"}

// String returns IB, RoCEv1, RoCEv2, iWARP, usNIC or unknown.
func (t Type) String() string {
	if t < TypeUSNIC || t > TypeRoCEv2 {
		return "GIDType(" + strconv.Itoa(int(t)) + ")"
	}
	return typeNames[t-TypeUSNIC]
}

// Link is the state of a netdev.
type Link uint8

// The states of a netdev.
const (
	LinkUnknown Link = 0 // unknown, or there is no netdev
	LinkUp      Link = 1
	LinkDown    Link = 2
)

// Address is the state of the IP address of a GID in this network namespace.
type Address uint8

// The states of an address, those of RFC 4862 and RFC 8981.
const (
	AddressUnknown    Address = 0 // or the GID is no IP address
	AddressPreferred  Address = 1
	AddressTemporary  Address = 2 // it expires in days, and connections with it
	AddressDeprecated Address = 3 // for connections that have begun
	AddressTentative  Address = 4 // another host may have it
	AddressDuplicate  Address = 5 // another host has it
	AddressNone       Address = 6 // no interface of the GID's netdev's name has it
	AddressDefault    Address = 7 // the same, but the kernel made the GID from the MAC of the netdev
)

// Missing reports whether no interface has the address.
func (a Address) Missing() bool { return a == AddressNone || a == AddressDefault }

var unusable = map[Address]string{
	AddressTentative: "the address is tentative: it is not known yet whether another host has it",
	AddressDuplicate: "another host has this address",
	AddressNone:      NotHere,
	AddressDefault:   NotHere + ": the kernel made the GID from the interface's MAC",
}

// MaxIndex is the highest index that the verbs can name: C has a byte for it. Tables may be longer.
const MaxIndex = 255

// NotHere is why an entry of another network namespace cannot be used.
const NotHere = "no interface here has this address"

// Candidate holds the properties of a GID that the choice depends on.
type Candidate struct {
	GID        [16]byte
	Index      int
	Type       Type
	PortActive bool
	Netdev     Link
	Address    Address
	Above      string // the kind of a netdev that lies above the device's own, as "VLAN"; empty for that and its bond
	OffRoute   bool   // the peer is known, and is not reached by the netdev
}

// Unusable returns why no connection can use the GID, "" if one can.
func Unusable(c Candidate) string {
	switch c.Type {
	case TypeIWARP:
		return "iWARP connects by IP addresses (rdma_cm), not by GIDs"
	case TypeUSNIC:
		return "usNIC has no connections by GIDs"
	}
	switch ScopeOf(c.GID) {
	case ScopeZero:
		return "empty entry"
	case ScopeNotUnicast:
		return "not a unicast address of a network"
	case ScopeNoInterface:
		return "link-local without an interface id"
	}
	if why := unusable[c.Address]; why != "" || c.Index <= MaxIndex {
		return why
	}
	return "index above " + strconv.Itoa(MaxIndex) + ", the highest that verbs can name"
}

// Down returns why the GID carries no traffic now, "" if it does.
func Down(c Candidate) string {
	switch {
	case !c.PortActive:
		return "port is not ACTIVE"
	case c.Netdev == LinkDown:
		return "netdev is down"
	}
	return ""
}

// criteria are applied in this order. The first that distinguishes two GIDs decides.
var criteria = []struct {
	rank func(Candidate) int
	why  func(lost Candidate) string
}{
	{func(c Candidate) int { return btoi(Unusable(c) == "") }, Unusable},
	{func(c Candidate) int { return btoi(c.PortActive) }, Down},
	{netdevRank, func(c Candidate) string {
		if c.Netdev == LinkDown {
			return "netdev is down"
		}
		return "state of the netdev is not known"
	}},
	{func(c Candidate) int { return typeRanks[c.Type] }, func(c Candidate) string {
		switch c.Type {
		case TypeRoCEv2:
			return "RoCE v2, InfiniBand is preferred"
		case TypeRoCEv1:
			return "RoCE v1, which no router forwards"
		}
		return "type is not known"
	}},
	{scopeRank, func(c Candidate) string {
		switch ScopeOf(c.GID) {
		case ScopeLinkLocal, ScopeIPv4LinkLocal:
			return "link-local, which no router forwards"
		}
		return "IPv6, IPv4 is preferred"
	}},
	{func(c Candidate) int { return addressRanks[c.Address] }, func(c Candidate) string {
		if c.Address == AddressDeprecated {
			return "the address is deprecated"
		}
		return "the address is temporary"
	}},
	{func(c Candidate) int { return btoi(!c.OffRoute) }, func(Candidate) string {
		return "the peer is reached by another interface"
	}},
	{func(c Candidate) int { return btoi(c.Above == "") }, func(c Candidate) string { return "on a " + c.Above }},
	{func(c Candidate) int { return -c.Index }, func(Candidate) string { return "higher index" }},
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func netdevRank(c Candidate) int {
	switch {
	case c.Netdev == LinkDown:
		return 0
	case c.Netdev == LinkUp, c.Type == TypeIB: // InfiniBand needs no netdev
		return 2
	}
	return 1
}

// The ranks of what is better or worse than the others, whose rank is 0.
var (
	typeRanks    = map[Type]int{TypeIB: 3, TypeRoCEv2: 2, TypeRoCEv1: 1}
	scopeRanks   = map[Scope]int{ScopeIPv4: 3, ScopeGlobal: 2, ScopeUniqueLocal: 2, ScopeIPv4LinkLocal: 1}
	addressRanks = map[Address]int{AddressTemporary: -1, AddressDeprecated: -2}
)

func scopeRank(c Candidate) int {
	if c.Type == TypeIB {
		return 0 // InfiniBand GIDs are not IP addresses: the index decides
	}
	return scopeRanks[ScopeOf(c.GID)]
}

// Compare returns which GID to prefer: order is positive for a, negative for b, and 0 if they are
// equally good. why names the disadvantage of the other.
//
// In this order: usable at all; port ACTIVE; netdev up; InfiniBand, RoCE v2, RoCE v1; IPv4, other routable, link-local;
// address neither deprecated nor temporary; the route's netdev; the device's own netdev or its bond; lower index.
func Compare(a, b Candidate) (order int, why string) {
	for _, k := range criteria {
		switch cmp.Compare(k.rank(a), k.rank(b)) {
		case 1:
			return 1, k.why(b)
		case -1:
			return -1, k.why(a)
		}
	}
	return 0, ""
}

// Best returns the index in c of the GID to use, the first of equals, or -1 if none is usable. The
// GID may be down: see [Down].
func Best(c []Candidate) int {
	best := -1
	for i := range c {
		if Unusable(c[i]) != "" {
			continue
		}
		if best < 0 {
			best = i
		} else if o, _ := Compare(c[i], c[best]); o > 0 {
			best = i
		}
	}
	return best
}

// Why returns why c[i] was not chosen; best is the index of the chosen one, -1 for none. It is "" if there is no reason
// against c[i].
func Why(c []Candidate, best, i int) string {
	switch {
	case Unusable(c[i]) != "":
		return Unusable(c[i])
	case Down(c[i]) != "":
		return Down(c[i])
	case best < 0 || i == best:
		return ""
	}
	if _, why := Compare(c[best], c[i]); why != "" {
		return why
	}
	return "as good, but later in the list"
}

// Fills names the entries that an empty table needs.
const Fills = "each address of a port's interface makes an entry (ip addr add), and on InfiniBand the subnet manager"

// None returns why none of c can be used: the most frequent reason.
func None(c []Candidate) string {
	if len(c) == 0 {
		return "the GID table is empty"
	}
	count, most := map[string]int{}, ""
	for i := range c {
		why := Unusable(c[i])
		if why == "" {
			why = Down(c[i])
		}
		if count[why]++; most == "" || count[why] > count[most] {
			most = why
		}
	}
	return most
}
