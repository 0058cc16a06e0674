package mlx5

import "github.com/pureverbs/pureverbs/internal/work"

// sent tells of a send WQE by the device's opcode: opcode of the completion, flags in the next 8 bits, and where its
// length is. It is 0 for others.
var sent = sentOf()

const (
	known   = 1 << 13
	sentLen = 1 << 14 // in the CQE
	sent8   = 1 << 15 // always 8 bytes
)

func sentOf() (sent [256]uint16) {
	for _, o := range sendOps {
		f := o.fields
		if f == 0 {
			continue
		}
		kind := known | uint16(o.completion)
		if f&work.Imm != 0 {
			kind |= wcWithImm << 8
		}
		switch {
		case f&work.Atomic != 0:
			kind |= sent8
		case f&work.Data != 0 && f&work.Inline == 0: // it receives data
			kind |= sentLen
		}
		sent[o.device] = kind
	}
	return sent
}
