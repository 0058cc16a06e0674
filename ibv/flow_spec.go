package ibv

import (
	"encoding/binary"
	"fmt"
	"net"
	"reflect"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// FlowSpec is a part of a steering rule: a match of one kind of header, such as FlowEth or FlowTCP,
// or something to do with the frames, such as FlowTag.
//
// The fields of a match are in host order, addresses in that of the wire. A set bit of Mask means
// that the bit of Value is compared. The header must be there even if the Mask is zero. With Inner
// the match is about the frame inside a tunnel.
type FlowSpec interface{ encode(*flowCoder) }

// MAC is an Ethernet address.
type MAC [6]byte

// String returns the usual form, as in "02:00:00:00:00:01".
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// FlowEth matches an Ethernet header.
//
// C: struct ibv_flow_spec_eth.
type FlowEth struct {
	Inner       bool
	Value, Mask FlowEthFields
}

// FlowEthFields are the fields of FlowEth.
type FlowEthFields struct {
	DstMAC    MAC
	SrcMAC    MAC
	EtherType uint16 // of what follows the VLAN tags
	VLANTag   uint16 // priority (3 bits), CFI, VLAN ID (12 bits)
}

// FlowIPv4 matches an IPv4 header.
//
// C: struct ibv_flow_spec_ipv4 or, if Mask has other fields than addresses,
// struct ibv_flow_spec_ipv4_ext.
type FlowIPv4 struct {
	Inner       bool
	Value, Mask FlowIPv4Fields
}

// FlowIPv4Fields are the fields of FlowIPv4. mlx5 does not compare TTL and Flags.
type FlowIPv4Fields struct {
	Src, Dst [4]byte
	Protocol uint8
	TOS      uint8
	TTL      uint8
	Flags    uint8
}

// FlowIPv6 matches an IPv6 header.
//
// C: struct ibv_flow_spec_ipv6.
type FlowIPv6 struct {
	Inner       bool
	Value, Mask FlowIPv6Fields
}

// FlowIPv6Fields are the fields of FlowIPv6. mlx5 does not compare HopLimit.
type FlowIPv6Fields struct {
	Src, Dst     [16]byte
	FlowLabel    uint32 // 20 bits
	NextHeader   uint8
	TrafficClass uint8
	HopLimit     uint8
}

// FlowTCP matches a TCP header.
//
// C: struct ibv_flow_spec_tcp_udp with IBV_FLOW_SPEC_TCP.
type FlowTCP struct {
	Inner       bool
	Value, Mask FlowPorts
}

// FlowUDP matches a UDP header.
//
// C: struct ibv_flow_spec_tcp_udp with IBV_FLOW_SPEC_UDP.
type FlowUDP struct {
	Inner       bool
	Value, Mask FlowPorts
}

// FlowPorts are the fields of FlowTCP and FlowUDP.
type FlowPorts struct{ Dst, Src uint16 }

// FlowVXLAN matches a VXLAN header.
//
// C: struct ibv_flow_spec_tunnel with IBV_FLOW_SPEC_VXLAN_TUNNEL.
type FlowVXLAN struct {
	Value, Mask FlowVXLANFields
}

// FlowVXLANFields are the fields of FlowVXLAN.
type FlowVXLANFields struct {
	VNI uint32 // 24 bits
}

// FlowESP matches an ESP header. mlx5 does not compare Seq.
//
// C: struct ibv_flow_spec_esp.
type FlowESP struct {
	Inner       bool
	Value, Mask FlowESPFields
}

// FlowESPFields are the fields of FlowESP.
type FlowESPFields struct{ SPI, Seq uint32 }

// FlowGRE matches a GRE header. mlx5 does not compare Flags.
//
// C: struct ibv_flow_spec_gre.
type FlowGRE struct {
	Value, Mask FlowGREFields
}

// FlowGREFields are the fields of FlowGRE.
type FlowGREFields struct {
	Flags    uint16 // the first 16 bits: which fields follow, and the version
	Protocol uint16
	Key      uint32
}

// FlowMPLS matches the first label of an MPLS stack.
//
// C: struct ibv_flow_spec_mpls.
type FlowMPLS struct {
	Inner       bool
	Value, Mask FlowMPLSFields
}

// FlowMPLSFields are the fields of FlowMPLS.
type FlowMPLSFields struct {
	Label uint32 // the label (20 bits), traffic class (3), bottom of stack (1), TTL (8)
}

// FlowTag marks the completions of the frames with a number of 24 bits, which an extended CQ returns.
//
// C: struct ibv_flow_spec_action_tag.
type FlowTag uint32

// FlowDrop discards the frames.
//
// C: struct ibv_flow_spec_action_drop.
type FlowDrop struct{}

// FlowCount counts the frames. mlx5 takes one for each rule.
//
// C: struct ibv_flow_spec_counter_action.
type FlowCount struct{ Counters *Counters }

// FlowHandle applies an action, such as decryption.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct ibv_flow_spec_action_handle.
type FlowHandle struct{ Action *FlowAction }

// flowCoder collects the specs of a rule as C has them, and what is wrong with them.
type flowCoder struct {
	dev     *Device
	b       []byte
	at      int // index of the spec
	nodes   []*node
	handles []flowObject
	errs    []error
	matched bool
	seen    [2]struct { // outer and inner
		kinds     uint32 // layers that have a match: l2, l3 and so on
		etherType uint16 // that FlowEth wants, 0 for any
	}
}

// flowObject is where the address of a C object goes. It is known while the object is entered only.
type flowObject struct {
	off int
	obj entered
}

func (o flowObject) put(b []byte) {
	h, _ := o.obj.cObject()
	binary.NativeEndian.PutUint64(b[o.off:], uint64(h))
}

func (c *flowCoder) wrong(arg, got, want string) {
	c.errs = append(c.errs, &ArgError{Arg: arg, Got: got, Want: want})
}

// spec names the spec that is being encoded.
func (c *flowCoder) spec() string { return fmt.Sprintf("Specs[%d]", c.at) }

// The layers of a rule, which has one match for each, and the names of the matches.
const (
	layerEth = iota
	layerIP
	layerTransport
	layerTunnel
	layerMPLS
)

var flowLayers = []string{"Ethernet", "IP", "TCP, UDP or ESP", "VXLAN or GRE", "MPLS"}

// match appends a spec of a kind. Its value and its mask are the fields of these in network order, from offset at on.
func (c *flowCoder) match(layer int, kind uint32, inner bool, at int, value, mask any) {
	c.matched = true
	l := &c.seen[b2u8(inner)]
	if l.kinds>>layer&1 != 0 {
		c.wrong(c.spec(), "a second match of "+flowLayers[layer], "one for each header: put all fields into it")
	}
	l.kinds |= 1 << layer
	if inner {
		kind |= abi.IBV_FLOW_SPEC_INNER
	}
	n := (binary.Size(value) + 3) &^ 3
	b := make([]byte, (at+2*n+3)&^3)
	binary.NativeEndian.PutUint32(b, kind)
	binary.NativeEndian.PutUint16(b[4:], uint16(len(b)))
	v, m := b[at:][:n], b[at+n:][:n]
	_, _ = binary.Encode(v, binary.BigEndian, value) // they have a fixed size
	_, _ = binary.Encode(m, binary.BigEndian, mask)
	for i := range n {
		if v[i]&^m[i] != 0 {
			c.wrong(c.spec(), "a Value with bits that are not in the Mask", "a Value of which Mask has all bits")
			break
		}
	}
	c.b = append(c.b, b...)
}

// ip checks the version of IP against that of FlowEth.
func (c *flowCoder) ip(inner bool, etherType uint16, name string) {
	if t := c.seen[b2u8(inner)].etherType; t != 0 && t != etherType {
		c.wrong(c.spec(), fmt.Sprintf("a match of %s behind an EtherType of %#04x", name, t),
			fmt.Sprintf("the EtherType %#04x, or none", etherType))
	}
}

// bits checks a value of fewer bits than its Go type has.
func (c *flowCoder) bits(name string, v uint32, n int) {
	if err := checkFields(field{c.spec() + "." + name, v, n}); err != nil {
		c.errs = append(c.errs, err)
	}
}

func (s FlowEth) encode(c *flowCoder) {
	if s.Mask.EtherType == 0xffff {
		c.seen[b2u8(s.Inner)].etherType = s.Value.EtherType
	}
	c.match(layerEth, abi.IBV_FLOW_SPEC_ETH, s.Inner, 6, s.Value, s.Mask)
}

func (s FlowIPv4) encode(c *flowCoder) {
	c.ip(s.Inner, 0x0800, "IPv4")
	v, m := [2][4]byte{s.Value.Src, s.Value.Dst}, [2][4]byte{s.Mask.Src, s.Mask.Dst}
	if s.Value == (FlowIPv4Fields{Src: v[0], Dst: v[1]}) && s.Mask == (FlowIPv4Fields{Src: m[0], Dst: m[1]}) {
		c.match(layerIP, abi.IBV_FLOW_SPEC_IPV4, s.Inner, 8, v, m)
		return
	}
	c.match(layerIP, abi.IBV_FLOW_SPEC_IPV4_EXT, s.Inner, 8, s.Value, s.Mask)
}

func (s FlowIPv6) encode(c *flowCoder) {
	c.ip(s.Inner, 0x86dd, "IPv6")
	c.bits("Mask.FlowLabel", s.Mask.FlowLabel, 20)
	c.match(layerIP, abi.IBV_FLOW_SPEC_IPV6, s.Inner, 8, s.Value, s.Mask)
}

func (s FlowTCP) encode(c *flowCoder) {
	c.match(layerTransport, abi.IBV_FLOW_SPEC_TCP, s.Inner, 6, s.Value, s.Mask)
}

func (s FlowUDP) encode(c *flowCoder) {
	c.match(layerTransport, abi.IBV_FLOW_SPEC_UDP, s.Inner, 6, s.Value, s.Mask)
}

func (s FlowVXLAN) encode(c *flowCoder) {
	c.bits("Mask.VNI", s.Mask.VNI, 24)
	c.match(layerTunnel, abi.IBV_FLOW_SPEC_VXLAN_TUNNEL, false, 8, s.Value, s.Mask)
}

func (s FlowESP) encode(c *flowCoder) {
	c.match(layerTransport, abi.IBV_FLOW_SPEC_ESP, s.Inner, 8, s.Value, s.Mask)
}

func (s FlowGRE) encode(c *flowCoder) {
	c.match(layerTunnel, abi.IBV_FLOW_SPEC_GRE, false, 8, s.Value, s.Mask)
}

func (s FlowMPLS) encode(c *flowCoder) {
	c.match(layerMPLS, abi.IBV_FLOW_SPEC_MPLS, s.Inner, 8, s.Value, s.Mask)
}

func (s FlowTag) encode(c *flowCoder) {
	c.bits("FlowTag", uint32(s), 24)
	c.b = abi.AppendSpec(c.b, &abi.FlowSpecActionTag{Type: abi.IBV_FLOW_SPEC_ACTION_TAG, Size: 12,
		TagID: uint32(s)})
}

func (FlowDrop) encode(c *flowCoder) {
	c.b = abi.AppendSpec(c.b, &abi.FlowSpecActionDrop{Type: abi.IBV_FLOW_SPEC_ACTION_DROP, Size: 8})
}

func (s FlowCount) encode(c *flowCoder) {
	c.object(".Counters", s.Counters, "those", "Counters")
	c.b = abi.AppendSpec(c.b, &abi.FlowSpecCounterAction{Type: abi.IBV_FLOW_SPEC_ACTION_COUNT, Size: 16})
}

func (s FlowHandle) encode(c *flowCoder) {
	c.object(".Action", s.Action, "one", "a FlowAction")
	c.b = abi.AppendSpec(c.b, &abi.FlowSpecActionHandle{Type: abi.IBV_FLOW_SPEC_ACTION_HANDLE, Size: 16})
}

// object makes the rule a child of obj, whose address is written to offset 8 of the next spec. Errors call it one or
// those, and want a thing.
func (c *flowCoder) object(field string, obj entered, one, want string) {
	want += " of the same Device"
	if reflect.ValueOf(obj).IsNil() {
		c.wrong(c.spec()+field, "nil", want)
		return
	}
	if _, dev := obj.cObject(); dev != c.dev {
		c.wrong(c.spec()+field, one+" of another Device", want)
		return
	}
	c.nodes = append(c.nodes, obj.self())
	c.handles = append(c.handles, flowObject{len(c.b) + 8, obj})
}
