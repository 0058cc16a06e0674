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
	for op := range work.Kinds {
		k := &work.Kinds[op]
		f := k.Fields
		if k.Device == opNop {
			continue
		}
		kind := uint16(k.Completion)
		if f&work.Imm != 0 {
			kind |= wcWithImm << 8
		}
		switch {
		case f&work.Atomic != 0:
			kind |= sent8
		case f&work.Data != 0 && f&work.Inline == 0, k.Device == opUMR: // it receives data, or needs another look
			kind |= sentLen
		default:
			kind |= noResult
		}
		sent[k.Device] = kind
	}
	sent[opSetPSV] = wcDriver1 | noResult // the last part of the change of a key
	return sent
}

// resultAt holds, by the device's opcode, the segment of a WQE that says where the result goes, if a completion may
// carry it; else 0. Before it are the control segment, the remote address and the operands.
var resultAt = func() (at [256]uint8) {
	for op := range work.Kinds {
		k := &work.Kinds[op]
		if k.Fields&work.Data == 0 || k.Fields&(work.Inline|work.TSO|work.Masked) != 0 {
			continue
		}
		at[k.Device] = 2
		if k.Fields&work.Atomic != 0 {
			at[k.Device] = 3
		}
	}
	return at
}()

// posted returns the opcode of the WQE of q that begins at block counter, as it was posted. done is the one that the
// device has executed.
func posted(q *SQ, done uint8, counter uint32) uint8 {
	p := q.block(counter)
	if done != opNop || uint8(get32(p, 0)) != opNop {
		return done
	}
	return uint8(get32(p, 12))
}
