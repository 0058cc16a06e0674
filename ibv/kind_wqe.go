package ibv

import "fmt"

// OpRawWQE posts a WQE that the program wrote: package mlx5dv makes it. C: mlx5dv_wr_raw_wqe.
const OpRawWQE Opcode = 16

// checkWQE reports what is wrong with a WQE that the program wrote.
//
//kind:check OpRawWQE
func checkWQE(qp *QP, wr *SendWR) error {
	if wr.Flags&Inline != 0 {
		return noInlineFlag(wr)
	}
	w := wr.Inline
	if len(w) < 16 || len(w) > 63*16 || len(w)%16 != 0 {
		return &ArgError{Arg: "Inline", Got: fmt.Sprintf("%d bytes", len(w)),
			Want: "a WQE: 16 to 1008 bytes, in units of 16"}
	}
	if ce := w[11]&0x0c == 0x08; ce != (wr.Flags&Signaled != 0) || qp.sq.signalAll && !ce {
		return &ArgError{Arg: "Flags", Got: wr.Flags.String(), Want: "Signaled if and only if the WQE's control " +
			"segment asks for a completion, as it has to on a QP with SignalAll"}
	}
	if n := int(w[7]&0x3f) * 16; n != len(w) {
		return &ArgError{Arg: "Inline", Got: fmt.Sprintf("%d bytes, in whose control segment are %d", len(w), n),
			Want: "a WQE whose control segment tells its length"}
	}
	if num := uint32(w[4])<<16 | uint32(w[5])<<8 | uint32(w[6]); num != qp.Num() {
		return &ArgError{Arg: "Inline", Got: fmt.Sprintf("a WQE of QP %#x", num),
			Want: fmt.Sprintf("the QP's own number, %#x, in its control segment", qp.Num())}
	}
	return nil
}
