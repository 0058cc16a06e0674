package abi

import (
	"structs"

	"github.com/pureverbs/pureverbs/internal/cmem"
)

// QPEx is the part of struct ibv_qp_ex (rdma-core v65) after its struct ibv_qp. The functions take the struct ibv_qp_ex
// first. A function whose IBV_QP_EX_WITH flag was not granted is NULL, or beyond the struct of an older library.
type QPEx struct {
	_                 structs.HostLayout
	CompMask          uint64
	WRID              uint64
	WRFlags           uint32
	_                 [4]byte
	AtomicCmpSwp      uintptr // void (*)(qp, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
	AtomicFetchAdd    uintptr // void (*)(qp, uint32_t rkey, uint64_t addr, uint64_t add)
	BindMW            uintptr // void (*)(qp, struct ibv_mw *, uint32_t rkey, const struct ibv_mw_bind_info *)
	LocalInv          uintptr // void (*)(qp, uint32_t rkey)
	RDMARead          uintptr // void (*)(qp, uint32_t rkey, uint64_t addr)
	RDMAWrite         uintptr // void (*)(qp, uint32_t rkey, uint64_t addr)
	RDMAWriteImm      uintptr // void (*)(qp, uint32_t rkey, uint64_t addr, __be32 imm)
	Send              uintptr // void (*)(qp)
	SendImm           uintptr // void (*)(qp, __be32 imm)
	SendInv           uintptr // void (*)(qp, uint32_t rkey)
	SendTSO           uintptr // void (*)(qp, void *hdr, uint16_t hdr_size, uint16_t mss)
	SetUDAddr         uintptr // void (*)(qp, struct ibv_ah *, uint32_t qpn, uint32_t qkey)
	SetXRCSRQN        uintptr // void (*)(qp, uint32_t srqn)
	SetInlineData     uintptr // void (*)(qp, void *, size_t)
	SetInlineDataList uintptr // void (*)(qp, size_t n, const struct ibv_data_buf *)
	SetSGE            uintptr // void (*)(qp, uint32_t lkey, uint64_t addr, uint32_t length)
	SetSGEList        uintptr // void (*)(qp, size_t n, const struct ibv_sge *)
	Start             uintptr // void (*)(qp)
	Complete          uintptr // int (*)(qp): 0 or an errno
	Abort             uintptr // void (*)(qp)
	AtomicWrite       uintptr // void (*)(qp, uint32_t rkey, uint64_t addr, const void *value); v44
	Flush             uintptr // void (*)(qp, uint32_t rkey, uint64_t addr, size_t, uint8_t type, uint8_t level); v45
}

// OffQPEx is the offset of a QPEx in struct ibv_qp_ex, with a mutex of 40 bytes: add TailShift.
const OffQPEx = 160

// QPExOf returns the QPEx of the struct ibv_qp_ex at qpEx, whose first field is that of an ibv_qp. It returns nil if
// the context is not part of a verbs_context, which shows the position of the fields.
func QPExOf(qpEx uintptr) *QPEx {
	shift, ok := TailShift(cmem.At[QP](qpEx).Context)
	if !ok {
		return nil
	}
	return cmem.At[QPEx](qpEx + OffQPEx + shift)
}
