package netview

import (
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
			all.states[address{names[index], ip}] = s
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
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, routeRequest(peer), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return "", err
	}
	reply := make([]byte, 8192)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return "", err
	}
	messages, err := syscall.ParseNetlinkMessage(reply[:n])
	if err != nil {
		return "", err
	}
	for i := range messages {
		m := &messages[i]
		if m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4 {
			return "", syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			return "", err
		}
		for _, a := range attrs {
			if a.Attr.Type == unix.RTA_OIF && len(a.Value) >= 4 {
				l, err := net.InterfaceByIndex(int(binary.NativeEndian.Uint32(a.Value)))
				if err != nil {
					return "", err
				}
				return l.Name, nil
			}
		}
	}
	return "", syscall.ENETUNREACH
}

// routeRequest is RTM_GETROUTE.
func routeRequest(peer netip.Addr) []byte {
	rt := make([]byte, unix.SizeofRtMsg)
	rt[0], rt[1] = unix.AF_INET6, byte(peer.BitLen())
	if peer.Is4() {
		rt[0] = unix.AF_INET
	}
	attr := func(typ uint16, value []byte) {
		rt = binary.NativeEndian.AppendUint16(rt, uint16(unix.SizeofRtAttr+len(value)))
		rt = append(binary.NativeEndian.AppendUint16(rt, typ), value...)
	}
	attr(unix.RTA_DST, peer.AsSlice())
	if l, err := net.InterfaceByName(peer.Zone()); err == nil {
		attr(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(l.Index)))
	}
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(rt)))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_GETROUTE)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint64(b, 0) // no sequence: one reply
	return append(b, rt...)
}
