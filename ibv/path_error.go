package ibv

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// PathError reports an address that the kernel refused for a queue pair or an address handle:
// there is no route, no neighbour, or the two GIDs do not fit together.
type PathError struct {
	Device    string
	Port      uint8
	SGIDIndex int     // index of the local GID
	Local     GID     // the GID at that index; zero if empty or unknown
	LocalType GIDType // its protocol
	Netdev    string  // its network interface, empty on InfiniBand
	Remote    GID
	Errno     syscall.Errno
}

func (e *PathError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no path from %s port %d, sgid index %d (", e.Device, e.Port, e.SGIDIndex)
	if e.Local.IsZero() {
		b.WriteString("empty")
	} else {
		fmt.Fprintf(&b, "%v, %v", e.Local, e.LocalType)
		if e.Netdev != "" {
			b.WriteString(", " + e.Netdev)
		}
	}
	fmt.Fprintf(&b, "), to %v: %s", e.Remote, e.Reason())
	if e.Errno != 0 {
		b.WriteString(": " + e.Errno.Error())
	}
	return b.String()
}

// Unwrap returns Errno.
func (e *PathError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// Reason returns the likely reason, in a sentence. It is inferred from the two GIDs and the
// errno; the kernel reports no more.
func (e *PathError) Reason() string {
	if s := e.misfit(); s != "" {
		return s
	}
	return e.reason()
}

// pathErrno reports whether err is one that the kernel returns for a bad address.
func pathErrno(err error) bool {
	for _, e := range []syscall.Errno{syscall.ETIMEDOUT, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EINVAL,
		syscall.ENODEV, syscall.EADDRNOTAVAIL, syscall.ENETDOWN, errNoData} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// misfit returns what is wrong with the two GIDs, "" if they fit together.
func (e *PathError) misfit() string {
	local, remote := e.Local, e.Remote
	switch {
	case local.IsZero():
		return "that entry of the GID table is empty or could not be read; choose another index from show_gids"
	case e.LocalType == GIDTypeIB && remote.IsIPv4Mapped():
		return "the local port is InfiniBand and the peer's GID belongs to a RoCE port"
	case e.LocalType == GIDTypeIB && !remote.IsZero() && !remote.IsMulticast() &&
		local.SubnetPrefix() != remote.SubnetPrefix():
		return "the GIDs are of different InfiniBand subnets; that needs an InfiniBand router, and the LID of the " +
			"router"
	case e.LocalType == GIDTypeIB:
		return ""
	case remote.IsZero():
		return "the peer's GID is zero: its endpoint was not filled in, or it relies on LIDs, which RoCE does not have"
	case remote.IsMulticast():
		return "the peer's GID is a multicast group, which only UD address handles can reach"
	case local.IsIPv4Mapped() != remote.IsIPv4Mapped():
		return fmt.Sprintf("the local GID is %s and the peer's is %s; use indexes of one address family on both sides",
			family(local), family(remote))
	case local.IsLinkLocal() && !remote.IsLinkLocal():
		return "the local GID is link-local and the peer's is not; use the index of a routable address"
	case !local.IsLinkLocal() && remote.IsLinkLocal():
		return "the peer's GID is link-local and the local one is not; the peer should offer a routable address"
	case e.Netdev == "":
		return "the local GID has no network interface: it was removed, or belongs to another network namespace"
	}
	return ""
}

// reason explains the errno for two GIDs that fit together.
func (e *PathError) reason() string {
	netdev, remote, errno := e.Netdev, e.Remote, e.Errno
	switch {
	case e.LocalType == GIDTypeIB && errno == syscall.ETIMEDOUT:
		return "the subnet manager does not answer"
	case e.LocalType == GIDTypeIB:
		return "check the port number and the peer's LID, and whether the path MTU is within the port's active MTU"
	case errno == syscall.ENETDOWN:
		return netdev + " is down; ip link set " + netdev + " up"
	case e.Local == remote:
		return "the peer's GID is the local one: a loop through one port, which needs " + netdev +
			" to be up and a device that supports loopback"
	}
	addr := remote.Addr().String()
	switch errno {
	case syscall.ENETUNREACH, syscall.EADDRNOTAVAIL:
		if e.LocalType == GIDTypeRoCEv1 {
			return "RoCE v1 is not routed and the peer is not on the LAN of " + netdev + "; use an index of RoCE v2"
		}
		return "no route to " + addr + " through " + netdev + "; see ip route get " + addr + " oif " + netdev
	case syscall.ETIMEDOUT, syscall.EHOSTUNREACH:
		proto := "neighbour discovery"
		if remote.IsIPv4Mapped() {
			proto = "ARP"
		}
		return fmt.Sprintf("no answer to %s for %s on %s: the peer is down, on another LAN or VLAN, or its address "+
			"has changed; "+
			"see ip neigh show dev %s, and ping -I %s %s", proto, addr, netdev, netdev, netdev, addr)
	case syscall.ENODEV:
		return "no interface " + netdev + " with that address is in this network namespace, or it has gone; " +
			"show_gids --why names the indexes that can be used"
	}
	s := "the two GIDs fit together: check the port number, whether " + netdev + " is up and whether the path MTU is " +
		"within the port's active MTU"
	if e.LocalType == GIDTypeRoCEv1 {
		s += "; RoCE v1 needs a peer that uses v1"
	}
	return s
}

func family(g GID) string {
	if g.IsIPv4Mapped() {
		return "IPv4"
	}
	return "IPv6"
}
