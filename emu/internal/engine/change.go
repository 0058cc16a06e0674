//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Fields that a header action changes. C: MLX5_ACTION_IN_FIELD_OUT_*.
const (
	fieldSrcMACHigh = 0x01
	fieldSrcMACLow  = 0x02
	fieldEtherType  = 0x03
	fieldDstMACHigh = 0x04
	fieldDstMACLow  = 0x05
	fieldDSCP       = 0x06
	fieldTCPFlags   = 0x07
	fieldTCPSrc     = 0x08
	fieldTCPDst     = 0x09
	fieldTTL        = 0x0a
	fieldUDPSrc     = 0x0b
	fieldUDPDst     = 0x0c
	fieldSrcIPv6    = 0x0d // four of them
	fieldDstIPv6    = 0x11
	fieldSrcIPv4    = 0x15
	fieldDstIPv4    = 0x16
	fieldVLANID     = 0x17
	fieldHopLimit   = 0x47
	fieldTCPSeq     = 0x59
	fieldTCPAck     = 0x5b
	fieldECN        = 0x73
)

// FieldWidth returns the width of a field that header actions can change, 0 if there is none. Registers are none:
// nothing here reads them.
func FieldWidth(field uint16) int {
	switch field {
	case fieldDSCP:
		return 6
	case fieldTCPFlags:
		return 9
	case fieldTTL, fieldHopLimit:
		return 8
	case fieldECN:
		return 2
	case fieldVLANID:
		return 12
	case fieldSrcMACLow, fieldDstMACLow, fieldEtherType, fieldTCPSrc, fieldTCPDst, fieldUDPSrc, fieldUDPDst:
		return 16
	case fieldSrcMACHigh, fieldDstMACHigh, fieldSrcIPv4, fieldDstIPv4, fieldTCPSeq, fieldTCPAck:
		return 32
	}
	if field >= fieldSrcIPv6 && field < fieldDstIPv6+4 {
		return 32
	}
	return 0
}

// fieldAt returns the first bit of a field of the frame, -1 if the frame has no such header.
func (l *layers) fieldAt(f []byte, field uint16) int {
	var at int
	is := true
	ipv4, ipv6 := l.version == 4, l.version == 6
	tcp, udp := l.proto == protoTCP && len(f) >= l.l4+20, l.proto == protoUDP && l.ports != nil
	switch field {
	case fieldSrcMACHigh:
		at = 6 * 8
	case fieldSrcMACLow:
		at = 10 * 8
	case fieldDstMACHigh:
		at = 0
	case fieldDstMACLow:
		at = 4 * 8
	case fieldEtherType:
		at = 12 * 8
		if l.version != 0 {
			at = (l.l3 - 2) * 8
		}
	case fieldVLANID:
		at, is = 14*8+4, binary.BigEndian.Uint16(f[12:]) == etherVLAN
	case fieldDSCP:
		if at = l.l3*8 + 8; ipv6 {
			at = l.l3*8 + 4
		}
		is = ipv4 || ipv6
	case fieldECN:
		if at = l.l3*8 + 14; ipv6 {
			at = l.l3*8 + 10
		}
		is = ipv4 || ipv6
	case fieldTTL:
		at, is = (l.l3+8)*8, ipv4
	case fieldHopLimit:
		at, is = (l.l3+7)*8, ipv6
	case fieldSrcIPv4:
		at, is = (l.l3+12)*8, ipv4
	case fieldDstIPv4:
		at, is = (l.l3+16)*8, ipv4
	case fieldTCPSrc:
		at, is = l.l4*8, tcp
	case fieldTCPDst:
		at, is = (l.l4+2)*8, tcp
	case fieldTCPSeq:
		at, is = (l.l4+4)*8, tcp
	case fieldTCPAck:
		at, is = (l.l4+8)*8, tcp
	case fieldTCPFlags:
		at, is = (l.l4+12)*8+7, tcp
	case fieldUDPSrc:
		at, is = l.l4*8, udp
	case fieldUDPDst:
		at, is = (l.l4+2)*8, udp
	default: // a word of an IPv6 address
		at, is = (l.l3+8+4*int(field-fieldSrcIPv6))*8, ipv6
	}
	if !is {
		return -1
	}
	return at
}

func getBits(b []byte, at, width int) (v uint32) {
	for i := at; i < at+width; i++ {
		v = v<<1 | uint32(b[i/8]>>(7-i%8)&1)
	}
	return v
}

func setBits(b []byte, at, width int, v uint32) {
	for i := at + width - 1; i >= at; i-- {
		b[i/8] = b[i/8]&^(0x80>>(i%8)) | byte(v&1)<<(7-i%8)
		v >>= 1
	}
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
			setBits(f.out, low, length, h.Value)
		case hca.HeaderAdd:
			setBits(f.out, at, width, getBits(f.out, at, width)+h.Value)
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
