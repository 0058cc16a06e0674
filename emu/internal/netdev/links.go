//go:build linux

package netdev

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// Kinds are the interfaces of the kernel's that only exist, the best first: not every kernel has every one. Only a
// bridge answers ethtool and has a greatest MTU, but it has no carrier.
var Kinds = []string{"dummy", "ifb", "bridge"}

const genModeNone = 1 // IN6_ADDR_GEN_MODE_NONE

// loIndex is the loopback interface's in every namespace.
const loIndex = 1

// Links are the interfaces of a network namespace. It is safe for concurrent use.
type Links struct {
	mu    sync.Mutex
	fd    int
	seq   uint32
	index map[string]int
	kinds []string // of interfaces, to be tried in order

	changes syscall.RawConn // a socket that hears of them; nil for none
	addrs   map[place]bool  // as Changes told last
}

// New makes the interfaces of c's ports, through a socket that was opened in the namespace with the right to do so.
// They are of the first of these kinds that the kernel has. fd stays the caller's.
func New(fd int, c *config.Config, kinds []string) (*Links, error) {
	l := &Links{fd: fd, index: map[string]int{"lo": loIndex}, kinds: kinds}
	if err := l.change(loIndex, unix.IFF_UP, unix.IFF_UP, nil); err != nil {
		return nil, fmt.Errorf("interface lo: %w", err)
	}
	for _, n := range c.Netdevs() {
		if err := l.add(&n); err != nil {
			return nil, fmt.Errorf("interface %s: %w", n.Name, err)
		}
	}
	for i := range c.Devices {
		for j := range c.Devices[i].Ports {
			p := &c.Devices[i].Ports[j]
			for _, g := range p.GIDs {
				l.SetGID(g, true)
			}
			if p.State != config.PortActive && p.Netdev != "" {
				l.SetCarrier(p.Netdev, false)
			}
		}
	}
	return l, nil
}

func (l *Links) exchange(m *Message, got func(typ uint16, body []byte)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	return exchange(l.fd, l.seq, *m, got)
}

// info is struct ifinfomsg.
func info(index, flags, change int) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	binary.NativeEndian.PutUint32(b[8:], uint32(flags))
	binary.NativeEndian.PutUint32(b[12:], uint32(change))
	return b
}

func (l *Links) change(index, flags, mask int, more func(*Message)) error {
	m := newMessage(unix.RTM_NEWLINK, unix.NLM_F_ACK, info(index, flags, mask))
	if more != nil {
		more(m)
	}
	return l.exchange(m, nil)
}

// add makes an interface and takes it up.
func (l *Links) add(n *config.Netdev) error {
	if _, ok := l.index[n.Name]; ok {
		return nil // lo
	}
	var err error
	try := l.kinds
	if n.VLAN != 0 {
		// where the kernel knows none, one without a tag will do: nothing is sent
		try = append([]string{"vlan"}, l.kinds...)
	}
	for _, kind := range try {
		m := newMessage(unix.RTM_NEWLINK, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, info(n.IfIndex, 0, 0))
		m.Text(unix.IFLA_IFNAME, n.Name)
		m.Attr(unix.IFLA_ADDRESS, n.MAC[:])
		m.U32(unix.IFLA_MTU, uint32(n.MTU))
		if kind == "vlan" {
			m.U32(unix.IFLA_LINK, uint32(l.index[n.Parent]))
		}
		m.Nest(unix.IFLA_LINKINFO, func() {
			m.Text(unix.IFLA_INFO_KIND, kind)
			if kind == "vlan" {
				m.Nest(unix.IFLA_INFO_DATA, func() {
					m.Attr(unix.IFLA_VLAN_ID, binary.NativeEndian.AppendUint16(nil, uint16(n.VLAN)))
				})
			}
		})
		if err = l.exchange(m, nil); err != unix.EOPNOTSUPP {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("make one of the kinds %v: %w", l.kinds, err)
	}
	l.index[n.Name] = n.IfIndex
	// The link-local address is one of the GID table's.
	_ = l.change(n.IfIndex, 0, 0, func(m *Message) {
		m.Nest(unix.IFLA_AF_SPEC, func() {
			m.Nest(unix.AF_INET6, func() { m.Attr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{genModeNone}) })
		})
	})
	return l.change(n.IfIndex, unix.IFF_UP|unix.IFF_MULTICAST, unix.IFF_UP|unix.IFF_MULTICAST|unix.IFF_NOARP, nil)
}

// SetGID gives an interface the address of an entry of a GID table, or takes it away. What cannot be the address of an
// interface stays out.
func (l *Links) SetGID(g config.GID, add bool) {
	ip := g.GID.IP()
	index := l.Index(g.Netdev)
	if index == 0 || !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() {
		return
	}
	b := make([]byte, unix.SizeofIfAddrmsg)
	b[0], b[1], b[3] = unix.AF_INET6, 64, unix.RT_SCOPE_UNIVERSE
	switch {
	case ip.Is4():
		b[0], b[1] = unix.AF_INET, 24
	case ip.IsLinkLocalUnicast():
		b[3] = unix.RT_SCOPE_LINK
	}
	if ip.Is6() {
		b[2] = unix.IFA_F_NODAD // there is no kernel to ask
	}
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	typ, flags := unix.RTM_DELADDR, unix.NLM_F_ACK
	if add {
		typ, flags = unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE
	}
	m := newMessage(typ, flags, b)
	m.Attr(unix.IFA_LOCAL, ip.AsSlice())
	m.Attr(unix.IFA_ADDRESS, ip.AsSlice())
	_ = l.exchange(m, nil)
}

// SetCarrier shows that a port went up or down, where the kind of interface can.
func (l *Links) SetCarrier(name string, up bool) {
	index := l.Index(name)
	if index == 0 {
		return
	}
	v := byte(0)
	if up {
		v = 1
	}
	_ = l.change(index, 0, 0, func(m *Message) { m.Attr(unix.IFLA_CARRIER, []byte{v}) })
}

// Remove takes away the interfaces of a device's ports, and with them their addresses.
func (l *Links) Remove(c *config.Config, device int) {
	for _, n := range c.Netdevs() {
		if n.Device == device && !n.Real && l.Index(n.Name) != 0 {
			_ = l.exchange(newMessage(unix.RTM_DELLINK, unix.NLM_F_ACK, info(n.IfIndex, 0, 0)), nil)
		}
	}
}

// Index returns an interface's number, or 0 if it is not one of ours.
func (l *Links) Index(name string) int { return l.index[name] }

// Addrs lists the addresses of all interfaces of the namespace, those that the program added too.
func (l *Links) Addrs() ([]netip.Addr, error) {
	var out []netip.Addr
	err := l.eachAddr(func(_ int, ip netip.Addr) { out = append(out, ip) })
	return out, err
}

// eachAddr calls f for each address of the namespace, with the number of its interface.
func (l *Links) eachAddr(f func(index int, ip netip.Addr)) error {
	m := newMessage(unix.RTM_GETADDR, unix.NLM_F_DUMP, make([]byte, unix.SizeofIfAddrmsg))
	return l.exchange(m, func(typ uint16, body []byte) {
		if index, ip := addr(body); typ == unix.RTM_NEWADDR && ip.IsValid() {
			f(index, ip)
		}
	})
}

// addr reads an address, and the number of its interface.
func addr(body []byte) (index int, ip netip.Addr) {
	if len(body) < unix.SizeofIfAddrmsg {
		return 0, ip
	}
	Attrs(body[unix.SizeofIfAddrmsg:], func(typ uint16, value []byte) {
		if typ == unix.IFA_LOCAL || typ == unix.IFA_ADDRESS && !ip.IsValid() {
			ip, _ = netip.AddrFromSlice(value)
		}
	})
	return int(binary.NativeEndian.Uint32(body[4:])), ip
}
