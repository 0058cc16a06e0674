package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// int (*memcpy_to_dm)(struct ibv_dm *, uint64_t dm_offset, const void *host_addr, size_t length); of struct ibv_dm.
func (l Lib) MemcpyToDM(dm uintptr, off uint64, p []byte) error {
	fn := cmem.At[abi.DM](dm).MemcpyToDM
	if fn == 0 {
		return control.ErrNoOp // memory for steering
	}
	return ccall.Err(fn, dm, uintptr(off), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)))
}

// int (*memcpy_from_dm)(void *host_addr, struct ibv_dm *, uint64_t dm_offset, size_t length); of struct ibv_dm.
func (l Lib) MemcpyFromDM(p []byte, dm uintptr, off uint64) error {
	fn := cmem.At[abi.DM](dm).MemcpyFromDM
	if fn == 0 {
		return control.ErrNoOp
	}
	return ccall.Err(fn, uintptr(unsafe.Pointer(unsafe.SliceData(p))), dm, uintptr(off),
		uintptr(len(p)))
}

// DMNumber returns the kernel's handle; ok is false if the library does not report it.
func (l Lib) DMNumber(dm uintptr) (number uint32, ok bool) {
	d := cmem.At[abi.DM](dm)
	if d.CompMask&abi.IBV_DM_MASK_HANDLE == 0 {
		return 0, false
	}
	return d.Handle, true
}
