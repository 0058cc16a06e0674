package abi

import "structs"

// Context is the start of struct ibv_context (infiniband/verbs.h, rdma-core v65), up to its mutex.
// TailShift locates the rest.
type Context struct {
	_              structs.HostLayout
	Device         uintptr
	Ops            [32]uintptr // struct ibv_context_ops, see the Op constants
	CmdFD          int32
	AsyncFD        int32
	NumCompVectors int32
	_              [4]byte
}

// ValuesEx is struct ibv_values_ex (infiniband/verbs.h, rdma-core v65).
type ValuesEx struct {
	_        structs.HostLayout
	CompMask uint32
	_        [4]byte
	RawClock Timespec
}

// Slots of Context.Ops that may be called. The others exist only for old binaries.
const (
	OpAllocMW     = 7  // struct ibv_mw *(struct ibv_pd *, enum ibv_mw_type)
	OpBindMW      = 8  // int (struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *)
	OpDeallocMW   = 9  // int (struct ibv_mw *)
	OpPollCQ      = 11 // int (struct ibv_cq *, int, struct ibv_wc *)
	OpReqNotifyCQ = 12 // int (struct ibv_cq *, int)
	OpPostSRQRecv = 20 // int (struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **)
	OpPostSend    = 25 // int (struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **)
	OpPostRecv    = 26 // int (struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **)
)

// Timespec is struct timespec (time.h) on 64-bit systems.
type Timespec struct {
	_    structs.HostLayout
	Sec  int64
	Nsec int64
}
