package libmlx5

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// struct mlx5dv_mkey *mlx5dv_create_mkey(struct mlx5dv_mkey_init_attr *mkey_init_attr);
// Absent before v24. It writes the granted number of entries to attr.
func (l Lib) CreateMkey(attr *abi.MLX5DVMkeyInitAttr) (uintptr, control.Mkey, error) {
	h, err := l.lib.Ptr("mlx5dv_create_mkey", uintptr(unsafe.Pointer(attr)))
	if err != nil {
		return 0, control.Mkey{}, err
	}
	k := cmem.At[abi.MLX5DVMkey](h)
	return h, control.Mkey{LKey: k.LKey, RKey: k.RKey}, nil
}

// struct mlx5dv_dek *mlx5dv_dek_create(struct ibv_context *context, struct mlx5dv_dek_init_attr *init_attr);
// Absent before v37.
func (l Lib) DEKCreate(ctx uintptr, attr *abi.MLX5DVDEKInitAttr) (uintptr, uint32, error) {
	h, err := l.lib.Ptr("mlx5dv_dek_create", ctx, uintptr(unsafe.Pointer(attr)))
	return h, 0, err
}

// AsksForClearKeys reports whether a key in the clear has MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN in its attributes, without
// a login. So it is since v42, the release of mlx5dv_create_steering_anchor; libraries before refuse the bit.
func (l Lib) AsksForClearKeys() bool { return l.lib.Has("mlx5dv_create_steering_anchor") }

// int mlx5dv_set_context_attr(struct ibv_context *context, enum mlx5dv_set_ctx_attr_type type, void *attr);
func (l Lib) SetContextAllocators(ctx uintptr, a *abi.MLX5DVCtxAllocators) error {
	return l.lib.Err("mlx5dv_set_context_attr", ctx, abi.MLX5DV_CTX_ATTR_BUF_ALLOCATORS, uintptr(unsafe.Pointer(a)))
}

// struct mlx5dv_pp *mlx5dv_pp_alloc(struct ibv_context *context, size_t pp_context_sz, const void *pp_context,
// uint32_t flags);
// Absent before v29, as is mlx5dv_pp_free.
func (l Lib) PPAlloc(ctx uintptr, context []byte, flags uint32) (pp uintptr, index uint16, err error) {
	pp, err = l.lib.Ptr("mlx5dv_pp_alloc", ctx, uintptr(len(context)),
		uintptr(unsafe.Pointer(unsafe.SliceData(context))), uintptr(flags))
	if err == nil {
		index = cmem.At[abi.MLX5DVPP](pp).Index
	}
	return pp, index, err
}
