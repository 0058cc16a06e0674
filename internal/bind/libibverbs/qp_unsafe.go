package libibverbs

import (
	"sync/atomic"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// struct ibv_qp *ibv_create_qp(struct ibv_pd *, struct ibv_qp_init_attr *);
// MLNX_OFED 4.x reads a pointer past the 64 bytes of the upstream struct, so the longer extended struct is passed.
func (l Lib) CreateQP(pd uintptr, attr *abi.QPInitAttrEx) (uintptr, error) {
	return l.lib.Ptr("ibv_create_qp", pd, uintptr(unsafe.Pointer(attr)))
}

// struct ibv_qp *(*create_qp_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *); an op of verbs_context. As the
// inline function does, it leaves what classic creation can do to classic creation.
func (l Lib) CreateQPEx(ctx uintptr, attr *abi.QPInitAttrEx) (uintptr, error) {
	if attr.CompMask == abi.IBV_QP_INIT_ATTR_PD {
		return l.CreateQP(attr.PD, attr)
	}
	return opPtr(ctx, abi.DistCreateQPEx, ctx, uintptr(unsafe.Pointer(attr)))
}

// struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp);
// It returns NULL, and leaves errno alone, for a QP that was created without IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.
func (l Lib) QPToQPEx(qp uintptr) (uintptr, error) { return l.lib.Ptr("ibv_qp_to_qp_ex", qp) }

// HasQPToQPEx reports whether the library has ibv_qp_to_qp_ex; absent before v24.
func (l Lib) HasQPToQPEx() bool { return l.lib.Has("ibv_qp_to_qp_ex") }

// int ibv_modify_qp(struct ibv_qp *, struct ibv_qp_attr *, int attr_mask);
func (l Lib) ModifyQP(qp uintptr, attr *abi.QPAttr, mask uint32) error {
	return l.lib.Err("ibv_modify_qp", qp, uintptr(unsafe.Pointer(attr)), uintptr(mask))
}

// int ibv_query_qp(struct ibv_qp *, struct ibv_qp_attr *, int attr_mask, struct ibv_qp_init_attr *);
func (l Lib) QueryQP(qp uintptr, attr *abi.QPAttr, mask uint32, init *abi.QPInitAttrEx) error {
	return l.lib.Err("ibv_query_qp", qp, uintptr(unsafe.Pointer(attr)), uintptr(mask), uintptr(unsafe.Pointer(init)))
}

// int ibv_destroy_qp(struct ibv_qp *qp);
func (l Lib) DestroyQP(qp uintptr) error { return l.destroy("ibv_destroy_qp", qp) }

// int ibv_attach_mcast(struct ibv_qp *, const union ibv_gid *gid, uint16_t lid);
func (l Lib) AttachMcast(qp uintptr, gid *abi.GID, lid uint16) error {
	return l.lib.Err("ibv_attach_mcast", qp, uintptr(unsafe.Pointer(gid)), uintptr(lid))
}

// int ibv_detach_mcast(struct ibv_qp *, const union ibv_gid *gid, uint16_t lid);
func (l Lib) DetachMcast(qp uintptr, gid *abi.GID, lid uint16) error {
	return l.lib.Err("ibv_detach_mcast", qp, uintptr(unsafe.Pointer(gid)), uintptr(lid))
}

// QPNumber returns the number of a struct ibv_qp.
func (l Lib) QPNumber(qp uintptr) uint32 { return cmem.At[abi.QP](qp).QPNum }

// QPState returns the state in a struct ibv_qp. libibverbs writes it in modify and query, on any thread.
func (l Lib) QPState(qp uintptr) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&cmem.At[abi.QP](qp).State))
}
