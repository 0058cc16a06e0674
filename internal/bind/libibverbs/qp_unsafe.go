package libibverbs

import (
	"sync/atomic"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// struct ibv_qp *(*create_qp_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *); an op of verbs_context. As the
// inline function does, it leaves what classic creation can do to classic creation.
func (l Lib) CreateQPEx(ctx uintptr, attr *abi.QPInitAttrEx) (uintptr, error) {
	if attr.CompMask == abi.IBV_QP_INIT_ATTR_PD {
		return l.CreateQP(attr.PD, attr)
	}
	return opPtr(ctx, abi.DistCreateQPEx, ctx, uintptr(unsafe.Pointer(attr)))
}

// HasQPToQPEx reports whether the library has ibv_qp_to_qp_ex; absent before v24.
func (l Lib) HasQPToQPEx() bool { return l.lib.Has("ibv_qp_to_qp_ex") }

// QPNumber returns the number of a struct ibv_qp.
func (l Lib) QPNumber(qp uintptr) uint32 { return cmem.At[abi.QP](qp).QPNum }

// QPState returns the state in a struct ibv_qp. libibverbs writes it in modify and query, on any thread.
func (l Lib) QPState(qp uintptr) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&cmem.At[abi.QP](qp).State))
}

// int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t eth_mac[6],
// uint16_t *vid);
// It returns -1 and sets errno, or an errno negated.
func (l Lib) ResolveEthL2FromGID(ctx uintptr, attr *abi.AHAttr) (mac [6]byte, vid uint16, err error) {
	out := new(struct {
		mac [6]byte
		vid uint16
	})
	n, err := l.lib.Minus1Int("ibv_resolve_eth_l2_from_gid", ctx, uintptr(unsafe.Pointer(attr)),
		uintptr(unsafe.Pointer(&out.mac)), uintptr(unsafe.Pointer(&out.vid)))
	if n < -1 {
		err = abi.Errno(-n)
	}
	return out.mac, out.vid, err
}
