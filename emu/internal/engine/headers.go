//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Numbers of protocols.
const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100
	etherQinQ = 0x88a8
	etherMPLS = 0x8847
	etherTEB  = 0x6558 // Ethernet in GRE

	protoTCP = 6
	protoUDP = 17
	protoGRE = 47
	protoESP = 50

	portVXLAN = 4789
	portMPLS  = 6635

	portGeneve = 6081
)

// etherHeader is the size of an Ethernet header.
const etherHeader = 14

// layers are the headers of a frame, or of the frame in it, as far as they are known; each in the order of the
// fields of a rule's filter, nil if it is not there.
type layers struct {
	eth, ipv4, ipv6, ports []byte
	version                uint8 // of IP; 0: none
	proto                  uint8 // above IP; 0: none, or a fragment's
	l2, l3, l4             int   // offsets
	end                    int   // of what IP says that it carries
}

// headers is what a device's parser finds in a frame.
type headers struct {
	outer, inner           layers
	vxlan, esp, gre, label []byte
	store                  [2 * (16 + 40 + 4)]byte // where the fields are put in order
	used                   int
}

func (h *headers) put(n int) []byte {
	b := h.store[h.used : h.used+n : h.used+n]
	h.used += n
	return b
}

// parse reads a frame of at least an Ethernet header.
func (h *headers) parse(f []byte) {
	*h = headers{}
	kind, at := h.ethernet(&h.outer, f, 0)
	if kind == etherMPLS && len(f) >= at+4 {
		h.mpls(f, at)
		return
	}
	h.ip(&h.outer, f, kind, at)
	o := &h.outer
	switch b := f[min(o.l4, len(f)):]; {
	case o.proto == protoESP && len(b) >= 8:
		h.esp = b[:8]
	case o.proto == protoUDP && o.ports != nil && binary.BigEndian.Uint16(o.ports) == portVXLAN &&
		len(b) >= 16+etherHeader:
		h.vxlan = h.put(4)
		copy(h.vxlan[1:], b[12:15])
		kind, at = h.ethernet(&h.inner, f, o.l4+16)
		h.ip(&h.inner, f, kind, at)
	case o.proto == protoUDP && o.ports != nil && binary.BigEndian.Uint16(o.ports) == portMPLS && len(b) >= 12:
		h.mpls(f, o.l4+8)
	case o.proto == protoUDP && o.ports != nil && binary.BigEndian.Uint16(o.ports) == portGeneve && len(b) >= 16:
		const options = 0x3f // words of them
		h.within(f, binary.BigEndian.Uint16(b[10:]), o.l4+16+int(b[8]&options)*4)
	case o.proto == protoGRE && len(b) >= 4:
		h.tunnelGRE(f, o.l4)
	}
}

// ethernet reads an Ethernet header at a place of a frame. It returns the kind of what follows, and where.
func (h *headers) ethernet(l *layers, f []byte, at int) (uint16, int) {
	l.eth, l.l2 = h.put(16), at
	copy(l.eth, f[at:at+12])
	kind, next := binary.BigEndian.Uint16(f[at+12:]), at+etherHeader
	for (kind == etherVLAN || kind == etherQinQ) && len(f) >= next+4 {
		if kind == etherVLAN {
			copy(l.eth[14:], f[next:next+2])
		}
		kind, next = binary.BigEndian.Uint16(f[next+2:]), next+4
	}
	binary.BigEndian.PutUint16(l.eth[12:], kind)
	return kind, next
}

// ip reads an IP header, and the ports behind it.
func (h *headers) ip(l *layers, f []byte, kind uint16, at int) {
	b := f[min(at, len(f)):]
	l.l3 = at
	switch {
	case kind == etherIPv4 && len(b) >= 20 && b[0]>>4 == 4 && b[0]&15 >= 5 && len(b) >= int(b[0]&15)*4:
		l.version, l.proto = 4, b[9]
		l.ipv4 = h.put(12)
		copy(l.ipv4, b[12:20])
		l.ipv4[8], l.ipv4[9], l.ipv4[10], l.ipv4[11] = b[9], b[1], b[8], b[6]>>5
		l.l4, l.end = at+int(b[0]&15)*4, at+int(binary.BigEndian.Uint16(b[2:]))
		if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 {
			l.proto = 0 // a fragment
		}
	case kind == etherIPv6 && len(b) >= 40 && b[0]>>4 == 6:
		l.version = 6
		l.ipv6 = h.put(40)
		copy(l.ipv6, b[8:40])
		binary.BigEndian.PutUint32(l.ipv6[32:], binary.BigEndian.Uint32(b)&0xfffff)
		l.end = at + 40 + int(binary.BigEndian.Uint16(b[4:]))
		next, off := b[6], 40
		for (next == 0 || next == 43 || next == 60) && len(b) >= off+8 { // options and routing
			next, off = b[off], off+8+int(b[off+1])*8
		}
		l.proto, l.l4 = next, at+off
		l.ipv6[36], l.ipv6[37], l.ipv6[38] = next, b[0]<<4|b[1]>>4, b[7]
	default:
		return
	}
	if (l.proto == protoTCP || l.proto == protoUDP) && len(f) >= l.l4+4 {
		l.ports = h.put(4)
		copy(l.ports, f[l.l4+2:l.l4+4])
		copy(l.ports[2:], f[l.l4:l.l4+2])
	}
}

// mpls reads a stack of labels, of which rules compare the first.
func (h *headers) mpls(f []byte, at int) {
	h.label = f[at : at+4]
	for at+4 <= len(f) {
		bottom := f[at+2]&1 != 0
		if at += 4; bottom {
			break
		}
	}
	h.innerIP(f, at)
}

func (h *headers) innerIP(f []byte, at int) {
	if at < len(f) {
		h.ip(&h.inner, f, map[byte]uint16{4: etherIPv4, 6: etherIPv6}[f[at]>>4], at)
	}
}

func (h *headers) tunnelGRE(f []byte, at int) {
	b := f[at:]
	h.gre = h.put(8)
	copy(h.gre, b[:4])
	size := 4
	if b[0]&0x80 != 0 { // checksum
		size += 4
	}
	if b[0]&0x20 != 0 { // key
		if len(b) >= size+4 {
			copy(h.gre[4:], b[size:size+4])
		}
		size += 4
	}
	if b[0]&0x10 != 0 { // sequence number
		size += 4
	}
	h.within(f, binary.BigEndian.Uint16(b[2:]), at+size)
}

// within reads what a tunnel says is behind its header.
func (h *headers) within(f []byte, kind uint16, at int) {
	switch kind {
	case etherTEB:
		if len(f) >= at+etherHeader {
			kind, next := h.ethernet(&h.inner, f, at)
			h.ip(&h.inner, f, kind, next)
		}
	case etherIPv4, etherIPv6:
		h.ip(&h.inner, f, kind, at)
	}
}

// fields returns the fields that a spec of a rule compares, nil if the frame has no such header.
func (h *headers) fields(spec uint32) []byte {
	l := &h.outer
	if spec&hca.SpecInner != 0 {
		l = &h.inner
	}
	switch spec &^ hca.SpecInner {
	case hca.SpecEth:
		return l.eth
	case hca.SpecIPv4:
		return l.ipv4
	case hca.SpecIPv6:
		return l.ipv6
	case hca.SpecTCP:
		if l.proto == protoTCP {
			return l.ports
		}
	case hca.SpecUDP:
		if l.proto == protoUDP {
			return l.ports
		}
	case hca.SpecESP:
		return h.esp
	case hca.SpecVXLAN:
		return h.vxlan
	case hca.SpecGRE:
		return h.gre
	case hca.SpecMPLS:
		return h.label
	}
	return nil
}

func getBits(b []byte, at, width int) (v uint64) {
	for i := at; i < at+width; i++ {
		v = v<<1 | uint64(b[i/8]>>(7-i%8)&1)
	}
	return v
}

func setBits(b []byte, at, width int, v uint64) {
	for i := at + width - 1; i >= at; i-- {
		b[i/8] = b[i/8]&^(0x80>>(i%8)) | byte(v&1)<<(7-i%8)
		v >>= 1
	}
}

// sum adds bytes to a sum in ones' complement.
func sum(s uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return s
}

// transport returns what the checksum above IP covers, its place in that, and the sum of the pseudo header.
func (l *layers) transport(f []byte) (covered []byte, at int, pseudo uint32, ok bool) {
	at = 16
	switch {
	case l.version == 0, l.end > len(f), l.end < l.l4:
		return nil, 0, 0, false
	case l.proto == protoUDP:
		at = 6
	case l.proto != protoTCP:
		return nil, 0, 0, false
	}
	covered = f[l.l4:l.end]
	if len(covered) < at+2 {
		return nil, 0, 0, false
	}
	if l.version == 4 {
		pseudo = sum(0, f[l.l3+12:l.l3+20])
	} else {
		pseudo = sum(0, f[l.l3+8:l.l3+40])
	}
	return covered, at, sum(pseudo+uint32(l.proto)+uint32(len(covered)), nil), true
}

// ipv4Header returns the header whose checksum is in it.
func (l *layers) ipv4Header(f []byte) []byte { return f[l.l3:l.l4] }

// fill computes the checksums of a frame, as a WQE asks for.
func (l *layers) fill(f []byte, ip, transport bool) {
	if transport {
		if b, at, pseudo, ok := l.transport(f); ok {
			b[at], b[at+1] = 0, 0
			s := ^uint16(sum(pseudo, b))
			if s == 0 && l.proto == protoUDP {
				s = 0xffff
			}
			binary.BigEndian.PutUint16(b[at:], s)
		}
	}
	if ip && l.version == 4 {
		b := l.ipv4Header(f)
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], ^uint16(sum(0, b)))
	}
}

// good reports which checksums of a frame are right.
func (l *layers) good(f []byte) (ip, transport bool) {
	ip = l.version == 6 || l.version == 4 && sum(0, l.ipv4Header(f)) == 0xffff
	b, at, pseudo, ok := l.transport(f)
	transport = ok && (sum(pseudo, b) == 0xffff || l.proto == protoUDP && l.version == 4 && b[at] == 0 && b[at+1] == 0)
	return ip, transport
}
