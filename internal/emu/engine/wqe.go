//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

// Opcodes of send WQEs. C: MLX5_OPCODE_*.
const (
	opNOP        = 0x00
	opSendInval  = 0x01
	opWrite      = 0x08
	opWriteImm   = 0x09
	opSend       = 0x0a
	opSendImm    = 0x0b
	opTSO        = 0x0e
	opRead       = 0x10
	opAtomicCS   = 0x11
	opAtomicFA   = 0x12
	opMaskedCS   = 0x14
	opMaskedFA   = 0x15
	opFMR        = 0x19
	opLocalInval = 0x1b
	opConfigCmd  = 0x1f
	opSetPSV     = 0x20
	opUMR        = 0x25
	opTagMatch   = 0x28
	opFlowTable  = 0x2c
	opMMO        = 0x2f
)

const (
	flagSolicited = 0x02
	flagCEMask    = 0x0c
	flagCEAlways  = 0x08

	inlineBit   = 1 << 31
	invalidLKey = 0x100
	maxWQE      = 63 * 16
	blockShift  = 6
)

// What the opcodes are: bits of opInfo.
const (
	isKnown  = 1 << iota // known to the format; without another bit it ends with a local QP operation error
	isSend               // consumes a receive
	isWrite              // remote write
	isRead               // remote read
	isAtomic             // remote atomic
	isLocal              // goes nowhere
	isImm
	onRC
	onUC
	onUD
)

var opInfo = [256]uint16{
	opNOP:       isKnown | isLocal | onRC | onUC | onUD,
	opSend:      isKnown | isSend | onRC | onUC | onUD,
	opSendImm:   isKnown | isSend | isImm | onRC | onUC | onUD,
	opSendInval: isKnown | isSend | onRC,
	opWrite:     isKnown | isWrite | onRC | onUC,
	opWriteImm:  isKnown | isWrite | isSend | isImm | onRC | onUC,
	opRead:      isKnown | isRead | onRC,
	opAtomicCS:  isKnown | isAtomic | onRC,
	opAtomicFA:  isKnown | isAtomic | onRC,
	opMaskedCS:  isKnown | isAtomic | onRC,
	opMaskedFA:  isKnown | isAtomic | onRC,
	opUMR:       isKnown | isLocal | onRC | onUC,
	opTSO:       isKnown, opFMR: isKnown, opLocalInval: isKnown, opConfigCmd: isKnown, opSetPSV: isKnown, opTagMatch: isKnown, opFlowTable: isKnown, opMMO: isKnown,
}

func onType(t hca.QPType) uint16 {
	switch t {
	case hca.RC, hca.XRCSend:
		return onRC
	case hca.UC:
		return onUC
	case hca.UD:
		return onUD
	}
	return 0
}

// piece is a stretch of memory: n bytes at va of a program, or the bytes of inl, or nowhere (reads as zeros, swallows what is written).
type piece struct {
	va, n uint64
	inl   []byte
	zero  bool
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
	info   uint16
	imm    uint32

	remote uint64
	rkey   uint32
	srqn   uint32
	av     []byte // UD: 48 bytes
	asize  uint32 // atomics: bytes
	swap   uint64 // or what to add
	cmp    uint64
	smask  uint64 // or the field boundary
	cmask  uint64
	umr    []byte
	sges   [maxWQE / 16]sge
	nsge   int
	n      uint64 // bytes of payload
	inline bool
}

// control reads the control segment.
func (w *wqe) control() {
	d := binary.BigEndian.Uint32(w.raw[0:])
	w.opmod, w.idx, w.opcode = uint8(d>>24), uint16(d>>8), uint8(d)
	d = binary.BigEndian.Uint32(w.raw[4:])
	w.qpn, w.size = d>>8, int(d&0x3f)*16
	w.flags = w.raw[11]
	w.imm = binary.BigEndian.Uint32(w.raw[12:])
	w.blocks = uint32(w.size+63) >> blockShift
	w.info = opInfo[w.opcode]
}

// parse reads the segments after the control segment. It returns the rule that is broken, or "".
func (w *wqe) parse(t hca.QPType) string {
	w.nsge, w.n, w.inline, w.av, w.umr = 0, 0, false, nil, nil
	if w.info == 0 {
		return RuleWQEOpcode
	}
	if w.info&onType(t) == 0 {
		return ""
	}
	b := w.raw[16:w.size]
	take := func(n int) (s []byte) {
		if len(b) >= n {
			s, b = b[:n], b[n:]
		}
		return s
	}
	if w.opcode == opNOP {
		return ""
	}
	if w.opcode == opUMR {
		w.umr = b
		return ""
	}
	switch t {
	case hca.XRCSend:
		s := take(16)
		if s == nil {
			return RuleWQEFormat
		}
		w.srqn = binary.BigEndian.Uint32(s) & 0xffffff
	case hca.UD:
		if w.av = take(48); w.av == nil {
			return RuleWQEFormat
		}
	}
	if w.info&(isWrite|isRead|isAtomic) != 0 {
		s := take(16)
		if s == nil {
			return RuleWQEFormat
		}
		w.remote, w.rkey = binary.BigEndian.Uint64(s), binary.BigEndian.Uint32(s[8:])
	}
	if w.info&isAtomic != 0 && !w.atomic(take) {
		return RuleWQEFormat
	}
	for len(b) > 0 {
		n := binary.BigEndian.Uint32(b)
		if n&inlineBit != 0 {
			n &^= inlineBit
			if int(n)+4 > len(b) {
				return RuleWQEFormat
			}
			w.sges[w.nsge] = sge{n: n, inl: b[4 : 4+n]}
			w.inline = true
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

// atomic reads the operands. The extended atomics carry the size in the modifier (8 | log2(size)-2); 4 and 8 bytes are executed.
func (w *wqe) atomic(take func(int) []byte) bool {
	w.asize, w.smask, w.cmask = 8, ^uint64(0), ^uint64(0)
	masked := w.opcode == opMaskedCS || w.opcode == opMaskedFA
	if masked && w.opmod == 8 {
		w.asize = 4
	} else if w.opmod != 0 && (!masked || w.opmod != 9) {
		return false
	}
	n := 16
	if w.opcode == opMaskedCS && w.asize == 8 {
		n = 32
	}
	s := take(n)
	if s == nil {
		return false
	}
	get := func(i int) uint64 {
		if w.asize == 4 {
			return uint64(binary.BigEndian.Uint32(s[4*i:]))
		}
		return binary.BigEndian.Uint64(s[8*i:])
	}
	w.swap = get(0)
	switch w.opcode {
	case opAtomicCS:
		w.cmp = get(1)
	case opMaskedCS:
		w.cmp, w.smask, w.cmask = get(1), get(2), get(3)
	case opMaskedFA:
		w.smask = get(1)
	}
	return true
}

// apply gives the new value of the memory that an atomic finds old in.
func (w *wqe) apply(old uint64) uint64 {
	switch w.opcode {
	case opAtomicFA:
		return old + w.swap
	case opMaskedFA: // a set bit of the boundary ends a field: no carry leaves it
		var sum, carry uint64
		for i := uint(0); i < uint(w.asize)*8; i++ {
			s := old>>i&1 + w.swap>>i&1 + carry
			sum |= s & 1 << i
			carry = s >> 1
			if w.smask>>i&1 != 0 {
				carry = 0
			}
		}
		return sum
	}
	if old&w.cmask != w.cmp&w.cmask {
		return old
	}
	return old&^w.smask | w.swap&w.smask
}
