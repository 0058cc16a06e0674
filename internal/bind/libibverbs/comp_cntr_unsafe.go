package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// All of these are absent before v65.

// int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps, size_t caps_size);
func (l Lib) QueryCompCntrCaps(ctx uintptr, caps *abi.CompCntrCaps) error {
	return l.lib.Err("_ibv_query_comp_cntr_caps", ctx, uintptr(unsafe.Pointer(caps)), unsafe.Sizeof(*caps))
}

// int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
func (l Lib) ReadCompCntr(cntr uintptr) (uint64, error) {
	v := new(uint64)
	err := l.lib.Err("ibv_read_comp_cntr", cntr, uintptr(unsafe.Pointer(v)))
	return *v, err
}

// int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
func (l Lib) ReadErrCompCntr(cntr uintptr) (uint64, error) {
	v := new(uint64)
	err := l.lib.Err("ibv_read_err_comp_cntr", cntr, uintptr(unsafe.Pointer(v)))
	return *v, err
}
