package datagram

import (
	"fmt"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
)

// Address is a queue pair and the path to it.
type Address struct {
	AP   netip.AddrPort // port 0
	Attr ibv.AHAttr
	QPN  uint32
}

// String returns the host and the queue pair.
func (a *Address) String() string { return fmt.Sprintf("%v qp %#x", a.AP.Addr(), a.QPN) }

// source identifies the queue pair that has sent a datagram. The adapters state it: a program cannot choose it.
type source struct {
	gid ibv.GID
	lid uint16 // without a GRH, on InfiniBand
	qpn uint32
}

func (a *Address) source() source {
	s := source{gid: a.Attr.DGID, qpn: a.QPN}
	if !a.Attr.Global {
		s.lid = a.Attr.DLID
	}
	return s
}

// GRHLen is the space for the header in front of a datagram.
const GRHLen = 40

// hops is how many routers a datagram may pass, as many as the kernel allows.
const hops = 64

// Port is the place of a socket on a device. It does not change once the socket is open.
type Port struct {
	Local netip.AddrPort
	Num   uint8
	MTU   int
	SGID  map[bool]uint8 // index of the GID, by whether it is RoCE v2's
}

// From returns the address of the queue pair that has sent a datagram.
func (p *Port) From(wc *ibv.WC, header []byte) (a Address, err error) {
	a = Address{QPN: wc.SrcQPN, Attr: ibv.AHAttr{Port: p.Num, DLID: wc.SLID, SL: wc.SL, SrcPathBits: wc.DLIDPathBits}}
	if wc.Flags&ibv.WCGRH == 0 {
		return a, nil
	}
	h, err := ibv.ParseGRH(header)
	if err != nil {
		return a, err
	}
	a.Attr.Global, a.Attr.DGID, a.Attr.FlowLabel, a.Attr.TrafficClass = true, h.From, h.FlowLabel, h.TrafficClass
	a.Attr.SGIDIndex, a.Attr.HopLimit = p.SGID[h.RoCEv2], hops
	a.AP = netip.AddrPortFrom(p.Host(h.From.Addr()), 0)
	return a, nil
}

// Host returns an address as names have it: without a prefix for IPv4, and one of link-local scope with the zone of
// this socket, whose link it is on. rdma_cm omits the zone.
func (p *Port) Host(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.IsLinkLocalUnicast() && a.Zone() == "" {
		a = a.WithZone(p.Local.Addr().Zone())
	}
	return a
}
