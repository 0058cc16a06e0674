package abi

import "structs"

// CQExTail is the part of struct ibv_cq_ex behind its struct ibv_cq (infiniband/verbs.h, rdma-core v65), at OffCQEx
// plus TailShift. A reader that was not asked for when the CQ was made is 0, or not there at all.
type CQExTail struct {
	_                         structs.HostLayout
	CompMask                  uint32
	Status                    uint32
	WRID                      uint64
	StartPoll                 uintptr // int (*)(struct ibv_cq_ex *, struct ibv_poll_cq_attr *)
	NextPoll                  uintptr // int (*)(struct ibv_cq_ex *)
	EndPoll                   uintptr // void (*)(struct ibv_cq_ex *)
	ReadOpcode                uintptr // enum ibv_wc_opcode (*)(struct ibv_cq_ex *)
	ReadVendorErr             uintptr // uint32_t
	ReadByteLen               uintptr // uint32_t
	ReadImmData               uintptr // __be32; of a send with invalidate the key, in host order
	ReadQPNum                 uintptr // uint32_t
	ReadSrcQP                 uintptr // uint32_t
	ReadWCFlags               uintptr // unsigned int
	ReadSLID                  uintptr // uint32_t
	ReadSL                    uintptr // uint8_t
	ReadDLIDPathBits          uintptr // uint8_t
	ReadCompletionTS          uintptr // uint64_t
	ReadCVLAN                 uintptr // uint16_t
	ReadFlowTag               uintptr // uint32_t
	ReadTMInfo                uintptr // void (*)(struct ibv_cq_ex *, struct ibv_wc_tm_info *)
	ReadCompletionWallclockNS uintptr // uint64_t; v17
}

// WCTMInfo is struct ibv_wc_tm_info (infiniband/verbs.h, rdma-core v65).
type WCTMInfo struct {
	_    structs.HostLayout
	Tag  uint64
	Priv uint32
	_    [4]byte
}
