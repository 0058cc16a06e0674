package efadv

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// AHNumber returns the adapter's number of an address, which names the sender in its own completions.
//
// C: efadv_query_ah(3).
func AHNumber(ah *ibv.AH) (uint16, error) {
	const op = "efadv query ah"
	if ah == nil {
		return 0, nilArg(op, "ah")
	}
	dev := ah.PD().Device()
	lib, _, err := query(dev, op)
	if err != nil {
		return 0, err
	}
	h, leave, err := verbs.EnterC(ah, op)
	if err != nil {
		return 0, err
	}
	defer leave()
	a := new(abi.EFADVAHAttr)
	if err := lib.QueryAH(h, a); err != nil {
		return 0, explain(dev, op, "the number of an address", err)
	}
	return a.AHN, nil
}

// Interconnect is the number of the connection between the adapter and memory. OK is false if the adapter does not
// report them.
type Interconnect struct {
	ID uint16
	OK bool
}

// MRAttr has the connections by which the adapter reaches an MR.
//
// C: struct efadv_mr_attr.
type MRAttr struct {
	Recv     Interconnect // for receives
	Read     Interconnect // for its own reads
	RDMARecv Interconnect // for writes of peers
}

// QueryMR returns how the adapter reaches an MR. It needs rdma-core v50.
//
// C: efadv_query_mr(3).
func QueryMR(mr *ibv.MR) (*MRAttr, error) {
	const op = "efadv query mr"
	if mr == nil {
		return nil, nilArg(op, "mr")
	}
	dev := verbs.DeviceOf(mr)
	lib, _, err := query(dev, op)
	if err != nil {
		return nil, err
	}
	h, leave, err := verbs.EnterC(mr, op)
	if err != nil {
		return nil, err
	}
	defer leave()
	a := new(abi.EFADVMRAttr)
	if err := lib.QueryMR(h, a); err != nil {
		return nil, explain(dev, op, "the connections of an MR", err)
	}
	v := a.ICIDValidity
	return &MRAttr{Interconnect{a.RecvICID, v&1 != 0}, Interconnect{a.RDMAReadICID, v&2 != 0},
		Interconnect{a.RDMARecvICID, v&4 != 0}}, nil
}
