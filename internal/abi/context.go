package abi

import "structs"

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
