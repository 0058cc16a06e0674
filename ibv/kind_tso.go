package ibv

import "fmt"

// OpTSO sends a large segment that the device splits into packets. C: IBV_WR_TSO.
const OpTSO Opcode = 10

// checkTSO reports what is wrong with a work request of OpTSO.
//
//kind:check OpTSO
func checkTSO(qp *QP, wr *SendWR) error {
	t := wr.TSO
	switch {
	case t == nil:
		return &ArgError{Arg: "TSO", Got: "nil", Want: "the header and the MSS of OpTSO"}
	case qp.sq.maxTSOHeader == 0:
		return &ArgError{Arg: "Opcode", Got: "TSO", Want: "another one on a QP without QPOptions.Raw.MaxTSOHeader"}
	case len(t.Header) > qp.sq.maxTSOHeader:
		return &LimitError{What: "tso header bytes", Asked: uint64(len(t.Header)), Limit: uint64(qp.sq.maxTSOHeader),
			Where: "qp " + qp.name + " (QPOptions.Raw.MaxTSOHeader)"}
	case len(t.Header) < minTSOHeader:
		return &ArgError{Arg: "TSO.Header", Got: fmt.Sprintf("%d bytes", len(t.Header)),
			Want: fmt.Sprintf("at least the %d bytes of an Ethernet header", minTSOHeader)}
	case t.MSS == 0:
		return &ArgError{Arg: "TSO.MSS", Got: "0", Want: "the bytes of data in each frame"}
	case wr.Inline != nil || wr.Flags&Inline != 0:
		return &ArgError{Arg: "Inline", Got: "set", Want: "SGEs with OpTSO"}
	}
	ex := qp.pd.dev.attr.Ex
	if ex == nil || ex.TSOMaxBytes == 0 {
		return nil
	}
	var total uint64
	for i := range wr.SGEs {
		total += uint64(wr.SGEs[i].Length)
	}
	if total > uint64(ex.TSOMaxBytes) {
		return &LimitError{What: "tso bytes", Asked: total, Limit: uint64(ex.TSOMaxBytes), Where: qp.pd.dev.Name()}
	}
	return nil
}

// minTSOHeader is the size of an Ethernet header.
const minTSOHeader = 14
