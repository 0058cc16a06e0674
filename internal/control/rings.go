package control

import "github.com/pureverbs/pureverbs/internal/abi"

// Rings gives the direct data path the rings of an mlx5 device's objects, and what posting to them has to know. Its
// methods are named after the functions of libmlx5.
type Rings interface {
	// IsSupported reports whether the device is one of mlx5.
	IsSupported(ctx Handle) (bool, error)
	// Drives is IsSupported for a device that is not open.
	Drives(dev Handle) (bool, error)
	// OpenDevice opens a device with attributes.
	OpenDevice(dev Handle, attr *abi.MLX5DVContextAttr) (Handle, error)
	// OpensWithDevX reports whether Devices.OpenDevice requests DevX.
	OpensWithDevX() bool

	InitCQ(cq Handle) (*abi.MLX5DVCQ, error)
	// InitQP returns the rings of a QP. mask requests optional fields; CompMask has those that are set.
	InitQP(qp Handle, mask uint64) (*abi.MLX5DVQP, error)
	InitSRQ(srq Handle, mask uint64) (*abi.MLX5DVSRQ, error)
	InitRWQ(wq Handle) (*abi.MLX5DVRWQ, error)
	// InitAH returns the address of the address vector.
	InitAH(ah Handle) (av uintptr, err error)

	CreateQP(ctx Handle, attr *abi.QPInitAttrEx, dv *abi.MLX5DVQPInitAttr) (Handle, error)
	// DevXGeneralCmd sends a command to the firmware.
	DevXGeneralCmd(ctx Handle, in, out []byte) error

	// SwapCQ makes the device use another ring for a CQ: entries of size bytes, from address buf. The caller owns the
	// memory.
	SwapCQ(cq Handle, buf uintptr, entries, size uint32) error
	// NoInlineHeaders reports whether the device wants no header of a frame in the work request.
	NoInlineHeaders(ctx Handle) (bool, error)

	// QPExFromIBVQPEx returns the struct mlx5dv_qp_ex of C.
	QPExFromIBVQPEx(qp Handle) (uintptr, error)
	// ClockInfo returns how the direct data path reads a device's clock.
	ClockInfo(ctx Handle) (ClockInfo, error)
}

// ClockInfo is where to read how ticks of a device relate to time.
type ClockInfo struct {
	Func uintptr        // the address of mlx5dv_get_clock_info; 0 if there is none
	Page *abi.ClockPage // the kernel's page otherwise, until the device is closed
}
