package mlx5dv

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// RegDmabuf is ibv's PD.RegDmabuf with an option of mlx5: with dataDirect the device reaches the
// buffer over its data-direct function, past the host's root complex, which is faster for memory of
// a GPU behind the same switch.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_reg_dmabuf_mr(3), of libmlx5 v54.
func RegDmabuf(pd *ibv.PD, fd int, off uint64, length int, iova uint64, access ibv.AccessFlags,
	dataDirect bool) (*ibv.MR, error) {
	const op = "mlx5dv register dmabuf"
	lib, _, err := beginOn(pd, op).reach()
	if err != nil {
		return nil, err
	}
	var own uint32
	if dataDirect {
		own = abi.MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT
	}
	return verbs.RegDmabuf(pd, op, fd, off, length, iova, access, func(h uintptr) (uintptr, error) {
		return lib.RegDmabufMR(h, off, length, iova, fd, uint32(access), own)
	})
}
