//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Where the device has the fields that matchers compare: bits from the start of a part. C: mlx5_ifc.h of rdma-core,
// fte_match_set_lyr_2_4, _misc, _misc2, _misc3.
const (
	partOuter = 0
	partMisc  = 1 * 512
	partInner = 2 * 512
	partMisc2 = 3 * 512
	partMisc3 = 4 * 512

	mpSrcMAC    = 0x00
	mpEtherType = 0x30
	mpDstMAC    = 0x40
	mpVLAN      = 0x70 // priority, CFI, VLAN ID
	mpProto     = 0x80
	mpTOS       = 0x88 // DSCP, ECN
	mpCVLAN     = 0x90
	mpSVLAN     = 0x91
	mpFragment  = 0x92
	mpVersion   = 0x93
	mpTCPFlags  = 0x97
	mpTCPPorts  = 0xa0
	mpL3OK      = 0xd4
	mpL4OK      = 0xd5
	mpIPv4SumOK = 0xd6
	mpL4SumOK   = 0xd7
	mpTTL       = 0xd8
	mpUDPPorts  = 0xe0
	mpSrcIP     = 0x100
	mpDstIP     = 0x180

	mpGREFlags    = 0x00 // checksum, key, sequence number: bits 0, 2 and 3
	mpOuterSecond = 0x40
	mpInnerSecond = 0x50
	mpSecondCVLAN = 0x60 // outer, inner
	mpSecondSVLAN = 0x62
	mpGREProtocol = 0x70
	mpGREKey      = 0x80
	mpVNI         = 0xa0
	mpOuterLabel  = 0xec
	mpInnerLabel  = 0x10c
	mpOuterSPI    = 0x180

	mpMPLS        = 0x00
	mpMPLSOverUDP = 0x60

	mpTCPSeq   = 0x00 // inner, outer
	mpTCPAck   = 0x40
	mpICMPData = 0xc0 // version 4, 6
	mpICMPType = 0x100
)

// param is a value with the fields of a frame, in the device's layout.
type param [hca.MatchSize]byte

// set stores the lowest width bits of v at a place.
func (p *param) set(at, width int, v uint64) { setBits(p[:], at, width, v) }

func (p *param) copyTo(at int, b []byte) { copy(p[at/8:], b) }

// flag stores whether something is so.
func (p *param) flag(at int, is bool) { p.set(at, 1, uint64(b2u(is))) }

// parse reads the frame in f.out anew.
func (f *frames) parse() {
	f.heads.parse(f.out)
	f.param = nil
}

// params returns the fields of the frame in f.out.
func (f *frames) params() []byte {
	if f.param == nil {
		p := new(param)
		f.heads.param(f.out, p)
		f.param = p
	}
	return f.param[:]
}

func (h *headers) param(f []byte, p *param) {
	h.outer.param(f, p, partOuter, mpOuterSecond, 0)
	h.inner.param(f, p, partInner, mpInnerSecond, 1)
	if g := h.gre; g != nil {
		p.flag(partMisc+mpGREFlags, g[0]&0x80 != 0)
		p.flag(partMisc+mpGREFlags+2, g[0]&0x20 != 0)
		p.flag(partMisc+mpGREFlags+3, g[0]&0x10 != 0)
		p.copyTo(partMisc+mpGREProtocol, g[2:4])
		p.copyTo(partMisc+mpGREKey, g[4:8])
	}
	if v := h.vxlan; v != nil {
		p.copyTo(partMisc+mpVNI, v[1:4])
	}
	if s := h.esp; s != nil {
		p.copyTo(partMisc+mpOuterSPI, s[:4])
	}
	if l := h.label; l != nil {
		at := mpMPLS
		if h.outer.proto == protoUDP {
			at = mpMPLSOverUDP
		}
		p.copyTo(partMisc2+at, l)
	}
}

// param writes the fields of one frame. second is where its second VLAN tag goes, and which is 0 for the outer frame, 1
// for the inner one.
func (l *layers) param(f []byte, p *param, part, second, which int) {
	if l.eth != nil {
		p.copyTo(part+mpSrcMAC, l.eth[6:12])
		p.copyTo(part+mpDstMAC, l.eth[:6])
		p.copyTo(part+mpEtherType, l.eth[12:14])
		l.tags(f, p, part, second, which)
	}
	if l.version == 0 {
		return
	}
	b := f[l.l3:]
	p.set(part+mpVersion, 4, uint64(l.version))
	p.flag(part+mpL3OK, true)
	icmp, label := 0, mpOuterLabel
	if which == 1 {
		label = mpInnerLabel
	}
	if l.version == 4 {
		p.copyTo(part+mpTOS, b[1:2])
		p.copyTo(part+mpTTL, b[8:9])
		p.copyTo(part+mpProto, b[9:10])
		p.copyTo(part+mpSrcIP+96, b[12:16])
		p.copyTo(part+mpDstIP+96, b[16:20])
		p.flag(part+mpFragment, binary.BigEndian.Uint16(b[6:])&0x3fff != 0)
		ok, _ := l.good(f)
		p.flag(part+mpIPv4SumOK, ok)
	} else {
		p.set(part+mpTOS, 8, uint64(b[0]<<4|b[1]>>4))
		p.copyTo(part+mpTTL, b[7:8])
		p.set(part+mpProto, 8, uint64(l.proto))
		p.copyTo(part+mpSrcIP, b[8:24])
		p.copyTo(part+mpDstIP, b[24:40])
		p.set(partMisc+label, 20, uint64(binary.BigEndian.Uint32(b)&0xfffff))
		icmp = 1
	}
	t := f[min(l.l4, len(f)):]
	switch {
	case l.ports != nil && l.proto == protoUDP:
		p.copyTo(part+mpUDPPorts, t[:4])
	case l.proto == protoTCP && len(t) >= 20:
		p.copyTo(part+mpTCPPorts, t[:4])
		p.set(part+mpTCPFlags, 9, uint64(binary.BigEndian.Uint16(t[12:])&0x1ff))
		p.copyTo(partMisc3+mpTCPSeq+32*(1-which), t[4:8])
		p.copyTo(partMisc3+mpTCPAck+32*(1-which), t[8:12])
	case which == 0 && len(t) >= 8 && (l.proto == protoICMP && icmp == 0 || l.proto == protoICMPv6 && icmp == 1):
		p.copyTo(partMisc3+mpICMPType+16*icmp, t[:2])
		p.copyTo(partMisc3+mpICMPData+32*icmp, t[4:8])
	}
	_, sum := l.good(f)
	p.flag(part+mpL4OK, l.ports != nil)
	p.flag(part+mpL4SumOK, sum)
}

// Numbers of protocols that only matchers compare.
const (
	protoICMP   = 1
	protoICMPv6 = 58
)

// tags writes the VLAN tags.
func (l *layers) tags(f []byte, p *param, part, second, which int) {
	at := l.l2 + 12
	for n := 0; n < 2 && len(f) >= at+4; n++ {
		kind := binary.BigEndian.Uint16(f[at:])
		if kind != etherVLAN && kind != etherQinQ {
			return
		}
		if n == 0 {
			p.copyTo(part+mpVLAN, f[at+2:at+4])
			p.flag(part+mpCVLAN, kind == etherVLAN)
			p.flag(part+mpSVLAN, kind == etherQinQ)
		} else {
			p.copyTo(partMisc+second, f[at+2:at+4])
			p.flag(partMisc+mpSecondCVLAN+which, kind == etherVLAN)
			p.flag(partMisc+mpSecondSVLAN+which, kind == etherQinQ)
		}
		at += 4
	}
}

// Comparable has a bit for each that matchers can compare.
var Comparable = comparable()

func comparable() []byte {
	p := new(param)
	ones := func(at, width int) {
		for i := range width {
			p.flag(at+i, true)
		}
	}
	for _, part := range []int{partOuter, partInner} {
		for _, f := range [][2]int{{mpSrcMAC, 48}, {mpEtherType, 16}, {mpDstMAC, 48}, {mpVLAN, 16}, {mpProto, 8},
			{mpTOS, 8}, {mpCVLAN, 1}, {mpSVLAN, 1}, {mpFragment, 1}, {mpVersion, 4}, {mpTCPFlags, 9},
			{mpTCPPorts, 32}, {mpL3OK, 1}, {mpL4OK, 1}, {mpIPv4SumOK, 1}, {mpL4SumOK, 1}, {mpTTL, 8}, {mpUDPPorts, 32},
			{mpSrcIP, 128}, {mpDstIP, 128}} {
			ones(part+f[0], f[1])
		}
	}
	for _, f := range [][2]int{{mpGREFlags, 1}, {mpGREFlags + 2, 2}, {mpOuterSecond, 32}, {mpSecondCVLAN, 4},
		{mpGREProtocol, 16}, {mpGREKey, 32}, {mpVNI, 24}, {mpOuterLabel, 20}, {mpInnerLabel, 20}, {mpOuterSPI, 32}} {
		ones(partMisc+f[0], f[1])
	}
	ones(partMisc2+mpMPLS, 32)
	ones(partMisc2+mpMPLSOverUDP, 32)
	for _, f := range [][2]int{{mpTCPSeq, 64}, {mpTCPAck, 64}, {mpICMPData, 64}, {mpICMPType, 32}} {
		ones(partMisc3+f[0], f[1])
	}
	return p[:]
}
