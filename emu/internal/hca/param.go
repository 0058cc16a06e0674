//go:build linux

package hca

import "bytes"

// MatchSize is the size of the fields that a matcher compares, in the device's layout: outer headers, tunnels, inner
// headers, MPLS and registers, TCP and ICMP, 64 bytes each.
const MatchSize = 5 * matchPart

const matchPart = 64

// Param is what a rule of a matcher compares: the fields of a frame under a mask.
type Param struct {
	Value    []byte
	mask     []byte
	criteria uint8 // a bit for each part of the mask
}

func newParam(criteria uint8, value, mask []byte) *Param {
	p := &Param{make([]byte, MatchSize), make([]byte, MatchSize), criteria}
	copy(p.Value, value)
	copy(p.mask, mask)
	return p
}

// Matches reports whether the rule is about a frame with these fields.
func (p *Param) Matches(fields []byte) bool { return masked(fields, p.mask, p.Value) }

// masked reports whether bytes are as a value has them under a mask.
func masked(b, mask, value []byte) bool {
	for i, m := range mask {
		if b[i]&m != value[i] {
			return false
		}
	}
	return true
}

// Places of fields in the outer headers.
const (
	paramDstMAC  = 8
	paramDstIPv4 = 60
)

// multicast reports whether the rule is for a multicast address. C: raw_fs_is_multicast.
func (p *Param) multicast() bool {
	multicastIP := func(b []byte) bool { return b[paramDstIPv4]&0xf0 == 0xe0 }
	return p.criteria&1 != 0 && (p.Value[paramDstMAC]&p.mask[paramDstMAC]&1 != 0 ||
		multicastIP(p.Value) && multicastIP(p.mask))
}

// same reports whether two rules are of matchers, or neither is, and about the same frames.
func (p *Param) same(o *Param) bool {
	if p == nil || o == nil {
		return p == o
	}
	return bytes.Equal(p.Value, o.Value) && bytes.Equal(p.mask, o.mask)
}
