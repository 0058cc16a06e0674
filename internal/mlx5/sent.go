package mlx5

import "github.com/pureverbs/pureverbs/internal/work"

// sent describes the completion of a send WQE by the device's opcode: the verbs opcode in the low 8 bits, completion
// flags in the next 8, and then what else it has. It is 0 for opcodes that are not posted here.
var sent = sentOf()

const (
	noResult = 1 << 13
	sentLen  = 1 << 14 // a length in the CQE; of a UMR, which completes as one of several opcodes, nothing is there
	sent8    = 1 << 15 // always 8 bytes
)

func sentOf() (sent [256]uint16) {
	for _, o := range sendOps {
		f := o.fields
		if f == 0 {
			continue
		}
		kind := uint16(o.completion)
		if f&work.Imm != 0 {
			kind |= wcWithImm << 8
		}
		switch {
		case f&work.Atomic != 0:
			kind |= sent8
		case f&work.Data != 0 && f&work.Inline == 0, o.device == opUMR: // it receives data, or needs another look
			kind |= sentLen
		default:
			kind |= noResult
		}
		sent[o.device] = kind
	}
	sent[opSetPSV] = wcDriver1 | noResult // the last part of the change of a key
	return sent
}

// posted returns the opcode of the WQE of q that begins at block counter, as it was posted. done is the one that the
// device has executed.
func posted(q *SQ, done uint8, counter uint32) uint8 {
	p := q.block(counter)
	if done != opNop || uint8(get32(p, 0)) != opNop {
		return done
	}
	return uint8(get32(p, 12))
}
