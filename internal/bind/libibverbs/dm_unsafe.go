package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// struct ibv_dm *(*alloc_dm)(struct ibv_context *, struct ibv_alloc_dm_attr *);
// An op of verbs_context (v18), as are the next two.
func (l Lib) AllocDM(ctx uintptr, attr *abi.AllocDMAttr) (uintptr, error) {
	return opPtr(ctx, abi.DistAllocDM, ctx, uintptr(unsafe.Pointer(attr)))
}

// int (*free_dm)(struct ibv_dm *);
func (l Lib) FreeDM(ctx, dm uintptr) error { return l.Destroyed(ctx, opErr(ctx, abi.DistFreeDM, dm)) }

// struct ibv_mr *(*reg_dm_mr)(struct ibv_pd *, struct ibv_dm *, uint64_t dm_offset, size_t length, unsigned access);
func (l Lib) RegDMMR(ctx, pd, dm uintptr, off uint64, length int, access uint32) (uintptr, error) {
	return opPtr(ctx, abi.DistRegDMMR, pd, dm, uintptr(off), uintptr(length), uintptr(access))
}

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

// struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle);
// Absent before v35.
func (l Lib) ImportDM(ctx uintptr, handle uint32) (uintptr, error) {
	return l.lib.Ptr("ibv_import_dm", ctx, uintptr(handle))
}

// void ibv_unimport_dm(struct ibv_dm *dm);
func (l Lib) UnimportDM(dm uintptr) error { return l.lib.Void("ibv_unimport_dm", dm) }

// DMNumber returns the kernel's handle; ok is false if the library does not report it.
func (l Lib) DMNumber(dm uintptr) (number uint32, ok bool) {
	d := cmem.At[abi.DM](dm)
	if d.CompMask&abi.IBV_DM_MASK_HANDLE == 0 {
		return 0, false
	}
	return d.Handle, true
}
