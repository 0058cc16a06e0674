package netview

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// address is an address of an interface.
type address struct {
	netdev string
	ip     netip.Addr
}

// addresses are those of a network namespace.
type addresses struct {
	states map[address]gid.Address
	bits   map[address]int   // the lengths of their networks' prefixes
	macs   map[string]string // by interface
}

func newAddresses() addresses {
	return addresses{states: map[address]gid.Address{}, bits: map[address]int{}, macs: map[string]string{}}
}

// Flags of an address.
// C: IFA_F_* of linux/if_addr.h.
const (
	flagTemporary  = 0x01 // of IPv6; IFA_F_SECONDARY of IPv4
	flagDADFailed  = 0x08
	flagDeprecated = 0x20
	flagTentative  = 0x40
	flagOptimistic = 0x04
)

// state returns the state of an address by its flags.
func state(ip netip.Addr, flags uint32) gid.Address {
	has := func(f uint32) bool { return flags&f != 0 }
	switch {
	case has(flagDADFailed):
		return gid.AddressDuplicate
	case has(flagTentative) && !has(flagOptimistic):
		return gid.AddressTentative
	case has(flagDeprecated):
		return gid.AddressDeprecated
	case has(flagTemporary) && ip.Is6():
		return gid.AddressTemporary
	}
	return gid.AddressPreferred
}

// parseAddresses reads the output of ip -o addr: "2: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\ ...".
func parseAddresses(text string) addresses {
	names := map[string]uint32{"dadfailed": flagDADFailed, "tentative": flagTentative, "deprecated": flagDeprecated,
		"temporary": flagTemporary, "optimistic": flagOptimistic}
	all := newAddresses()
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) < 4 || !slices.Contains([]string{"inet", "inet6"}, w[2]) {
			continue
		}
		host, length, _ := strings.Cut(w[3], "/")
		ip, err := netip.ParseAddr(host)
		if err != nil {
			continue
		}
		var flags uint32
		for _, word := range w[4:] {
			flags |= names[word]
		}
		a := address{w[1], ip}
		all.states[a] = state(ip, flags)
		if n, err := strconv.Atoi(length); err == nil {
			all.bits[a] = n
		}
	}
	return all
}

// linkLocal returns the address of RFC 4291, appendix A, for a MAC; the zero GID for another text.
func linkLocal(mac string) (g sysfs.GID) {
	b, err := net.ParseMAC(mac)
	if err != nil || len(b) != 6 {
		return g
	}
	return sysfs.GID{0: 0xfe, 1: 0x80, 8: b[0] ^ 2, 9: b[1], 10: b[2], 11: 0xff, 12: 0xfe, 13: b[3], 14: b[4], 15: b[5]}
}
