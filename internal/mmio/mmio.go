//go:build amd64 || arm64

package mmio

import "unsafe"

// Supported says that this architecture has the stores of this package.
const Supported = true

// RingSend rings a send queue: record, a big-endian count of 64-byte blocks as it stands in memory, goes to the
// doorbell record, then ctrl, the first 8 bytes of the last WQE as they stand in memory, to the register.
//
// Pairs with post_send_db in rdma-core, providers/mlx5/qp.c.
//
//go:noescape
func RingSend(dbrec unsafe.Pointer, record uint32, reg unsafe.Pointer, ctrl uint64)

// RingSendBlueFlame rings a send queue by writing the WQE itself, blocks times 64 bytes in ascending 8-byte stores, to
// a BlueFlame register. The WQE begins at wqe; where it reaches end it goes on at start.
//
// Pairs with mlx5_bf_copy in rdma-core, providers/mlx5/qp.c. PRM: "BlueFlame doorbell".
//
//go:noescape
func RingSendBlueFlame(dbrec unsafe.Pointer, record uint32, reg, wqe unsafe.Pointer, blocks int, start,
	end unsafe.Pointer)

// Moved publishes a CQ's consumer index after entries were moved up in the ring: a store to an entry must not reach
// memory after the device, which may have the entry when it sees the index, has overwritten it.
//
// Pairs with the udma_to_device_barrier in __mlx5_cq_clean in rdma-core, providers/mlx5/cq.c.
//
//go:noescape
func Moved(dbrec unsafe.Pointer, ci uint32)

// ArmCQ arms a CQ: record goes to the arm word of its doorbell record, then cmd to the register.
//
// Pairs with mlx5_arm_cq in rdma-core, providers/mlx5/cq.c.
//
//go:noescape
func ArmCQ(armRec unsafe.Pointer, record uint32, reg unsafe.Pointer, cmd uint64)
