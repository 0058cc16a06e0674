package libmlx5

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

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

// struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(struct ibv_context *context, uint32_t flags);
func (l Lib) DevXAllocUAR(ctx uintptr, flags uint32) (*abi.MLX5DVDevXUAR, uintptr, error) {
	p, err := l.lib.Ptr("mlx5dv_devx_alloc_uar", ctx, uintptr(flags))
	return cmem.At[abi.MLX5DVDevXUAR](p), p, err
}

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

// int mlx5dv_devx_subscribe_devx_event(struct mlx5dv_devx_event_channel *event_channel, struct mlx5dv_devx_obj *obj,
// uint16_t events_sz, uint16_t events_num[], uint64_t cookie);
func (l Lib) DevXSubscribe(ch, obj uintptr, events []uint16, cookie uint64) error {
	return l.lib.Err("mlx5dv_devx_subscribe_devx_event", ch, obj, uintptr(2*len(events)),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(cookie))
}

// struct mlx5dv_devx_cmd_comp *mlx5dv_devx_create_cmd_comp(struct ibv_context *context);
// Absent before v23, like the three that follow. It begins with its descriptor.
func (l Lib) DevXCreateCmdComp(ctx uintptr) (comp uintptr, fd int, err error) {
	comp, n, err := number(l.lib.Ptr("mlx5dv_devx_create_cmd_comp", ctx))
	return comp, int(int32(n)), err
}
