package libmlx5

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// int mlx5dv_devx_general_cmd(struct ibv_context *context, const void *in, size_t inlen, void *out, size_t outlen);
// Absent before v21, as are the functions below unless noted otherwise.
func (l Lib) DevXGeneralCmd(ctx uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_general_cmd", ctx,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// struct mlx5dv_devx_obj *mlx5dv_devx_obj_create(struct ibv_context *context, const void *in, size_t inlen, void *out,
// size_t outlen);
func (l Lib) DevXObjCreate(ctx uintptr, in, out []byte) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_devx_obj_create", ctx,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// int mlx5dv_devx_obj_query(struct mlx5dv_devx_obj *obj, const void *in, size_t inlen, void *out, size_t outlen);
func (l Lib) DevXObjQuery(obj uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_obj_query", obj,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// int mlx5dv_devx_obj_modify(struct mlx5dv_devx_obj *obj, const void *in, size_t inlen, void *out, size_t outlen);
func (l Lib) DevXObjModify(obj uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_obj_modify", obj,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// int mlx5dv_devx_obj_destroy(struct mlx5dv_devx_obj *obj);
func (l Lib) DevXObjDestroy(obj uintptr) error { return l.lib.Err("mlx5dv_devx_obj_destroy", obj) }

// int mlx5dv_devx_qp_query(struct ibv_qp *qp, const void *in, size_t inlen, void *out, size_t outlen);
// Absent before v22, like the nine that follow.
func (l Lib) DevXQPQuery(qp uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_qp_query", qp,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// int mlx5dv_devx_qp_modify(struct ibv_qp *qp, const void *in, size_t inlen, void *out, size_t outlen);
func (l Lib) DevXQPModify(qp uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_qp_modify", qp,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// int mlx5dv_devx_cq_query(struct ibv_cq *cq, const void *in, size_t inlen, void *out, size_t outlen);
func (l Lib) DevXCQQuery(cq uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_cq_query", cq,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// int mlx5dv_devx_cq_modify(struct ibv_cq *cq, const void *in, size_t inlen, void *out, size_t outlen);
func (l Lib) DevXCQModify(cq uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_cq_modify", cq,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// int mlx5dv_devx_srq_query(struct ibv_srq *srq, const void *in, size_t inlen, void *out, size_t outlen);
func (l Lib) DevXSRQQuery(srq uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_srq_query", srq,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// int mlx5dv_devx_srq_modify(struct ibv_srq *srq, const void *in, size_t inlen, void *out, size_t outlen);
func (l Lib) DevXSRQModify(srq uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_srq_modify", srq,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// int mlx5dv_devx_wq_query(struct ibv_wq *wq, const void *in, size_t inlen, void *out, size_t outlen);
func (l Lib) DevXWQQuery(wq uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_wq_query", wq,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// int mlx5dv_devx_wq_modify(struct ibv_wq *wq, const void *in, size_t inlen, void *out, size_t outlen);
func (l Lib) DevXWQModify(wq uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_wq_modify", wq,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// int mlx5dv_devx_ind_tbl_query(struct ibv_rwq_ind_table *ind_tbl, const void *in, size_t inlen,
// void *out, size_t outlen);
func (l Lib) DevXIndTblQuery(table uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_ind_tbl_query", table,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// int mlx5dv_devx_ind_tbl_modify(struct ibv_rwq_ind_table *ind_tbl, const void *in, size_t inlen,
// void *out, size_t outlen);
func (l Lib) DevXIndTblModify(table uintptr, in, out []byte) error {
	return l.lib.Err("mlx5dv_devx_ind_tbl_modify", table,
		uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
}

// struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *ctx, void *addr, size_t size, uint32_t access);
// The umem begins with its number.
func (l Lib) DevXUmemReg(ctx, addr uintptr, size int, access uint32) (umem uintptr, id uint32, err error) {
	return number(l.lib.Ptr("mlx5dv_devx_umem_reg", ctx, addr, uintptr(size), uintptr(access)))
}

// struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *ctx, struct mlx5dv_devx_umem_in *umem_in);
// Absent before v35.
func (l Lib) DevXUmemRegEx(ctx uintptr, in *abi.MLX5DVDevXUmemIn) (umem uintptr, id uint32, err error) {
	return number(l.lib.Ptr("mlx5dv_devx_umem_reg_ex", ctx, uintptr(unsafe.Pointer(in))))
}

// number returns an object and the number that it begins with.
func number(obj uintptr, err error) (uintptr, uint32, error) {
	if err != nil {
		return 0, 0, err
	}
	return obj, *cmem.At[uint32](obj), nil
}

// int mlx5dv_devx_umem_dereg(struct mlx5dv_devx_umem *umem);
func (l Lib) DevXUmemDereg(umem uintptr) error { return l.lib.Err("mlx5dv_devx_umem_dereg", umem) }

// struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(struct ibv_context *context, uint32_t flags);
func (l Lib) DevXAllocUAR(ctx uintptr, flags uint32) (*abi.MLX5DVDevXUAR, uintptr, error) {
	p, err := l.lib.Ptr("mlx5dv_devx_alloc_uar", ctx, uintptr(flags))
	return cmem.At[abi.MLX5DVDevXUAR](p), p, err
}

// void mlx5dv_devx_free_uar(struct mlx5dv_devx_uar *devx_uar);
func (l Lib) DevXFreeUAR(uar uintptr) error { return l.lib.Void("mlx5dv_devx_free_uar", uar) }

// int mlx5dv_devx_query_eqn(struct ibv_context *context, uint32_t vector, uint32_t *eqn);
func (l Lib) DevXQueryEQN(ctx uintptr, vector uint32) (uint32, error) {
	eqn := new(uint32)
	err := l.lib.Err("mlx5dv_devx_query_eqn", ctx, uintptr(vector), uintptr(unsafe.Pointer(eqn)))
	return *eqn, err
}

// struct mlx5dv_devx_event_channel *mlx5dv_devx_create_event_channel(struct ibv_context *context,
// enum mlx5dv_devx_create_event_channel_flags flags);
// Absent before v25, like the four that follow. The channel begins with its descriptor.
func (l Lib) DevXCreateEventChannel(ctx uintptr, flags uint32) (ch uintptr, fd int, err error) {
	ch, n, err := number(l.lib.Ptr("mlx5dv_devx_create_event_channel", ctx, uintptr(flags)))
	return ch, int(int32(n)), err
}

// void mlx5dv_devx_destroy_event_channel(struct mlx5dv_devx_event_channel *event_channel);
func (l Lib) DevXDestroyEventChannel(ch uintptr) error {
	return l.lib.Void("mlx5dv_devx_destroy_event_channel", ch)
}

// int mlx5dv_devx_subscribe_devx_event(struct mlx5dv_devx_event_channel *event_channel, struct mlx5dv_devx_obj *obj,
// uint16_t events_sz, uint16_t events_num[], uint64_t cookie);
func (l Lib) DevXSubscribe(ch, obj uintptr, events []uint16, cookie uint64) error {
	return l.lib.Err("mlx5dv_devx_subscribe_devx_event", ch, obj, uintptr(2*len(events)),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(cookie))
}

// int mlx5dv_devx_subscribe_devx_event_fd(struct mlx5dv_devx_event_channel *event_channel, int fd,
// struct mlx5dv_devx_obj *obj, uint16_t event_num);
func (l Lib) DevXSubscribeFD(ch uintptr, fd int, obj uintptr, event uint16) error {
	return l.lib.Err("mlx5dv_devx_subscribe_devx_event_fd", ch, uintptr(fd), obj, uintptr(event))
}

// ssize_t mlx5dv_devx_get_event(struct mlx5dv_devx_event_channel *event_channel,
// struct mlx5dv_devx_async_event_hdr *event_data, size_t event_resp_len);
func (l Lib) DevXGetEvent(ch uintptr, event []byte) (int, error) {
	return l.lib.Size("mlx5dv_devx_get_event", ch,
		uintptr(unsafe.Pointer(unsafe.SliceData(event))), uintptr(len(event)))
}

// struct mlx5dv_devx_cmd_comp *mlx5dv_devx_create_cmd_comp(struct ibv_context *context);
// Absent before v23, like the three that follow. It begins with its descriptor.
func (l Lib) DevXCreateCmdComp(ctx uintptr) (comp uintptr, fd int, err error) {
	comp, n, err := number(l.lib.Ptr("mlx5dv_devx_create_cmd_comp", ctx))
	return comp, int(int32(n)), err
}

// void mlx5dv_devx_destroy_cmd_comp(struct mlx5dv_devx_cmd_comp *cmd_comp);
func (l Lib) DevXDestroyCmdComp(comp uintptr) error {
	return l.lib.Void("mlx5dv_devx_destroy_cmd_comp", comp)
}

// int mlx5dv_devx_obj_query_async(struct mlx5dv_devx_obj *obj, const void *in, size_t inlen, size_t outlen,
// uint64_t wr_id, struct mlx5dv_devx_cmd_comp *cmd_comp);
func (l Lib) DevXObjQueryAsync(obj uintptr, in []byte, outlen int, id uint64, comp uintptr) error {
	return l.lib.Err("mlx5dv_devx_obj_query_async", obj, uintptr(unsafe.Pointer(unsafe.SliceData(in))),
		uintptr(len(in)), uintptr(outlen), uintptr(id), comp)
}

// int mlx5dv_devx_get_async_cmd_comp(struct mlx5dv_devx_cmd_comp *cmd_comp, struct mlx5dv_devx_async_cmd_hdr *cmd_resp,
// size_t cmd_resp_len);
func (l Lib) DevXGetAsyncCmdComp(comp uintptr, resp []byte) error {
	return l.lib.Err("mlx5dv_devx_get_async_cmd_comp", comp, uintptr(unsafe.Pointer(unsafe.SliceData(resp))),
		uintptr(len(resp)))
}
