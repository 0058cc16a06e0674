package mlx5dv

import (
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/ibv"
)

// Match holds fields of a frame's headers. As a mask, its set bits are those that are compared; as a value, it has the
// bits to compare them with, and none that the mask lacks. Numbers are in host order, addresses in that of the wire. A
// field whose header a frame lacks is 0 in the comparison, so a mask usually also has IPVersion, IPProtocol or
// EtherType.
//
// The device compares fields of up to five or so of the parts, and not all fields in each table: the
// error of a matcher that goes too far unwraps to EINVAL.
//
// C: the fte_match_param of the device's programming manual, which is the content of match_buf in struct
// mlx5dv_flow_match_parameters.
type Match struct {
	Outer MatchHeaders // of the frame
	Misc  MatchMisc    // tunnels, and the sender
	Inner MatchHeaders // of the frame inside a tunnel
	Misc2 MatchMisc2   // MPLS, and the device's registers
	Misc3 MatchMisc3   // TCP numbers, ICMP, VXLAN-GPE, GTP-U
	Misc4 MatchMisc4   // what the program has the device's parser sample
	Misc5 MatchMisc5   // MACsec, and the words of a tunnel's header
}

// The tag "at" of a field is its place in its part: the offset of its first bit, its width, and for an
// array the distance of its elements. It is the only place that knows. The tests compare it with the
// numbers of rdma-core v44.0 and v64.0, providers/mlx5/mlx5_ifc.h.

// MatchHeaders are the fields of layers 2 to 4.
//
// C: fte_match_set_lyr_2_4.
type MatchHeaders struct {
	SrcMAC     ibv.MAC  `at:"0x00,48"`
	EtherType  uint16   `at:"0x30,16"` // of what follows the VLAN tags
	DstMAC     ibv.MAC  `at:"0x40,48"`
	VLANPrio   uint8    `at:"0x70,3"` // of the outermost tag
	VLANCFI    uint8    `at:"0x73,1"`
	VLANID     uint16   `at:"0x74,12"`
	IPProtocol uint8    `at:"0x80,8"` // or the next header of IPv6
	DSCP       uint8    `at:"0x88,6"`
	ECN        uint8    `at:"0x8e,2"`
	CVLANTag   uint8    `at:"0x90,1"` // 1 if the outermost tag is one of EtherType 0x8100
	SVLANTag   uint8    `at:"0x91,1"` // 1 if it is one of EtherType 0x88a8
	Fragment   uint8    `at:"0x92,1"`
	IPVersion  uint8    `at:"0x93,4"`
	TCPFlags   uint16   `at:"0x97,9"`
	TCPSrcPort uint16   `at:"0xa0,16"`
	TCPDstPort uint16   `at:"0xb0,16"`
	IPv4IHL    uint8    `at:"0xd0,4"`
	L3OK       uint8    `at:"0xd4,1"`
	L4OK       uint8    `at:"0xd5,1"`
	IPv4SumOK  uint8    `at:"0xd6,1"`
	L4SumOK    uint8    `at:"0xd7,1"`
	TTL        uint8    `at:"0xd8,8"` // or the hop limit of IPv6
	UDPSrcPort uint16   `at:"0xe0,16"`
	UDPDstPort uint16   `at:"0xf0,16"`
	SrcIPv6    [16]byte `at:"0x100,128"`
	DstIPv6    [16]byte `at:"0x180,128"`
	SrcIPv4    [4]byte  `at:"0x160,32"` // the end of SrcIPv6: a Match has one of them
	DstIPv4    [4]byte  `at:"0x1e0,32"`
}

// MatchMisc has the fields of tunnels, and of the sender of a frame.
//
// C: fte_match_set_misc.
type MatchMisc struct {
	GREChecksum      uint8  `at:"0x00,1"` // 1 if it is there
	BTHAck           uint8  `at:"0x01,1"` // of RoCE
	GREKeyPresent    uint8  `at:"0x02,1"`
	GRESequence      uint8  `at:"0x03,1"`
	SourceVHCAPort   uint8  `at:"0x04,4"`
	SourceSQN        uint32 `at:"0x08,24"` // of the send queue; in tables of what a port sends
	SourceVHCA       uint16 `at:"0x20,16"` // of the e-switch's owner
	SourcePort       uint16 `at:"0x30,16"` // vport; in tables of type FlowTableFDB
	OuterSecondPrio  uint8  `at:"0x40,3"`  // of the second VLAN tag
	OuterSecondCFI   uint8  `at:"0x43,1"`
	OuterSecondVID   uint16 `at:"0x44,12"`
	InnerSecondPrio  uint8  `at:"0x50,3"`
	InnerSecondCFI   uint8  `at:"0x53,1"`
	InnerSecondVID   uint16 `at:"0x54,12"`
	OuterSecondCVLAN uint8  `at:"0x60,1"`
	InnerSecondCVLAN uint8  `at:"0x61,1"`
	OuterSecondSVLAN uint8  `at:"0x62,1"`
	InnerSecondSVLAN uint8  `at:"0x63,1"`
	OuterEMD         uint8  `at:"0x64,1"`
	GREProtocol      uint16 `at:"0x70,16"`
	GREKey           uint32 `at:"0x80,32"`
	VXLANVNI         uint32 `at:"0xa0,24"`
	BTHOpcode        uint8  `at:"0xb8,8"`
	GeneveVNI        uint32 `at:"0xc0,24"`
	GeneveOption     uint8  `at:"0xde,1"` // 1 if option 0 is there
	GeneveOAM        uint8  `at:"0xdf,1"`
	OuterFlowLabel   uint32 `at:"0xec,20"` // of IPv6
	InnerFlowLabel   uint32 `at:"0x10c,20"`
	GeneveOptLen     uint8  `at:"0x12a,6"`
	GeneveProtocol   uint16 `at:"0x130,16"`
	BTHDestQP        uint32 `at:"0x148,24"`
	InnerESPSPI      uint32 `at:"0x160,32"`
	OuterESPSPI      uint32 `at:"0x180,32"`
}

// MatchMisc2 are the fields of MPLS, and the registers that earlier rules have set.
//
// C: fte_match_set_misc2.
type MatchMisc2 struct {
	OuterMPLS   uint32    `at:"0x00,32"` // label (20 bits), traffic class (3), bottom of stack (1), TTL (8)
	InnerMPLS   uint32    `at:"0x20,32"`
	MPLSOverGRE uint32    `at:"0x40,32"`
	MPLSOverUDP uint32    `at:"0x60,32"`
	RegC        [8]uint32 `at:"0x160,32,-32"`
	RegA        uint32    `at:"0x180,32"`
}

// MatchMisc3 are the numbers of TCP, and the fields of ICMP, VXLAN-GPE and GTP-U.
//
// C: fte_match_set_misc3.
type MatchMisc3 struct {
	InnerTCPSeq      uint32 `at:"0x00,32"`
	OuterTCPSeq      uint32 `at:"0x20,32"`
	InnerTCPAck      uint32 `at:"0x40,32"`
	OuterTCPAck      uint32 `at:"0x60,32"`
	VXLANGPEVNI      uint32 `at:"0x88,24"`
	VXLANGPEProtocol uint8  `at:"0xa0,8"`
	VXLANGPEFlags    uint8  `at:"0xa8,8"`
	ICMPHeader       uint32 `at:"0xc0,32"` // what follows the checksum
	ICMPv6Header     uint32 `at:"0xe0,32"`
	ICMPType         uint8  `at:"0x100,8"`
	ICMPCode         uint8  `at:"0x108,8"`
	ICMPv6Type       uint8  `at:"0x110,8"`
	ICMPv6Code       uint8  `at:"0x118,8"`
	GeneveOptionData uint32 `at:"0x120,32"`
	GTPUTEID         uint32 `at:"0x140,32"`
	GTPUMsgType      uint8  `at:"0x160,8"`
	GTPUMsgFlags     uint8  `at:"0x168,8"`
	GTPUWord2        uint32 `at:"0x180,32"`
	GTPUExtension    uint32 `at:"0x1a0,32"`
	GTPUWord0        uint32 `at:"0x1c0,32"`
}

// MatchMisc4 are the samples of the device's parser, each with the number that it got by DevX.
//
// C: fte_match_set_misc4.
type MatchMisc4 struct {
	Sample   [8]uint32 `at:"0x00,32,64"`
	SampleID [8]uint32 `at:"0x20,32,64"`
}

// MatchMisc5 are the fields of MACsec, and the words of a tunnel's header.
//
// C: fte_match_set_misc5.
type MatchMisc5 struct {
	MACsec [4]uint32 `at:"0x00,32,32"`
	Tunnel [4]uint32 `at:"0x80,32,32"`
}

// Sizes of the buffer.
const (
	partSize   = 64
	shortMatch = 5 * partSize // what the libraries and kernels of all releases take
)

// place is the tag "at".
type place struct{ bit, width, step int }

func placeOf(f *reflect.StructField) (p place, ok bool) {
	tag, ok := f.Tag.Lookup("at")
	if !ok {
		return p, false
	}
	for i, s := range strings.Split(tag, ",") {
		n, err := strconv.ParseInt(s, 0, 32)
		if err != nil {
			panic("mlx5dv: the place of " + f.Name + ": " + err.Error())
		}
		*[]*int{&p.bit, &p.width, &p.step}[i] = int(n)
	}
	return p, true
}

// eachField calls f with each field that is compared: its name, its place in the buffer, and its value.
func (m *Match) eachField(f func(name string, p place, v reflect.Value)) {
	parts := reflect.ValueOf(m).Elem()
	for i := range parts.NumField() {
		part, name := parts.Field(i), parts.Type().Field(i).Name
		for k := range part.NumField() {
			field := part.Type().Field(k)
			p, ok := placeOf(&field)
			if !ok {
				continue
			}
			p.bit += i * partSize * 8
			v := part.Field(k)
			if p.step == 0 {
				f(name+"."+field.Name, p, v)
				continue
			}
			for n := range v.Len() {
				f(fmt.Sprintf("%s.%s[%d]", name, field.Name, n), place{p.bit + n*p.step, p.width, 0}, v.Index(n))
			}
		}
	}
}

// encode returns the buffer. arg names the Match in errors.
func (m *Match) encode(arg string) ([]byte, error) {
	b := make([]byte, reflect.TypeFor[Match]().NumField()*partSize)
	var errs []error
	m.eachField(func(name string, p place, v reflect.Value) {
		if v.IsZero() {
			return
		}
		if v.Kind() == reflect.Array {
			at := b[p.bit/8:][:p.width/8]
			for i := range at {
				if at[i] |= byte(v.Index(i).Uint()); at[i] != byte(v.Index(i).Uint()) {
					errs = append(errs, &ibv.ArgError{Arg: arg + "." + name, Got: "set together with the IPv6 address",
						Want: "the address of one version"})
					return
				}
			}
			return
		}
		n := v.Uint()
		if bits.Len64(n) > p.width {
			errs = append(errs, &ibv.LimitError{What: arg + "." + name, Asked: n, Limit: 1<<p.width - 1,
				Where: fmt.Sprintf("a field of %d bits", p.width)})
			return
		}
		putBits(b, p.bit, p.width, n)
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	size := len(b)
	for size > shortMatch && allZero(b[size-partSize:size]) {
		size -= partSize
	}
	return b[:size], nil
}

// putBits adds v at a place of b, which is 0 there, in network order.
func putBits(b []byte, bit, width int, v uint64) {
	for i := range width {
		if at := bit + width - 1 - i; v>>i&1 != 0 {
			b[at/8] |= 0x80 >> (at % 8)
		}
	}
}

// parts returns a bit for each part of the buffer that has something in it.
func parts(b []byte) (set uint8) {
	for i := 0; i*partSize < len(b); i++ {
		if !allZero(b[i*partSize:][:partSize]) {
			set |= 1 << i
		}
	}
	return set
}

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// valueFor returns the buffer of a value for a matcher with a mask.
func (m *Match) valueFor(mask []byte) ([]byte, error) {
	if m == nil {
		m = new(Match)
	}
	b, err := m.encode("value")
	if err != nil {
		return nil, err
	}
	for i := range b {
		if i >= len(mask) || b[i]&^mask[i] != 0 {
			if allZero(b[i:]) {
				break
			}
			return nil, &ibv.ArgError{Arg: "value", Got: "a Match with bits of " + m.outside(mask) +
				" that are not in the mask", Want: "bits of the matcher's mask only"}
		}
	}
	v := make([]byte, len(mask))
	copy(v, b)
	return v, nil
}

// outside names the first field with bits that a mask lacks.
func (m *Match) outside(mask []byte) (first string) {
	m.eachField(func(name string, p place, v reflect.Value) {
		if first != "" || v.IsZero() {
			return
		}
		b := make([]byte, reflect.TypeFor[Match]().NumField()*partSize)
		if v.Kind() == reflect.Array {
			for i := range p.width / 8 {
				b[p.bit/8+i] = byte(v.Index(i).Uint())
			}
		} else {
			putBits(b, p.bit, p.width, v.Uint())
		}
		for i := range b {
			if b[i] != 0 && (i >= len(mask) || b[i]&^mask[i] != 0) {
				first = name
				return
			}
		}
	})
	return first
}
