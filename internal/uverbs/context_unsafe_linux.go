package uverbs

import (
	"structs"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/cmem"
)

// queryContext is a command in the format of rdma/rdma_user_ioctl_cmds.h: struct ib_uverbs_ioctl_hdr with one struct
// ib_uverbs_attr.
type queryContext struct {
	_        structs.HostLayout
	length   uint16
	object   uint16
	method   uint16
	attrs    uint16
	_        uint64
	driver   uint32
	_        uint32
	attr     uint16
	attrLen  uint16
	flags    uint16
	_        uint16
	attrData uint64
}

const (
	ioctl          = 0xc0181b01 // C: RDMA_VERBS_IOCTL
	objectDevice   = 0          // C: UVERBS_OBJECT_DEVICE
	methodQuery    = 4          // C: UVERBS_METHOD_QUERY_CONTEXT
	driverMLX5     = 1          // C: RDMA_DRIVER_MLX5
	attrContext    = 1 << 12    // C: MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX
	attrMandatory  = 1          // C: UVERBS_ATTR_F_MANDATORY
	contextSize    = 72         // C: struct mlx5_ib_alloc_ucontext_resp, up to dump_fill_mkey
	ethMinInline   = 46         // its offset there
	inlineModeNone = 1          // C: MLX5_USER_INLINE_MODE_NONE
)

var _ [40]byte = [unsafe.Sizeof(queryContext{})]byte{}

// NoInlineHeaders reports whether the WQEs of an mlx5 device need no bytes of a frame. A kernel before 5.9 does not
// report it. fd is the context's descriptor.
//
// C: mlx5_query_context (rdma-core v44.0, providers/mlx5/mlx5.c).
func NoInlineHeaders(fd int) (bool, error) {
	resp := new([contextSize]byte)
	cmd := &queryContext{length: uint16(unsafe.Sizeof(queryContext{})), object: objectDevice, method: methodQuery,
		attrs: 1, driver: driverMLX5, attr: attrContext, attrLen: contextSize, flags: attrMandatory,
		attrData: uint64(cmem.Heap(unsafe.Pointer(resp)))}
	for {
		_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), ioctl, uintptr(unsafe.Pointer(cmd)))
		switch e {
		case syscall.EINTR:
			continue
		case 0:
			return resp[ethMinInline] == inlineModeNone, nil
		}
		return false, e
	}
}
