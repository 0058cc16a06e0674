//go:build amd64 || arm64

package mmio

import "unsafe"

// Supported reports whether this architecture has the functions of this package.
const Supported = true

// RingSendBlueFlame rings the doorbell of a send queue by writing the WQE itself to a BlueFlame register: blocks times
// 64 bytes, in ascending 8-byte stores. The WQE begins at wqe. If it reaches end, the end of the ring, it continues at
// start.
//
// Pairs with mlx5_bf_copy (rdma-core v64.0, providers/mlx5/qp.c:301). PRM: "BlueFlame doorbell".
//
//go:noescape
func RingSendBlueFlame(dbrec unsafe.Pointer, record uint32, reg, wqe unsafe.Pointer, blocks int, start,
	end unsafe.Pointer)

// Moved publishes a CQ's consumer index after entries were moved within the ring. The stores to the entries reach
// memory before the index does: once the device sees the index, it may overwrite the entries.
//
// Pairs with the udma_to_device_barrier in __mlx5_cq_clean (rdma-core v64.0, providers/mlx5/cq.c:1864).
//
//go:noescape
func Moved(dbrec unsafe.Pointer, ci uint32)

// ArmCQ arms a CQ. It stores record to the arm word of the doorbell record, then cmd to the register.
//
// Pairs with mlx5_arm_cq (rdma-core v64.0, providers/mlx5/cq.c:1722).
//
//go:noescape
func ArmCQ(armRec unsafe.Pointer, record uint32, reg unsafe.Pointer, cmd uint64)
