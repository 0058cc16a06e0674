package ibv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// FlowLabelUDPSport returns the UDP source port of RoCE v2 packets with this flow label.
//
// C: ibv_flow_label_to_udp_sport(3).
func FlowLabelUDPSport(label uint32) uint16 {
	return uint16(label&0x3fff^label&0xfc000>>14) | 0xc000
}

// AddressOfWC returns the address of the sender of a datagram, for a reply: wc is the completion of a receive on the
// port, grh the first 40 bytes of its buffer. With WCGRH in wc.Flags, as always on RoCE, the GRH names the sender's
// GID, and the GID of this port that it sent to, whose index is looked up.
//
// C: ibv_init_ah_from_wc(3).
func (d *Device) AddressOfWC(port uint8, wc *WC, grh []byte) (*AHAttr, error) {
	const op = "address of wc"
	fail := func(err error) (*AHAttr, error) { return nil, &OpError{Op: op, Object: d.Name(), Err: err} }
	switch {
	case wc == nil:
		return fail(&ArgError{Arg: "wc", Got: "nil", Want: "the completion of a receive"})
	case wc.Status != WCSuccess || !wc.Opcode.IsRecv():
		return fail(&ArgError{Arg: "wc", Got: fmt.Sprintf("%v, %v", wc.Opcode, wc.Status),
			Want: "the completion of a receive that succeeded"})
	}
	a := &AHAttr{Port: port, DLID: wc.SLID, SL: wc.SL, SrcPathBits: wc.DLIDPathBits}
	if wc.Flags&WCGRH == 0 {
		return a, nil
	}
	h, err := ParseGRH(grh)
	if err != nil {
		return fail(err)
	}
	table, err := d.GIDTable()
	if err != nil {
		return nil, err
	}
	a.Global, a.DGID, a.FlowLabel, a.HopLimit, a.TrafficClass = true, h.From, h.FlowLabel, h.HopLimit, h.TrafficClass
	for _, e := range table {
		if e.Port == port && e.GID == h.To && (e.Type == GIDTypeRoCEv2) == h.RoCEv2 {
			if e.Index > 255 {
				return fail(&LimitError{What: gidEntry, Asked: uint64(e.Index), Limit: 255, Where: "an address"})
			}
			a.SGIDIndex = uint8(e.Index)
			return a, nil
		}
	}
	return fail(fmt.Errorf("port %d has no GID %v, to which the message was sent: %w", port, h.To, ErrNotFound))
}

// CreateAHFromWC is CreateAH with the address of AddressOfWC.
//
// C: ibv_create_ah_from_wc(3).
func (pd *PD) CreateAHFromWC(port uint8, wc *WC, grh []byte) (*AH, error) {
	a, err := pd.dev.AddressOfWC(port, wc, grh)
	if err != nil {
		return nil, err
	}
	return pd.CreateAH(a)
}

// GRH is the routing information in the header before a datagram.
type GRH struct {
	From, To     GID
	RoCEv2       bool // an IP header, and not a GRH of InfiniBand or RoCE v1
	FlowLabel    uint32
	HopLimit     uint8
	TrafficClass uint8
}

// Protocols that follow the header: the transport header of InfiniBand in a GRH, UDP in an IP header.
const (
	nextIBA = 27
	nextUDP = 17
)

// ParseGRH reads the 40 bytes before a datagram: an IPv6 header, a GRH, which has the same form, or 20
// bytes of nothing and an IPv4 header. The first bytes may be left from before, so an IPv4 header with
// the right checksum comes first.
func ParseGRH(b []byte) (GRH, error) {
	if len(b) < 40 {
		return GRH{}, &ArgError{Arg: "grh", Got: fmt.Sprintf("%d bytes", len(b)),
			Want: "the 40 bytes before the message"}
	}
	ip4 := b[20:40]
	isIP6, isIP4 := b[0]>>4 == 6, ip4[0]>>4 == 4
	switch {
	case isIP4 && (!isIP6 || ip4[0] == 0x45 && checksum(ip4) == 0):
		g := GRH{RoCEv2: true, HopLimit: ip4[8], TrafficClass: ip4[1]}
		g.From = mapped([4]byte(ip4[12:16]))
		g.To = mapped([4]byte(ip4[16:20]))
		return g, nil
	case !isIP6:
		return GRH{}, &ArgError{Arg: "grh", Got: fmt.Sprintf("IP versions %d and %d", b[0]>>4, ip4[0]>>4),
			Want: "6 in the first byte, or 4 in byte 20"}
	}
	flow := binary.BigEndian.Uint32(b)
	g := GRH{From: GID(b[8:24]), To: GID(b[24:40]), FlowLabel: flow & 0xfffff, TrafficClass: uint8(flow >> 20),
		HopLimit: b[7]}
	switch b[6] {
	case nextUDP:
		g.RoCEv2 = true
	case nextIBA: // InfiniBand, or RoCE v1
	default:
		return GRH{}, &ArgError{Arg: "grh", Got: fmt.Sprintf("next header %d", b[6]),
			Want: "27 (InfiniBand, RoCE v1) or 17 (RoCE v2)"}
	}
	return g, nil
}

func mapped(a [4]byte) GID { return GID(netip.AddrFrom4(a).As16()) }

// checksum is the Internet checksum, 0 if it is right.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	sum = sum&0xffff + sum>>16
	return ^uint16(sum + sum>>16)
}

// ResolveMAC returns the MAC address to which packets for an address go on Ethernet, and the VLAN of
// the source GID, -1 without. It asks the kernel's tables of routes and neighbours, which can take
// three seconds. CreateAH does this automatically.
//
// C: ibv_resolve_eth_l2_from_gid(3).
func (d *Device) ResolveMAC(attr *AHAttr) (mac net.HardwareAddr, vlan int, err error) {
	const op = "resolve mac"
	if attr == nil {
		return nil, 0, &OpError{Op: op, Object: d.Name(), Err: &ArgError{Arg: "attr", Got: "nil", Want: "an address"}}
	}
	if err := attr.check(); err != nil {
		return nil, 0, &OpError{Op: op, Object: d.Name(), Err: err}
	}
	if err := d.enter(op); err != nil {
		return nil, 0, err
	}
	c := attr.toC()
	m, vid, err := d.v.ResolveEthL2FromGID(d.handle, &c)
	d.leave() // explainPath enters again
	if err != nil {
		var errno syscall.Errno
		if errors.As(err, &errno) && pathErrno(err) {
			err = d.explainPath(err, attr)
		}
		return nil, 0, &OpError{Op: op, Object: d.Name(), Err: err}
	}
	if vlan = int(vid); vid > 4095 {
		vlan = -1
	}
	return m[:], vlan, nil
}
