package mlx5dv

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/mmio"
)

// RingSend makes the device execute the WQEs of a send queue of DevX that were built. record is the
// send doorbell record, 4 bytes, next the free-running count of 64-byte blocks after the last WQE,
// and wqe that WQE. It orders the stores to the ring, to the record and to the register.
func (u *UAR) RingSend(record []byte, next uint16, wqe []byte) error {
	const op = "mlx5dv ring send"
	if err := u.enter(op); err != nil {
		return err
	}
	defer u.leave()
	if len(record) < 4 || len(wqe) < 16 {
		return opError(op, u.name, &ibv.ArgError{Arg: "record", Got: "less than 4 bytes, or a WQE of less than 16",
			Want: "a doorbell record and a control segment"})
	}
	mmio.RingSend(unsafe.Pointer(&record[0]), bits.ReverseBytes32(uint32(next)), cmem.Pointer(u.attr.RegAddr),
		binary.NativeEndian.Uint64(wqe))
	return nil
}
