package ibv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
)

// With matches of each kind a QP gets the frames that they say, and no others.
func TestRXE_FlowSpecs(t *testing.T) {
	a, b := rawPair(t, RawOptions{}, RawOptions{})
	if a == nil {
		return
	}
	eth := func(kind uint16, data ...[]byte) []byte {
		return append(ethernet(b.mac, a.mac, kind, 0, 0), bytes.Join(data, nil)...)
	}
	pad := make([]byte, 40)
	inner := packet(MAC{2, 0, 0, 0, 0, 7}, MAC{2, 0, 0, 0, 0, 8}, false, true, 9)
	udp := func(port uint16, data []byte) []byte {
		f := packet(b.mac, a.mac, false, false, len(data))
		binary.BigEndian.PutUint16(f[14+20+2:], port)
		copy(f[14+28:], data)
		return f
	}
	over := func(proto byte, data []byte) []byte {
		ip := packet(b.mac, a.mac, false, false, 0)[14:34]
		ip[9] = proto
		binary.BigEndian.PutUint16(ip[2:], uint16(20+len(data)))
		return eth(0x0800, ip, data)
	}
	patch := func(f []byte, off int, v ...byte) []byte {
		f = bytes.Clone(f)
		copy(f[off:], v)
		return f
	}
	v4tcp, v4udp := packet(b.mac, a.mac, false, true, 9), packet(b.mac, a.mac, false, false, 9)
	v6udp := packet(b.mac, a.mac, true, false, 9)
	tagged := func(tci uint16) []byte {
		return append(append(bytes.Clone(v4tcp[:12]), 0x81, 0, byte(tci>>8), byte(tci)), v4tcp[12:]...)
	}
	vxlan := func(vni byte, in []byte) []byte {
		return udp(4789, append([]byte{8, 0, 0, 0, 0, 1, vni, 0}, in...))
	}
	gre := func(key byte) []byte {
		return over(47, append([]byte{0x20, 0, 0x65, 0x58, 0, 0, 1, key}, inner...))
	}
	esp := func(spi byte) []byte { return over(50, append([]byte{0, 0, 0, spi, 0, 0, 0, 1}, pad...)) }
	mpls := func(label byte) []byte { return eth(0x8847, []byte{0, label, 1, 64}, inner[14:]) }
	all16, all32, all24 := uint16(0xffff), uint32(1<<32-1), uint32(1<<24-1)
	all4 := [4]byte{255, 255, 255, 255}

	for _, c := range []struct {
		name   string
		specs  []FlowSpec
		yes    []byte
		others [][]byte
	}{
		{"source", []FlowSpec{FlowEth{Value: FlowEthFields{SrcMAC: a.mac}, Mask: FlowEthFields{SrcMAC: MAC{255, 255,
			255, 255, 255, 255}}}},
			v4tcp, [][]byte{patch(v4tcp, 11, 0x77)}},
		{"ethertype", []FlowSpec{FlowEth{Value: FlowEthFields{EtherType: 0x88b5},
			Mask: FlowEthFields{EtherType: all16}}},
			eth(0x88b5, pad, pad), [][]byte{v4tcp, eth(0x88b6, pad, pad)}},
		{"vlan", []FlowSpec{FlowEth{Value: FlowEthFields{VLANTag: 7}, Mask: FlowEthFields{VLANTag: 0xfff}}},
			tagged(0x6007), [][]byte{v4tcp, tagged(8)}},
		{"ipv4", []FlowSpec{FlowIPv4{Value: FlowIPv4Fields{Src: [4]byte{10, 1, 0, 1}, Dst: [4]byte{10, 1, 0, 0}},
			Mask: FlowIPv4Fields{Src: all4, Dst: [4]byte{255, 255, 255, 0}}}},
			v4udp, [][]byte{patch(v4udp, 29, 2), patch(v4udp, 32, 1), v6udp}},
		{"ipv4 ext", []FlowSpec{FlowIPv4{Value: FlowIPv4Fields{TOS: 8, Protocol: 17}, Mask: FlowIPv4Fields{TOS: 255,
			Protocol: 255}}},
			v4udp, [][]byte{v4tcp, patch(v4udp, 15, 4)}},
		{"ipv6", []FlowSpec{FlowIPv6{Value: FlowIPv6Fields{Dst: [16]byte{0: 0xfd, 15: 2}, NextHeader: 17},
			Mask: FlowIPv6Fields{Dst: [16]byte{0: 255, 15: 255}, NextHeader: 255}}},
			v6udp, [][]byte{v4udp, patch(v6udp, 53, 3), packet(b.mac, a.mac, true, true, 1)}},
		{"ipv6 label", []FlowSpec{FlowIPv6{Value: FlowIPv6Fields{FlowLabel: 0x12345, TrafficClass: 0xa5},
			Mask: FlowIPv6Fields{FlowLabel: 0xfffff, TrafficClass: 0xff}}},
			patch(v6udp, 14, 0x6a, 0x51, 0x23, 0x45), [][]byte{v6udp, patch(v6udp, 14, 0x6a, 0x51, 0x23, 0x46)}},
		{"tcp", []FlowSpec{FlowTCP{Value: FlowPorts{Dst: 5000, Src: 4000}, Mask: FlowPorts{all16, all16}}},
			v4tcp, [][]byte{v4udp, patch(v4tcp, 37, 1), patch(v4tcp, 35, 1)}},
		{"udp", []FlowSpec{FlowIPv6{}, FlowUDP{Value: FlowPorts{Dst: 5000}, Mask: FlowPorts{Dst: all16}}},
			v6udp, [][]byte{v4udp, patch(v6udp, 57, 1)}},
		{"vxlan", []FlowSpec{FlowVXLAN{Value: FlowVXLANFields{VNI: 0x105}, Mask: FlowVXLANFields{VNI: all24}}},
			vxlan(5, inner), [][]byte{vxlan(6, inner), udp(4790, make([]byte, 60))}},
		{"inner", []FlowSpec{FlowVXLAN{}, FlowEth{Inner: true, Value: FlowEthFields{DstMAC: MAC{2, 0, 0, 0, 0, 7}},
			Mask: FlowEthFields{DstMAC: MAC{255, 255, 255, 255, 255, 255}}}, FlowIPv4{Inner: true},
			FlowTCP{Inner: true, Value: FlowPorts{Dst: 5000}, Mask: FlowPorts{Dst: all16}}},
			vxlan(5, inner), [][]byte{vxlan(5, patch(inner, 5, 9)), vxlan(5, patch(inner, 37, 9)), v4tcp}},
		{"gre", []FlowSpec{FlowGRE{Value: FlowGREFields{Protocol: 0x6558, Key: 0x105},
			Mask: FlowGREFields{Protocol: all16, Key: all32}}},
			gre(5), [][]byte{gre(6), v4udp}},
		{"esp", []FlowSpec{FlowESP{Value: FlowESPFields{SPI: 5}, Mask: FlowESPFields{SPI: all32}}}, esp(5),
			[][]byte{esp(6), v4udp}},
		{"mpls", []FlowSpec{FlowMPLS{Value: FlowMPLSFields{Label: 5 << 16}, Mask: FlowMPLSFields{Label: 0xfffff000}}},
			mpls(5),
			[][]byte{mpls(6), v4udp}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := must(b.qp.CreateFlow(&FlowAttr{Port: 1, Specs: append(c.specs, FlowTag(0x123456))}))(t)
			for _, no := range c.others {
				a.send(t, no, 0)
			}
			a.send(t, c.yes, 0)
			got, wc := b.frame(t)
			if !bytes.HasPrefix(got, c.yes) || wc.QPN != 0x123456 {
				t.Errorf("%x, %+v", got, wc)
			}
			b.none(t)
			ok(t, f.Close())
			a.send(t, c.yes, 0)
			b.none(t)
		})
	}
	// What mlx5 does not compare is refused.
	for _, s := range []FlowSpec{FlowIPv4{Mask: FlowIPv4Fields{TTL: 1}}, FlowIPv6{Mask: FlowIPv6Fields{HopLimit: 1}},
		FlowESP{Mask: FlowESPFields{Seq: 1}}, FlowGRE{Mask: FlowGREFields{Flags: 1}}} {
		_, err := b.qp.CreateFlow(&FlowAttr{Port: 1, Specs: []FlowSpec{s}})
		wantErr(t, err, ErrNotSupported, "steering rules", b.dev.Name())
	}
}

// Which of several rules has a frame.
func TestRXE_FlowOrder(t *testing.T) {
	a, b := rawPair(t, RawOptions{}, RawOptions{})
	if a == nil {
		return
	}
	c := newRawSide(t, 1, RawOptions{})
	c.mac = b.mac
	frame, other := packet(b.mac, a.mac, false, false, 9), ethernet(b.mac, a.mac, 0x88b5, 60, 1)
	udp := []FlowSpec{b.own(), FlowIPv4{}, FlowUDP{Value: FlowPorts{Dst: 5000}, Mask: FlowPorts{Dst: 0xffff}}}
	group := ethernet(MAC{1, 0, 0x5e, 1, 2, 3}, a.mac, 0x88b5, 60, 1)
	flow := func(s *rawSide, f FlowAttr) *Flow {
		t.Helper()
		f.Port = 1
		return must(s.qp.CreateFlow(&f))(t)
	}
	gone := func(fs ...*Flow) {
		t.Helper()
		for _, f := range fs {
			ok(t, f.Close())
		}
	}
	// lands sends a frame and looks who has it.
	lands := func(f []byte, b1, c1 bool) {
		t.Helper()
		a.send(t, f, 0)
		for _, s := range []struct {
			side *rawSide
			has  bool
		}{{b, b1}, {c, c1}} {
			if s.has {
				s.side.frame(t)
			}
			s.side.none(t)
		}
	}
	t.Run("priority", func(t *testing.T) {
		low, high := flow(b, FlowAttr{Priority: 3, Specs: []FlowSpec{b.own()}}), flow(c, FlowAttr{Priority: 2,
			Specs: udp})
		lands(frame, false, true)
		lands(other, true, false)
		gone(high)
		lands(frame, true, false)
		gone(low)
		lands(frame, false, false)
	})
	t.Run("same", func(t *testing.T) { // each has a copy
		f, g := flow(b, FlowAttr{Specs: udp}), flow(c, FlowAttr{Specs: udp})
		lands(frame, true, true)
		_, err := c.qp.CreateFlow(&FlowAttr{Port: 1, Specs: append(udp[:3:3], FlowTag(1))})
		wantErr(t, err, syscall.EEXIST, "same matches")
		gone(f, g)
	})
	t.Run("do not trap", func(t *testing.T) {
		f := flow(b, FlowAttr{Flags: FlowDontTrap, Specs: udp})
		g := flow(c, FlowAttr{Specs: []FlowSpec{b.own()}})
		lands(frame, true, true)
		lands(other, false, true)
		gone(f, g)
	})
	t.Run("defaults", func(t *testing.T) {
		all, mc := flow(b, FlowAttr{Type: FlowAllDefault}), flow(c, FlowAttr{Type: FlowMulticastDefault})
		lands(other, true, false)
		gone(all)
		lands(other, false, false)
		lands(group, false, true)
		g := flow(b, FlowAttr{Specs: []FlowSpec{FlowEth{Value: FlowEthFields{DstMAC: MAC(group[:6])},
			Mask: b.own().Mask}}})
		lands(group, true, false)
		gone(mc, g)
	})
	t.Run("sniffer", func(t *testing.T) {
		f, g := flow(b, FlowAttr{Specs: udp}), flow(c, FlowAttr{Type: FlowSniffer})
		lands(frame, true, true)
		lands(other, false, true)
		gone(f, g)
	})
	t.Run("drop", func(t *testing.T) {
		f := flow(b, FlowAttr{Specs: append(udp[:3:3], FlowDrop{})})
		g := flow(c, FlowAttr{Priority: 1, Specs: []FlowSpec{b.own()}})
		lands(frame, false, false)
		lands(other, false, true)
		gone(f, g)
	})
	t.Run("egress", func(t *testing.T) {
		f := flow(a, FlowAttr{Flags: FlowEgress, Specs: append(udp[:3:3], FlowDrop{})})
		g := flow(b, FlowAttr{Specs: []FlowSpec{b.own()}})
		lands(frame, false, false)
		lands(other, true, false)
		gone(f, g)
	})
	t.Run("counters", func(t *testing.T) {
		n := must(b.dev.CreateCounters())(t)
		v := make([]uint64, 3)
		wantErr(t, n.Read(v, false), syscall.EINVAL, "no rule")
		ok(t, n.AttachFlow(CountBytes, 0, nil))
		ok(t, n.AttachFlow(CountPackets, 2, nil))
		f := flow(b, FlowAttr{Specs: append(udp[:3:3], FlowCount{n})})
		wantErr(t, n.AttachFlow(CountPackets, 1, nil), syscall.EBUSY, "before CreateFlow")
		lands(frame, true, false)
		lands(frame, true, false)
		lands(other, false, false)
		ok(t, n.Read(v, false))
		if v[0] != 120 || v[1] != 0 || v[2] != 2 {
			t.Errorf("counted %d", v)
		}
		wantErr(t, n.Read(v[:1], true), syscall.EINVAL, "fewer")
		var be *BusyError
		if err := n.Close(); !errors.As(err, &be) {
			t.Errorf("closing counters in use: %v", err)
		}
		gone(f)
		ok(t, n.Close())
		wantErr(t, n.Read(v, false), ErrClosed)
	})
	t.Run("refused", func(t *testing.T) {
		_, err := b.qp.CreateFlow(&FlowAttr{Port: 1, Priority: 16})
		wantErr(t, err, syscall.ENOMEM, "priority 16")
		_, err = b.dev.CreateESPAction(&ESPAction{AESGCM: &ESPKey{Key: make([]byte, 16), ICVLen: 16}})
		wantErr(t, err, ErrNotSupported, "IPsec")
		// Groups of frames are rules: the kernel attaches UD QPs alone.
		mac := GID{0xff, 10: 0x33, 11: 0x33, 15: 1}
		wantErr(t, b.qp.AttachMcast(mac, 0), ErrNotSupported, "CreateFlow", "FlowMulticastDefault")
	})
}
