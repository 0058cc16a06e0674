package netview

import (
	"cmp"
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/netlink"
)

// readAddresses asks the kernel for the addresses of this network namespace.
func readAddresses() (addresses, error) {
	links, err := net.Interfaces()
	if err != nil {
		return addresses{}, err
	}
	all, names := newAddresses(), map[int]string{}
	for _, l := range links {
		names[l.Index], all.macs[l.Name] = l.Name, l.HardwareAddr.String()
	}
	return netlink.With(unix.NETLINK_ROUTE, func(ask netlink.Ask) (addresses, error) {
		question := make([]byte, unix.SizeofIfAddrmsg)
		err := ask(unix.RTM_GETADDR, netlink.FlagDump, question, func(typ uint16, m []byte) error {
			if typ != unix.RTM_NEWADDR || len(m) < unix.SizeofIfAddrmsg {
				return nil
			}
			attrs, err := netlink.Attrs(m[unix.SizeofIfAddrmsg:])
			if err != nil {
				return err
			}
			if ip, s := newAddress(uint32(m[2]), attrs); ip.IsValid() {
				a := address{names[int(binary.NativeEndian.Uint32(m[4:]))], ip}
				all.states[a], all.bits[a] = s, int(m[1])
			}
			return nil
		})
		if err != nil {
			return addresses{}, err
		}
		return all, nil
	})
}

// newAddress reads the attributes of RTM_NEWADDR; flags are the first eight.
func newAddress(flags uint32, attrs map[uint16][]byte) (netip.Addr, gid.Address) {
	own, ok := attrs[unix.IFA_LOCAL]
	if !ok {
		own = attrs[unix.IFA_ADDRESS] // the other end's, if there is a local one
	}
	if f := attrs[unix.IFA_FLAGS]; len(f) >= 4 {
		flags = binary.NativeEndian.Uint32(f)
	}
	ip := netipAddr(own)
	return ip, state(ip, flags)
}

func netipAddr(b []byte) netip.Addr {
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

// Route returns the interface by which this host reaches a peer. It sends nothing.
func Route(peer netip.Addr) (netdev string, err error) {
	index := 0
	if l, err := net.InterfaceByName(peer.Zone()); err == nil {
		index = l.Index
	}
	index, _, err = route(peer, index, 0)
	if err != nil {
		return "", err
	}
	l, err := net.InterfaceByIndex(index)
	if err != nil {
		return "", err
	}
	return l.Name, nil
}

// Source returns the address of an interface from which it reaches a peer. Without a route by the interface the kernel
// takes a peer of IPv4 for a neighbour; routed excludes that. It sends nothing.
func Source(peer netip.Addr, netdev string, routed bool) (source netip.Addr, err error) {
	l, err := net.InterfaceByName(netdev)
	if err != nil {
		return source, err
	}
	if routed {
		if _, _, err := route(peer, l.Index, unix.RTM_F_FIB_MATCH); err != nil {
			return source, err
		}
	}
	if _, source, err = route(peer, l.Index, 0); err != nil {
		return source, err
	}
	own, err := l.Addrs()
	for _, a := range own {
		if p, ok := a.(*net.IPNet); ok && p.IP.Equal(source.AsSlice()) {
			return source, nil
		}
	}
	return source, cmp.Or(err, error(syscall.EADDRNOTAVAIL)) // it has none of this family
}

// route asks for the route to a peer, by an interface if index is not 0.
func route(peer netip.Addr, index int, flags uint32) (oif int, source netip.Addr, err error) {
	rt := make([]byte, unix.SizeofRtMsg)
	rt[0], rt[1] = unix.AF_INET6, byte(peer.BitLen())
	if peer.Is4() {
		rt[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(rt[8:], flags)
	rt = append(rt, netlink.Attr(unix.RTA_DST, peer.AsSlice())...)
	if index > 0 {
		rt = append(rt, netlink.Attr(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(index)))...)
	}
	oif, err = netlink.With(unix.NETLINK_ROUTE, func(ask netlink.Ask) (oif int, err error) {
		err = ask(unix.RTM_GETROUTE, 0, rt, func(typ uint16, m []byte) error {
			if typ != unix.RTM_NEWROUTE || len(m) < unix.SizeofRtMsg {
				return syscall.EINVAL
			}
			attrs, err := netlink.Attrs(m[unix.SizeofRtMsg:])
			if b := attrs[unix.RTA_OIF]; len(b) >= 4 {
				oif = int(binary.NativeEndian.Uint32(b))
			}
			source = netipAddr(attrs[unix.RTA_PREFSRC])
			return err
		})
		return oif, err
	})
	if err == nil && oif == 0 {
		err = syscall.ENETUNREACH
	}
	return oif, source, err
}
