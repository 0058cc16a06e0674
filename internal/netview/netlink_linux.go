package netview

import (
	"cmp"
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/gid"
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
	rib, err := syscall.NetlinkRIB(unix.RTM_GETADDR, unix.AF_UNSPEC)
	if err != nil {
		return addresses{}, err
	}
	messages, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		return addresses{}, err
	}
	for i := range messages {
		m := &messages[i]
		if m.Header.Type != unix.RTM_NEWADDR || len(m.Data) < unix.SizeofIfAddrmsg {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			return addresses{}, err
		}
		index := int(binary.NativeEndian.Uint32(m.Data[4:]))
		if ip, s := newAddress(uint32(m.Data[2]), attrs); ip.IsValid() {
			a := address{names[index], ip}
			all.states[a], all.bits[a] = s, int(m.Data[1])
		}
	}
	return all, nil
}

// newAddress reads the attributes of RTM_NEWADDR; flags are the first eight.
func newAddress(flags uint32, attrs []syscall.NetlinkRouteAttr) (ip netip.Addr, _ gid.Address) {
	local := false
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.IFA_LOCAL:
			ip, local = netipAddr(a.Value), true
		case unix.IFA_ADDRESS: // the other end's, if there is a local one
			if !local {
				ip = netipAddr(a.Value)
			}
		case unix.IFA_FLAGS:
			if len(a.Value) >= 4 {
				flags = binary.NativeEndian.Uint32(a.Value)
			}
		}
	}
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
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return 0, source, err
	}
	defer unix.Close(fd)
	request := routeRequest(peer, index, flags)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, source, err
	}
	reply := make([]byte, 8192)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return 0, source, err
	}
	messages, err := syscall.ParseNetlinkMessage(reply[:n])
	if err != nil {
		return 0, source, err
	}
	for i := range messages {
		m := &messages[i]
		if m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4 {
			return 0, source, syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			return 0, source, err
		}
		for _, a := range attrs {
			switch {
			case a.Attr.Type == unix.RTA_OIF && len(a.Value) >= 4:
				oif = int(binary.NativeEndian.Uint32(a.Value))
			case a.Attr.Type == unix.RTA_PREFSRC:
				source = netipAddr(a.Value)
			}
		}
	}
	if oif == 0 {
		return 0, source, syscall.ENETUNREACH
	}
	return oif, source, nil
}

// routeRequest is RTM_GETROUTE.
func routeRequest(peer netip.Addr, index int, flags uint32) []byte {
	rt := make([]byte, unix.SizeofRtMsg)
	rt[0], rt[1] = unix.AF_INET6, byte(peer.BitLen())
	if peer.Is4() {
		rt[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(rt[8:], flags)
	attr := func(typ uint16, value []byte) {
		rt = binary.NativeEndian.AppendUint16(rt, uint16(unix.SizeofRtAttr+len(value)))
		rt = append(binary.NativeEndian.AppendUint16(rt, typ), value...)
	}
	attr(unix.RTA_DST, peer.AsSlice())
	if index > 0 {
		attr(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(index)))
	}
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(rt)))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_GETROUTE)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint64(b, 0) // no sequence: one reply
	return append(b, rt...)
}
