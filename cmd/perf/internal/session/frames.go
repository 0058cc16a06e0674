package session

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/payload"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// frames is the way of Ethernet frames: the ends do not connect, and a steering rule selects the frames that arrive.
type frames struct {
	*Session
	flows []*ibv.Flow
}

func (s *frames) meet(func(port int)) error {
	p := &s.plan
	if err := s.openDevice(p.Link.Device, p.Link.IBPort); err != nil {
		return err
	}
	if s.port.LinkLayer != ibv.LinkEthernet {
		return fmt.Errorf("connection type (-c) RawEth: %s port %d is %v, not Ethernet", s.dev.Name(), p.Link.IBPort,
			s.port.LinkLayer)
	}
	if mtu := s.netdevMTU(); mtu > 0 && plan.FramePayload(p.Load.Size) > mtu {
		return fmt.Errorf("size (-s) %d > %d, the longest frame with the mtu %d of %s port %d", p.Load.Size,
			mtu+int(p.Load.Size)-plan.FramePayload(p.Load.Size), mtu, s.dev.Name(), p.Link.IBPort)
	}
	s.terms = wire.Agreed{PageSize: os.Getpagesize(), CacheLine: cacheLine(), MTU: int(s.mtu)}
	return nil
}

// netdevMTU returns the MTU of the port's interface, 0 if it is not known.
func (s *frames) netdevMTU() int {
	name := sysfs.DefaultRoot().GIDEntry(s.dev.Name(), s.plan.Link.IBPort, 0).Netdev
	if name == "" {
		return 0
	}
	n, _ := hostfacts.This().Netdev(name)
	return n.MTU
}

func (s *frames) makeQPs(qo ibv.QPOptions) error {
	qo.MaxInline = 0
	s.setup.Local.Inline = 0
	for i := range s.plan.Queues.QPs {
		qp, err := s.pd.CreateQP(s.queues(i).send, s.queues(i).recv, &qo)
		if err != nil {
			return fmt.Errorf("connection type (-c) RawEth: %w", err)
		}
		s.qps = append(s.qps, qp)
		s.own = append(s.own, wire.Dest{})
	}
	return nil
}

// bringUp lets frames in, and writes those that go out.
func (s *frames) bringUp() error {
	for i, qp := range s.qps {
		if err := s.ready(qp); err != nil {
			return err
		}
		if s.plan.Receives() {
			if err := s.listen(i); err != nil {
				return err
			}
		}
		if !s.plan.Sends() {
			continue
		}
		step := payload.RoundUp(s.plan.Posted(s.plan.Load.Size), uint64(s.terms.CacheLine))
		for k := range s.plan.Frames.Kinds() {
			frame(s.SendArea(i)[uint64(k)*step:], &s.plan, i, k)
		}
	}
	return nil
}

// ready brings a queue pair up.
func (s *frames) ready(qp *ibv.QP) error {
	to := func(attr ibv.QPAttr, mask ibv.QPAttrMask) func() error {
		return func() error { return qp.Modify(&attr, ibv.MaskState|mask) }
	}
	return inOrder(to(ibv.QPAttr{State: ibv.StateInit, Port: s.plan.Link.IBPort}, ibv.MaskPort),
		to(ibv.QPAttr{State: ibv.StateRTR}, 0), to(ibv.QPAttr{State: ibv.StateRTS}, 0))
}

// listen makes the rules by which frames come to queue pair i.
func (s *frames) listen(i int) error {
	f := &s.plan.Frames
	first, n := f.FlowsOf(i)
	var rules []ibv.FlowAttr
	for k := range n {
		rules = append(rules, ibv.FlowAttr{Specs: rule(&s.plan, first+k)})
	}
	if f.Promiscuous && i == 0 {
		rules = append(rules, ibv.FlowAttr{Type: ibv.FlowAllDefault})
	}
	if f.Sniffer && i == 0 {
		rules = append(rules, ibv.FlowAttr{Type: ibv.FlowSniffer})
	}
	for k := range rules {
		rules[k].Port = s.plan.Link.IBPort
		flow, err := s.qps[i].CreateFlow(&rules[k])
		if err != nil {
			return err
		}
		s.flows = append(s.flows, flow)
	}
	return nil
}

// rule matches what comes from the peer in a flow.
func rule(p *plan.Plan, flow int) []ibv.FlowSpec {
	f := &p.Frames
	eth := ibv.FlowEth{Value: ibv.FlowEthFields{DstMAC: f.Own, EtherType: f.EtherType}}
	for i := range eth.Mask.DstMAC {
		eth.Mask.DstMAC[i] = 0xff
	}
	if f.EtherType != 0 {
		eth.Mask.EtherType = 0xffff
	}
	specs := []ibv.FlowSpec{eth}
	own, peer := endsOf(p, flow)
	switch {
	case f.IPv6():
		all := [16]byte(bytes.Repeat([]byte{0xff}, 16))
		specs = append(specs, ibv.FlowIPv6{Value: ibv.FlowIPv6Fields{Src: peer.Addr().As16(), Dst: own.Addr().As16()},
			Mask: ibv.FlowIPv6Fields{Src: all, Dst: all}})
	case f.IP():
		all := [4]byte{0xff, 0xff, 0xff, 0xff}
		specs = append(specs, ibv.FlowIPv4{Value: ibv.FlowIPv4Fields{Src: peer.Addr().As4(), Dst: own.Addr().As4()},
			Mask: ibv.FlowIPv4Fields{Src: all, Dst: all}})
	}
	if f.Ports() {
		value, mask := ibv.FlowPorts{Dst: own.Port(), Src: peer.Port()}, ibv.FlowPorts{Dst: 0xffff, Src: 0xffff}
		if f.TCP {
			specs = append(specs, ibv.FlowTCP{Value: value, Mask: mask})
		} else {
			specs = append(specs, ibv.FlowUDP{Value: value, Mask: mask})
		}
	}
	return specs
}

// endsOf returns the addresses of both ends in a flow.
func endsOf(p *plan.Plan, flow int) (own, peer netip.AddrPort) {
	f := &p.Frames
	server := netip.AddrPortFrom(f.Server, f.ServerPort+uint16(flow))
	client := netip.AddrPortFrom(f.Client, f.ClientPort+uint16(flow))
	if p.Client() {
		return client, server
	}
	return server, client
}

// frame writes the headers of frame k that queue pair i sends, those that raw_ethernet_bw writes.
func frame(b []byte, p *plan.Plan, i, k int) {
	const (
		typeVLAN = 0x8100
		typeIPv4 = 0x0800
		typeIPv6 = 0x86dd
		vlan     = 1
	)
	f := &p.Frames
	flow, priority := f.Kind(k)
	first, _ := f.FlowsOf(i)
	own, peer := endsOf(p, first+flow)
	n := plan.FramePayload(p.Load.Size)
	be := binary.BigEndian
	b = b[:p.Posted(p.Load.Size)]
	copy(b, f.Peer[:])
	copy(b[6:], f.Own[:])
	b = b[12:]
	if f.VLAN {
		be.PutUint16(b, typeVLAN)
		be.PutUint16(b[2:], uint16(priority)<<13|vlan)
		b, n = b[4:], n-4
	}
	kind := uint16(n)
	switch {
	case f.EtherType != 0:
		kind = f.EtherType
	case f.IPv6():
		kind = typeIPv6
	case f.IP():
		kind = typeIPv4
	}
	be.PutUint16(b, kind)
	b = b[2:]
	switch {
	case f.IPv6():
		ipv6(b, p, n, own.Addr(), peer.Addr(), p.FlowLabel(i))
		b, n = b[40:], n-40
	case f.IP():
		ipv4(b, p, n, own.Addr(), peer.Addr())
		b, n = b[20:], n-20
	}
	if !f.Ports() {
		return
	}
	be.PutUint16(b, own.Port())
	be.PutUint16(b[2:], peer.Port())
	if !f.TCP {
		be.PutUint16(b[4:], uint16(n))
		be.PutUint16(b[6:], 0) // no sum
		return
	}
	clear(b[4:20])
	b[12] = 5 << 4             // words of the header
	be.PutUint16(b[14:], 8192) // window
}

// Protocols of IP, and the value of an IPv6 header without any of them.
const (
	protoTCP  = 6
	protoUDP  = 17
	protoNone = 59
)

// proto returns the protocol of what comes after IP, or none.
func proto(f *plan.Frames, none uint8) uint8 {
	switch {
	case f.Ports() && f.TCP:
		return protoTCP
	case f.Ports():
		return protoUDP
	}
	return none
}

// ipv4 writes a header of IPv4 in a packet of n bytes.
func ipv4(b []byte, p *plan.Plan, n int, own, peer netip.Addr) {
	be := binary.BigEndian
	ip := b[:20]
	clear(ip)
	ip[0], ip[1], ip[8], ip[9] = 0x45, p.Link.TClass, cmp.Or(p.Frames.HopLimit, 64), proto(&p.Frames, 0)
	be.PutUint16(ip[2:], uint16(n))
	copy(ip[12:], own.AsSlice())
	copy(ip[16:], peer.AsSlice())
	var sum uint32
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(be.Uint16(ip[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	be.PutUint16(ip[10:], ^uint16(sum))
}

// ipv6 writes a header of IPv6 in a packet of n bytes.
func ipv6(b []byte, p *plan.Plan, n int, own, peer netip.Addr, label uint32) {
	be := binary.BigEndian
	be.PutUint32(b, 6<<28|uint32(p.Link.TClass)<<20|label)
	be.PutUint16(b[4:], uint16(n-40))
	b[6], b[7] = proto(&p.Frames, protoNone), cmp.Or(p.Frames.HopLimit, 64)
	copy(b[8:], own.AsSlice())
	copy(b[24:], peer.AsSlice())
}

func (s *frames) describe() {}

func (s *frames) closeQPs() error { return errors.Join(closeEach(s.flows...), closeEach(s.qps...)) }

func (s *frames) closeListener() error { return nil }
