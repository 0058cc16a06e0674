package efadv

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind/libefa"
)

// AHNumber returns the adapter's number of an address, which names the sender in its own completions.
//
// C: efadv_query_ah(3).
func AHNumber(ah *ibv.AH) (uint16, error) {
	a := new(abi.EFADVAHAttr)
	ref, dev := verbs.Ref(ah)
	err := ask("efadv query ah", "the number of an address", "ah", ref, dev,
		func(lib libefa.Lib, h uintptr) error { return lib.QueryAH(h, a) })
	return a.AHN, err
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
	a := new(abi.EFADVMRAttr)
	ref, dev := verbs.Ref(mr)
	if err := ask("efadv query mr", "the connections of an MR", "mr", ref, dev,
		func(lib libefa.Lib, h uintptr) error { return lib.QueryMR(h, a) }); err != nil {
		return nil, err
	}
	v := a.ICIDValidity
	return &MRAttr{Interconnect{a.RecvICID, v&1 != 0}, Interconnect{a.RDMAReadICID, v&2 != 0},
		Interconnect{a.RDMARecvICID, v&4 != 0}}, nil
}
