//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// field is where a header action finds a field of the frame: bits from the start of a layer, if the frame has that.
type field struct {
	width int
	in    layer
	at    int
}

// layer is a header of a frame.
type layer uint8

const (
	inFrame layer = iota
	inVLAN        // of the frame, with a tag
	inType        // 2 bytes before IP, or of the frame without IP
	inIP          // version 4 or 6: at is that of version 4; version 6 has the field 4 bits before
	inIPv4
	inIPv6
	inTCP
	inUDP
)

// fields has those that a header action changes. C: MLX5_ACTION_IN_FIELD_OUT_*.
var fields = [0x80]field{
	0x01: {32, inFrame, 6 * 8},   // SMAC_47_16
	0x02: {16, inFrame, 10 * 8},  // SMAC_15_0
	0x03: {16, inType, 12 * 8},   // ETHERTYPE
	0x04: {32, inFrame, 0},       // DMAC_47_16
	0x05: {16, inFrame, 4 * 8},   // DMAC_15_0
	0x06: {6, inIP, 8},           // IP_DSCP
	0x07: {9, inTCP, 12*8 + 7},   // TCP_FLAGS
	0x08: {16, inTCP, 0},         // TCP_SPORT
	0x09: {16, inTCP, 2 * 8},     // TCP_DPORT
	0x0a: {8, inIPv4, 8 * 8},     // IP_TTL
	0x0b: {16, inUDP, 0},         // UDP_SPORT
	0x0c: {16, inUDP, 2 * 8},     // UDP_DPORT
	0x0d: {32, inIPv6, 8 * 8},    // SIPV6_127_96, and three that follow
	0x0e: {32, inIPv6, 12 * 8},   //
	0x0f: {32, inIPv6, 16 * 8},   //
	0x10: {32, inIPv6, 20 * 8},   //
	0x11: {32, inIPv6, 24 * 8},   // DIPV6_127_96, and three that follow
	0x12: {32, inIPv6, 28 * 8},   //
	0x13: {32, inIPv6, 32 * 8},   //
	0x14: {32, inIPv6, 36 * 8},   //
	0x15: {32, inIPv4, 12 * 8},   // SIPV4
	0x16: {32, inIPv4, 16 * 8},   // DIPV4
	0x17: {12, inVLAN, 14*8 + 4}, // FIRST_VID
	0x47: {8, inIPv6, 7 * 8},     // IPV6_HOPLIMIT
	0x59: {32, inTCP, 4 * 8},     // TCP_SEQ_NUM
	0x5b: {32, inTCP, 8 * 8},     // TCP_ACK_NUM
	0x73: {2, inIP, 14},          // IP_ECN
}

// FieldWidth returns the width of a field that header actions can change, 0 if there is none. Registers are none:
// nothing here reads them.
func FieldWidth(number uint16) int {
	if int(number) >= len(fields) {
		return 0
	}
	return fields[number].width
}

// fieldAt returns the first bit of a field of the frame, -1 if the frame has no such header.
func (l *layers) fieldAt(f []byte, number uint16) int {
	at, is, from := fields[number].at, true, 0
	switch fields[number].in {
	case inVLAN:
		is = binary.BigEndian.Uint16(f[12:]) == etherVLAN
	case inType:
		if l.version != 0 {
			at = (l.l3 - 2) * 8
		}
	case inIP:
		if is, from = l.version != 0, l.l3; l.version == 6 {
			at -= 4
		}
	case inIPv4:
		is, from = l.version == 4, l.l3
	case inIPv6:
		is, from = l.version == 6, l.l3
	case inTCP:
		is, from = l.proto == protoTCP && len(f) >= l.l4+20, l.l4
	case inUDP:
		is, from = l.proto == protoUDP && l.ports != nil, l.l4
	}
	if !is {
		return -1
	}
	return from*8 + at
}

// change does what a rule says to the frame in f.out. It reports whether a frame is left.
func (f *frames) change(r *hca.Flow) bool {
	for _, stage := range []func(*hca.FrameAction) bool{f.leaveTunnel, f.rewrite, f.enterTunnel} {
		for _, a := range r.Changes {
			if !stage(a) {
				return false
			}
		}
	}
	return true
}

// rewrite changes headers. Checksums that were right are right again.
func (f *frames) rewrite(a *hca.FrameAction) bool {
	if a.Header == nil {
		return true
	}
	l := &f.heads.outer
	ip, transport := l.good(f.out)
	if b, at, _, ok := l.transport(f.out); ok && b[at] == 0 && b[at+1] == 0 {
		transport = false // UDP without a checksum
	}
	for _, h := range a.Header {
		at, width, length := l.fieldAt(f.out, h.Field), FieldWidth(h.Field), int(h.Length)
		if at < 0 {
			continue
		}
		low := at + width - int(h.Offset) - length // of the bits that change
		switch h.Kind {
		case hca.HeaderSet:
			setBits(f.out, low, length, uint64(h.Value))
		case hca.HeaderAdd:
			setBits(f.out, at, width, getBits(f.out, at, width)+uint64(h.Value))
		case hca.HeaderCopy:
			if from := l.fieldAt(f.out, h.From); from >= 0 {
				setBits(f.out, low, length,
					getBits(f.out, from+FieldWidth(h.From)-int(h.FromOffset)-length, length))
			}
		}
	}
	f.parse()
	f.heads.outer.fill(f.out, ip, transport)
	f.parse()
	return true
}

// leaveTunnel takes the frame out of a tunnel. A frame in none is lost.
func (f *frames) leaveTunnel(a *hca.FrameAction) bool {
	if a.Header != nil {
		return true
	}
	in := &f.heads.inner
	switch a.Reformat {
	case hca.L2FromTunnel:
		if in.eth == nil {
			return false
		}
		f.out = append(f.out[:0], f.out[in.l2:]...)
	case hca.L3FromTunnel:
		if in.eth != nil || in.version == 0 {
			return false
		}
		f.out = append(append([]byte(nil), a.Data...), f.out[in.l3:]...)
	}
	f.parse()
	return true
}

// enterTunnel puts the frame in a tunnel, whose lengths the device fills in.
func (f *frames) enterTunnel(a *hca.FrameAction) bool {
	if a.Header != nil {
		return true
	}
	switch a.Reformat {
	case hca.L2ToTunnel:
		f.out = append(append([]byte(nil), a.Data...), f.out...)
	case hca.L3ToTunnel:
		if f.heads.outer.version == 0 {
			return false
		}
		f.out = append(append([]byte(nil), a.Data...), f.out[f.heads.outer.l3:]...)
	default:
		return true
	}
	f.heads.parse(f.out)
	l := &f.heads.outer
	switch l.version {
	case 4:
		binary.BigEndian.PutUint16(f.out[l.l3+2:], uint16(len(f.out)-l.l3))
	case 6:
		binary.BigEndian.PutUint16(f.out[l.l3+4:], uint16(len(f.out)-l.l3-40))
	}
	if l.proto == protoUDP && l.ports != nil && len(f.out) >= l.l4+8 {
		binary.BigEndian.PutUint16(f.out[l.l4+4:], uint16(len(f.out)-l.l4))
	}
	f.parse()
	f.heads.outer.fill(f.out, true, false)
	f.parse()
	return true
}
