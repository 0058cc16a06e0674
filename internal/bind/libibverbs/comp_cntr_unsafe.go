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

// struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context, struct ibv_comp_cntr_init_attr *cc_attr);
func (l Lib) CreateCompCntr(ctx uintptr, attr *abi.CompCntrInitAttr) (uintptr, error) {
	return l.lib.Ptr("ibv_create_comp_cntr", ctx, uintptr(unsafe.Pointer(attr)))
}

// int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);
func (l Lib) DestroyCompCntr(cntr uintptr) error { return l.destroy("ibv_destroy_comp_cntr", cntr) }

// int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
func (l Lib) SetCompCntr(cntr uintptr, v uint64) error {
	return l.lib.Err("ibv_set_comp_cntr", cntr, uintptr(v))
}

// int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
func (l Lib) SetErrCompCntr(cntr uintptr, v uint64) error {
	return l.lib.Err("ibv_set_err_comp_cntr", cntr, uintptr(v))
}

// int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
func (l Lib) IncCompCntr(cntr uintptr, n uint64) error {
	return l.lib.Err("ibv_inc_comp_cntr", cntr, uintptr(n))
}

// int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
func (l Lib) IncErrCompCntr(cntr uintptr, n uint64) error {
	return l.lib.Err("ibv_inc_err_comp_cntr", cntr, uintptr(n))
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

// int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
// struct ibv_qp_attach_comp_cntr_attr *attr);
func (l Lib) QPAttachCompCntr(qp, cntr uintptr, attr *abi.QPAttachCompCntrAttr) error {
	return l.lib.Err("ibv_qp_attach_comp_cntr", qp, cntr, uintptr(unsafe.Pointer(attr)))
}
