//go:build linux

package uapi

// CreateWQ makes a receive queue without a QP.
type CreateWQ struct {
	CompMask, WqType      uint32
	UserHandle            uint64
	PDHandle, CQHandle    uint32
	MaxWR, MaxSGE         uint32
	CreateFlags, Reserved uint32
}

// CreateWQResp answers create_wq.
type CreateWQResp struct{ CompMask, ResponseLength, WqHandle, MaxWR, MaxSGE, Wqn uint32 }

// ModifyWQ changes its state or its flags.
type ModifyWQ struct{ AttrMask, WqHandle, WqState, CurrWqState, Flags, FlagsMask uint32 }

// DestroyWQ is also the request of destroy_rwq_ind_tbl.
type DestroyWQ struct{ CompMask, WqHandle uint32 }

// DestroyWQResp answers destroy_wq.
type DestroyWQResp struct{ CompMask, ResponseLength, EventsReported, Reserved uint32 }

// CreateIndTable makes an indirection table; the handles of its WQs follow.
type CreateIndTable struct{ CompMask, LogIndTblSize uint32 }

// CreateIndTableResp answers it.
type CreateIndTableResp struct{ CompMask, ResponseLength, IndTblHandle, IndTblNum uint32 }

// Mlx5CreateWQ is the driver's part of create_wq.
type Mlx5CreateWQ struct {
	BufAddr, DbAddr                          uint64
	RqWqeCount, RqWqeShift, UserIndex, Flags uint32
	CompMask                                 uint32
	SingleStrideLogNumOfBytes                uint32
	SingleWqeLogNumOfStrides, TwoByteShiftEn uint32
}

// Mlx5ModifyWQ is that of modify_wq.
type Mlx5ModifyWQ struct{ CompMask, Reserved uint32 }

// Mlx5LengthResp is what the driver answers to create_wq and create_rwq_ind_tbl.
type Mlx5LengthResp struct{ ResponseLength, Reserved uint32 }

// Mlx5CreateQPRSS is the driver's part of create_qp for a QP that spreads frames among WQs.
type Mlx5CreateQPRSS struct {
	RxHashFieldsMask uint64
	RxHashFunction   uint8
	RxKeyLen         uint8
	Reserved         [6]byte
	RxHashKey        [128]byte
	CompMask, Flags  uint32
}
