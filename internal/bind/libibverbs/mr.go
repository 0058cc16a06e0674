package libibverbs

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// struct ibv_mr *ibv_reg_mr(struct ibv_pd *, void *addr, size_t length, int access);
func (l Lib) RegMR(pd, addr uintptr, length int, access uint32) (uintptr, error) {
	return l.lib.Ptr("ibv_reg_mr", pd, addr, uintptr(length), uintptr(access))
}

// struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *, void *addr, size_t length, uint64_t iova, int access);
// Absent before v25.
func (l Lib) RegMRIOVA(pd, addr uintptr, length int, iova uint64, access uint32) (uintptr, error) {
	return l.lib.Ptr("ibv_reg_mr_iova", pd, addr, uintptr(length), uintptr(iova), uintptr(access))
}

// struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *, void *addr, size_t length, uint64_t iova, unsigned int access);
// Absent before v28.
func (l Lib) RegMRIOVA2(pd, addr uintptr, length int, iova uint64, access uint32) (uintptr, error) {
	return l.lib.Ptr("ibv_reg_mr_iova2", pd, addr, uintptr(length), uintptr(iova), uintptr(access))
}

// HasRegMRIOVA2 reports whether the library has RegMRIOVA2.
func (l Lib) HasRegMRIOVA2() bool { return l.lib.Has("ibv_reg_mr_iova2") }

// int ibv_rereg_mr(struct ibv_mr *, int flags, struct ibv_pd *, void *addr, size_t length, int access);
// Returns an ibv_rereg_mr_err_code, -1 to -5, and sets errno.
func (l Lib) ReregMR(mr uintptr, flags uint32, pd, addr uintptr, length int, access uint32) (code int, err error) {
	return l.lib.IntErrno("ibv_rereg_mr", mr, uintptr(flags), pd, addr, uintptr(length), uintptr(access))
}

// int ibv_dereg_mr(struct ibv_mr *mr);
func (l Lib) DeregMR(mr uintptr) error { return l.destroy("ibv_dereg_mr", mr) }

// MR reads a struct ibv_mr.
func (l Lib) MR(mr uintptr) control.MR {
	m := cmem.At[abi.MR](mr)
	return control.MR{Addr: m.Addr, Length: int(m.Length), PD: m.PD, LKey: m.LKey, RKey: m.RKey, Number: m.Handle}
}

// struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
// int access);
// Absent before v34.
func (l Lib) RegDmabufMR(pd uintptr, off uint64, length int, iova uint64, fd int, access uint32) (uintptr, error) {
	return l.lib.Ptr("ibv_reg_dmabuf_mr", pd, uintptr(off), uintptr(length), uintptr(iova), uintptr(fd),
		uintptr(access))
}

// struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle);
// Absent before v31.
func (l Lib) ImportMR(pd uintptr, handle uint32) (uintptr, error) {
	return l.lib.Ptr("ibv_import_mr", pd, uintptr(handle))
}

// void ibv_unimport_mr(struct ibv_mr *mr);
func (l Lib) UnimportMR(mr uintptr) error { return l.lib.Void("ibv_unimport_mr", mr) }
