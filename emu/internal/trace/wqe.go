//go:build linux

package trace

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/opcode"
)

// What follows the control segment of an opcode.
const (
	hasRemote = 1 << iota
	hasAtomic
	hasMasked // an atomic whose operands depend on its size
	hasImm
	hasData
)

var shape = [256]uint8{
	0x01: hasImm | hasData, 0x08: hasRemote | hasData, 0x09: hasRemote | hasImm | hasData, 0x0a: hasData,
	0x0b: hasImm | hasData, 0x0e: hasData,
	0x10: hasRemote | hasData, 0x11: hasRemote | hasAtomic | hasData, 0x12: hasRemote | hasAtomic | hasData,
	0x14: hasRemote | hasMasked | hasData, 0x15: hasRemote | hasMasked | hasData, 0x25: hasImm,
	0x2f: hasData,
}

// wqe appends what a work request says, as far as its bytes reach.
func (l *line) wqe(t hca.QPType, w []byte) {
	if len(w) < 16 {
		return
	}
	be := binary.BigEndian
	op, mod, fl, stream := w[3], w[0], w[11], be.Uint16(w[9:])
	l.num("index", int64(be.Uint16(w[1:])))
	l.str("op", config.Name("Opcode", opcode.Names, op))
	l.num("ds", int64(w[7]&0x3f))
	l.flag("CE", fl&0x0c == 0x08)
	l.flag("SE", fl&0x02 != 0)
	l.flag("FENCE", fl&0xe0 == 0x80)
	l.flag("SMALL_FENCE", fl&0xe0 == 0x20)
	s := shape[op]
	if s&hasImm != 0 {
		l.hex(map[bool]string{true: "key", false: "imm"}[op == 0x01 || op == 0x25], uint64(be.Uint32(w[12:])))
	}
	w = w[16:]
	next := func(n int) (p []byte) {
		if n > len(w) {
			n = len(w)
		}
		p, w = w[:n], w[n:]
		return p
	}
	switch op { // what is not for the peer names none
	case 0x2f:
		next(16) // where the device may write what it notes
		t = hca.RC
	case 0x20, 0x25:
		t = hca.RC
	}
	switch t {
	case hca.UD:
		if p := next(48); len(p) == 48 {
			l.hex("qkey", uint64(be.Uint32(p)))
			l.hex("dqpn", uint64(be.Uint32(p[8:])&0xffffff))
		}
	case hca.RawPacket:
		if p := next(16); len(p) == 16 && op != 0 {
			l.flag("L3_CSUM", p[4]&0x40 != 0)
			l.flag("L4_CSUM", p[4]&0x80 != 0)
			if mss := be.Uint16(p[6:]); mss != 0 {
				l.num("mss", int64(mss))
			}
			n := be.Uint16(p[12:])
			if n&0x8000 != 0 {
				l.hex("vlan", uint64(be.Uint16(p[14:])))
				break
			}
			l.num("header", int64(n))
			if n > 2 {
				next(int(n-2+15) &^ 15)
			}
		}
	case hca.DCI:
		if p := next(48); len(p) == 48 && op != 0 {
			l.hex("dc_key", be.Uint64(p))
			l.hex("dqpn", uint64(be.Uint32(p[8:])&0xffffff))
			if stream != 0 {
				l.num("stream", int64(stream))
			}
		}
	case hca.XRCSend:
		if p := next(16); len(p) == 16 && op != 0 {
			l.hex("srqn", uint64(be.Uint32(p)))
		}
	}
	if s&hasRemote != 0 {
		if p := next(16); len(p) == 16 {
			l.hex("raddr", be.Uint64(p))
			l.hex("rkey", uint64(be.Uint32(p[8:])))
		}
	}
	if s&hasAtomic != 0 {
		if p := next(16); len(p) == 16 {
			l.hex("swap_add", be.Uint64(p))
			l.hex("compare", be.Uint64(p[8:]))
		}
	}
	if s&hasMasked != 0 {
		n := 8
		if mod >= 8 {
			n = 4 << (mod & 3)
		}
		l.num("atomic_size", int64(n))
		l.bytes("atomic", next((map[bool]int{true: 4, false: 2}[op == 0x14]*n+15)&^15))
	}
	if op == 0x25 {
		l.umr(w)
	}
	if op == 0x28 {
		l.tag(next(32))
		if len(w) >= 16 {
			s |= hasData
		}
	}
	if s&hasData == 0 || len(w) < 4 {
		return
	}
	if n := be.Uint32(w); n>>31 != 0 {
		l.num("inline", int64(n&0x7fffffff))
		return
	}
	l.open("sges", '[')
	for len(w) >= 16 {
		p := next(16)
		l.open("", '{')
		l.hex("lkey", uint64(be.Uint32(p[4:])))
		l.hex("addr", be.Uint64(p[8:]))
		l.num("len", int64(be.Uint32(p)))
		l.close('}')
	}
	l.close(']')
}

// tag appends what a tag matching segment says.
func (l *line) tag(w []byte) {
	if len(w) < 32 {
		return
	}
	be := binary.BigEndian
	l.open("tm", '{')
	l.str("op", [...]string{"NOP", "APPEND", "REMOVE"}[min(w[0]>>4, 2)])
	l.flag("CQE", w[1]&(1<<7) != 0)
	if w[1]&(1<<6) != 0 {
		l.num("handled", int64(be.Uint16(w[6:])))
	}
	if w[0]>>4 != 0 {
		l.num("index", int64(be.Uint16(w[2:])))
	}
	if w[0]>>4 == 1 {
		l.hex("tag", be.Uint64(w[16:]))
		l.hex("mask", be.Uint64(w[24:]))
	}
	l.close('}')
}

// umr appends what changes a memory key: control segment, key context, and the first translation entry. Fields that the
// change does not use are left out: libmlx5 leaves there what stood in the ring.
func (l *line) umr(w []byte) {
	if len(w) < 112 {
		return
	}
	be := binary.BigEndian
	ctx, klm := w[48:112], w[112:]
	l.open("umr", '{')
	l.hex("flags", uint64(w[0]))
	l.hex("mask", be.Uint64(w[8:]))
	l.flag("FREE", ctx[0]&(1<<6) != 0)
	l.hex("qpn", uint64(be.Uint32(ctx[4:])>>8))
	l.hex("variant", uint64(ctx[7]))
	if be.Uint16(w[4:]) > 0 && len(klm) >= 16 {
		l.hex("access", uint64(ctx[2]))
		l.hex("start", be.Uint64(ctx[16:]))
		l.num("len", int64(be.Uint64(ctx[24:])))
		l.hex("lkey", uint64(be.Uint32(klm[4:])))
		l.hex("addr", be.Uint64(klm[8:]))
		l.num("entry_len", int64(be.Uint32(klm)))
	}
	l.close('}')
}
