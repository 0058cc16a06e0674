// Package libefa calls libefa: one method for each C function, named after it, with its prototype above.
package libefa

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/loader"
)

// Lib is libefa.
type Lib struct{ lib bind.Library }

// Open opens the library that libibverbs has loaded as its driver.
func Open() (Lib, error) {
	l, err := bind.Open(loader.EFA)
	return Lib{l}, err
}

// The last argument of most functions is the size of the struct before it.
func size[T any](p *T) uintptr { return unsafe.Sizeof(*p) }

// int efadv_get_max_sq_depth(struct ibv_context *ibvctx, struct efadv_sq_depth_attr *attr, uint32_t inlen);
// It returns the depth, or -errno. Absent before v63, as is the next one.
func (l Lib) GetMaxSQDepth(ctx uintptr, a *abi.EFADVSQDepthAttr) (int, error) {
	return depth(l.lib.Int("efadv_get_max_sq_depth", ctx, uintptr(unsafe.Pointer(a)), size(a)))
}

// int efadv_get_max_rq_depth(struct ibv_context *ibvctx, struct efadv_rq_depth_attr *attr, uint32_t inlen);
func (l Lib) GetMaxRQDepth(ctx uintptr, a *abi.EFADVRQDepthAttr) (int, error) {
	return depth(l.lib.Int("efadv_get_max_rq_depth", ctx, uintptr(unsafe.Pointer(a)), size(a)))
}

func depth(n int32, err error) (int, error) {
	if err == nil && n < 0 {
		return 0, abi.Errno(int(-n))
	}
	return int(n), err
}

// int efadv_query_qp_wqs(struct ibv_qp *ibvqp, struct efadv_wq_attr *sq_attr, struct efadv_wq_attr *rq_attr,
// uint32_t inlen);
// Absent before v59, as is efadv_query_cq.
func (l Lib) QueryQPWQs(qp uintptr, sq, rq *abi.EFADVWQAttr) error {
	return l.lib.Err("efadv_query_qp_wqs", qp, uintptr(unsafe.Pointer(sq)), uintptr(unsafe.Pointer(rq)), size(sq))
}

// struct efadv_cq *efadv_cq_from_ibv_cq_ex(struct ibv_cq_ex *ibvcqx);
func (l Lib) CQFromIBVCQEx(cq uintptr) (obj uintptr, fn *abi.EFADVCQ, err error) {
	if obj, err = l.lib.Ptr("efadv_cq_from_ibv_cq_ex", cq); err != nil {
		return 0, nil, err
	}
	return obj, cmem.At[abi.EFADVCQ](obj), nil
}
