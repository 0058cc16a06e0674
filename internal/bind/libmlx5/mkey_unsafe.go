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

// int _mlx5dv_mkey_check(struct mlx5dv_mkey *mkey, struct mlx5dv_mkey_err *err_info, size_t err_info_size);
// Absent before v36. C programs call it by mlx5dv_mkey_check, which is inline.
func (l Lib) MkeyCheck(mkey uintptr, info *abi.MLX5DVMkeyErr) error {
	return l.lib.Err("_mlx5dv_mkey_check", mkey, uintptr(unsafe.Pointer(info)), unsafe.Sizeof(*info))
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
