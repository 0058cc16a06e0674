package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// frames is the way of Ethernet frames: the ends do not meet, and a steering rule says what comes in.
type frames struct {
	*Session
	flow *ibv.Flow
}

func (s *frames) meet(func(port int)) error {
	p := &s.plan
	if err := s.openDevice(p.Device, p.IBPort); err != nil {
		return err
	}
	if s.port.LinkLayer != ibv.LinkEthernet {
		return fmt.Errorf("connection type (-c) RawEth: %s port %d is %v, not Ethernet", s.dev.Name(), s.ibPort,
			s.port.LinkLayer)
	}
	if mtu := s.netdevMTU(); mtu > 0 && plan.FramePayload(p.Size) > mtu {
		return fmt.Errorf("size (-s) %d > %d, the longest frame with the mtu %d of %s port %d", p.Size,
			mtu+int(p.Size)-plan.FramePayload(p.Size), mtu, s.dev.Name(), s.ibPort)
	}
	s.terms = wire.Agreed{PageSize: os.Getpagesize(), CacheLine: cacheLine(), MTU: int(s.mtu)}
	return nil
}

// netdevMTU returns the MTU of the port's interface, 0 if it is not known.
func (s *frames) netdevMTU() int {
	name, _ := sysfs.DefaultRoot().GIDNetdev(s.dev.Name(), s.ibPort, 0)
	if name == "" {
		return 0
	}
	b, err := os.ReadFile(filepath.Join("/sys/class/net", filepath.Base(name), "mtu"))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

func (s *frames) makeQPs(qo ibv.QPOptions) error {
	qo.MaxInline = 0
	s.setup.Local.Inline = 0
	qp, err := s.pd.CreateQP(s.cqs[0].send, s.cqs[0].recv, &qo)
	if err != nil {
		return fmt.Errorf("connection type (-c) RawEth: %w", err)
	}
	s.qps = append(s.qps, qp)
	s.own = []wire.Dest{{}}
	return nil
}

// bringUp lets frames in, and writes the one that goes out.
func (s *frames) bringUp() (err error) {
	for _, m := range []struct {
		attr ibv.QPAttr
		mask ibv.QPAttrMask
	}{
		{ibv.QPAttr{State: ibv.StateInit, Port: s.ibPort}, ibv.MaskState | ibv.MaskPort},
		{ibv.QPAttr{State: ibv.StateRTR}, ibv.MaskState},
		{ibv.QPAttr{State: ibv.StateRTS}, ibv.MaskState},
	} {
		if err := s.qps[0].Modify(&m.attr, m.mask); err != nil {
			return err
		}
	}
	if s.plan.Receives() {
		if s.flow, err = s.qps[0].CreateFlow(&ibv.FlowAttr{Port: s.ibPort, Specs: rule(&s.plan)}); err != nil {
			return err
		}
	}
	frame(s.SendArea(0), &s.plan)
	return nil
}

// rule matches what comes from the peer.
func rule(p *plan.Plan) []ibv.FlowSpec {
	f := &p.Frames
	eth := ibv.FlowEth{Value: ibv.FlowEthFields{DstMAC: f.Own, EtherType: f.EtherType}}
	for i := range eth.Mask.DstMAC {
		eth.Mask.DstMAC[i] = 0xff
	}
	if f.EtherType != 0 {
		eth.Mask.EtherType = 0xffff
	}
	specs := []ibv.FlowSpec{eth}
	own, peer, ownPort, peerPort := endsOf(p)
	if f.IP() {
		all := [4]byte{0xff, 0xff, 0xff, 0xff}
		specs = append(specs, ibv.FlowIPv4{Value: ibv.FlowIPv4Fields{Src: peer, Dst: own},
			Mask: ibv.FlowIPv4Fields{Src: all, Dst: all}})
	}
	if f.UDP() {
		specs = append(specs, ibv.FlowUDP{Value: ibv.FlowPorts{Dst: ownPort, Src: peerPort},
			Mask: ibv.FlowPorts{Dst: 0xffff, Src: 0xffff}})
	}
	return specs
}

// endsOf returns the addresses of both ends.
func endsOf(p *plan.Plan) (own, peer [4]byte, ownPort, peerPort uint16) {
	f := &p.Frames
	if !f.IP() {
		return
	}
	if p.Client() {
		return f.Client.As4(), f.Server.As4(), f.ClientPort, f.ServerPort
	}
	return f.Server.As4(), f.Client.As4(), f.ServerPort, f.ClientPort
}

// frame writes the headers of what is sent, those that raw_ethernet_bw writes.
func frame(b []byte, p *plan.Plan) {
	const (
		typeIPv4 = 0x0800
		udp      = 17
		ttl      = 64
	)
	f := &p.Frames
	n := plan.FramePayload(p.Size)
	kind := uint16(n)
	if f.IP() {
		kind = typeIPv4
	}
	if f.EtherType != 0 {
		kind = f.EtherType
	}
	be := binary.BigEndian
	copy(b, f.Peer[:])
	copy(b[6:], f.Own[:])
	be.PutUint16(b[12:], kind)
	own, peer, ownPort, peerPort := endsOf(p)
	if !f.IP() {
		return
	}
	ip := b[14:34]
	clear(ip)
	ip[0], ip[1], ip[8] = 0x45, p.TClass, ttl
	be.PutUint16(ip[2:], uint16(n))
	copy(ip[12:], own[:])
	copy(ip[16:], peer[:])
	if f.UDP() {
		ip[9] = udp
		be.PutUint16(b[34:], ownPort)
		be.PutUint16(b[36:], peerPort)
		be.PutUint16(b[38:], uint16(n-len(ip)))
		be.PutUint16(b[40:], 0) // no sum
	}
	var sum uint32
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(be.Uint16(ip[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	be.PutUint16(ip[10:], ^uint16(sum))
}

func (s *frames) toward(int) *reach { return nil }

func (s *frames) describe() {}

func (s *frames) lost() (int, error) { return 0, nil }

func (s *frames) closeQPs() error {
	var errs []error
	if s.flow != nil {
		errs = append(errs, s.flow.Close())
	}
	for _, qp := range s.qps {
		errs = append(errs, qp.Close())
	}
	return errors.Join(errs...)
}

func (s *frames) closeListener() error { return nil }
