//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

const (
	flagSolicited = 0x02
	flagCEMask    = 0x0c
	flagCEAlways  = 0x08
	flagFence     = 0xc0 // any of the modes that wait for READs and atomics. C: MLX5_FENCE_MODE_*

	inlineBit   = 1 << 31
	invalidLKey = 0x100
	maxWQE      = 63 * 16
	blockShift  = 6
)

// piece is a stretch of memory: n bytes at va of mem, or the bytes of inl, or nowhere: it reads as zeros and swallows
// what is written.
type piece struct {
	va, n uint64
	mem   guest.Mem
	inl   []byte
	zero  bool
	sig   *signed
}

// far reports whether a piece is not in m, where the other pieces of its message are: a device's memory, a dma-buf, a
// region of another process.
func (p *piece) far(m guest.Mem) bool { return p.mem != m && p.inl == nil && !p.zero }

// read fills b with bytes of a piece, from off on.
func (p *piece) read(off uint64, b []byte) error {
	switch {
	case p.zero:
		clear(b)
	case p.inl != nil:
		copy(b, p.inl[off:])
	case len(b) > 0:
		return p.mem.Read(p.va+off, b)
	}
	return nil
}

// gather fills b with the first bytes of a list of pieces.
func gather(list []piece, b []byte) error {
	for i := range list {
		p := &list[i]
		n := min(p.n, uint64(len(b)))
		if err := p.read(0, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

type sge struct {
	addr uint64
	n    uint32
	lkey uint32
	inl  []byte
}

// wqe is a parsed send WQE. Slices point into raw.
type wqe struct {
	raw    [maxWQE]byte
	size   int    // bytes
	blocks uint32 // of the ring
	idx    uint16
	qpn    uint32
	opcode uint8
	opmod  uint8
	flags  uint8
	is     traits // of the opcode
	imm    uint32

	remote uint64
	rkey   uint32
	srqn   uint32
	av     []byte // UD, DCI: 48 bytes
	eth    ethernet
	stream uint16  // DCI
	asize  uint32  // atomics: bytes
	swap   operand // or what to add
	cmp    operand
	smask  operand // or the field boundary
	cmask  operand
	umr    []byte // and TAG_MATCHING: all behind the control segment
	own    bool   // the adapter's, not the program's: of a rendezvous
	sges   [maxWQE / 16]sge
	nsge   int
	n      uint64 // bytes of payload
	inline uint32 // of them, that are in the WQE
}

// control reads the control segment.
func (w *wqe) control() {
	d := binary.BigEndian.Uint32(w.raw[0:])
	w.opmod, w.idx, w.opcode = uint8(d>>24), uint16(d>>8), uint8(d)
	d = binary.BigEndian.Uint32(w.raw[4:])
	w.qpn, w.size = d>>8, int(d&0x3f)*16
	w.stream = binary.BigEndian.Uint16(w.raw[9:])
	w.flags = w.raw[11]
	w.imm = binary.BigEndian.Uint32(w.raw[12:])
	w.blocks = uint32(w.size+63) >> blockShift
	w.is = opcodes[w.opcode]
}

// fenced reports whether a WQE waits for the READs and atomics before it.
func (w *wqe) fenced() bool { return w.flags&flagFence != 0 }

// segments are the bytes of a WQE that are not parsed yet.
type segments []byte

// next cuts off n bytes. It returns nil if there are fewer.
func (b *segments) next(n int) (s []byte) {
	if len(*b) >= n {
		s, *b = (*b)[:n], (*b)[n:]
	}
	return s
}

// parse reads the segments after the control segment. It returns the rule that is broken, or "". Of an opcode that
// the transport does not carry it reads nothing.
func (w *wqe) parse(t hca.QPType) string {
	w.nsge, w.n, w.inline, w.av, w.umr, w.own = 0, 0, 0, nil, nil, false
	if w.is == 0 {
		return RuleWQEOpcode
	}
	tr := transportOf(t)
	if w.is&tr.carries == 0 {
		return ""
	}
	b := segments(w.raw[16:w.size])
	switch w.opcode {
	case opNOP:
		return ""
	case opUMR, opTagMatch:
		w.umr = b
		return ""
	case opMMO, opSetPSV:
		if w.umr = b; len(b) != map[uint8]int{opMMO: 48, opSetPSV: 16}[w.opcode] {
			return RuleWQEFormat
		}
		return ""
	}
	if tr.segment > 0 {
		s := b.next(tr.segment)
		switch {
		case s == nil:
			return RuleWQEFormat
		case tr.segment == avSize:
			w.av = s
		default:
			w.srqn = binary.BigEndian.Uint32(s) & 0xffffff
		}
	}
	if t == hca.RawPacket {
		if rule := w.ethernet(&b); rule != "" {
			return rule
		}
	}
	if w.is&(isWrite|isRead|isAtomic) != 0 {
		s := b.next(16)
		if s == nil {
			return RuleWQEFormat
		}
		w.remote, w.rkey = binary.BigEndian.Uint64(s), binary.BigEndian.Uint32(s[8:])
	}
	if w.is&isAtomic != 0 && !w.operands(&b) {
		return RuleWQEFormat
	}
	return w.data(b)
}

// beyond returns the rule that a parsed WQE breaks because the device lacks what it uses, or "".
func (w *wqe) beyond(l *config.Limits) string {
	switch {
	case w.inline > uint32(l.MaxInline):
		return RuleWQEInline
	case w.is&isAtomic != 0 && w.asize > uint32(l.MaxAtomic):
		return RuleWQEOpcode
	}
	return ""
}

// data reads the data segments: a list of SGEs, inline bytes among them.
func (w *wqe) data(b segments) string {
	for len(b) > 0 {
		n := binary.BigEndian.Uint32(b)
		if n&inlineBit != 0 {
			n &^= inlineBit
			if int(n)+4 > len(b) {
				return RuleWQEFormat
			}
			w.sges[w.nsge] = sge{n: n, inl: b[4 : 4+n]}
			w.inline += n
			b = b[min(len(b), (int(n)+4+15)&^15):]
		} else {
			s := sge{n: n, lkey: binary.BigEndian.Uint32(b[4:]), addr: binary.BigEndian.Uint64(b[8:])}
			b = b[16:]
			if n == 0 {
				if s.lkey == invalidLKey {
					break
				}
				s.n = 1 << 31
			}
			w.sges[w.nsge] = s
		}
		w.n += uint64(w.sges[w.nsge].n)
		w.nsge++
	}
	return ""
}
