package uverbs

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// What follows is for devices that a library has opened: commands that it cannot be asked for. They concern what the
// direct data path has taken over from it, or it would write them to the device file.

// Lent returns a file of a descriptor that a library has opened. The caller neither closes the File nor keeps it.
func Lent(fd int, driver uint32) *File { return NewFile(fd, driver, new(Forms), kernel) }

// DriverContext fills in the driver's part of what is known of a context, which is in the attribute id. A kernel before
// 5.9 does not report it.
func DriverContext(f *File, id uint16, driver []byte) error {
	return f.do(&queryContext, request{}, Out(id, driver))
}

const (
	driverRXE  = 14  // C: RDMA_DRIVER_RXE
	driverSIW  = 18  // C: RDMA_DRIVER_SIW
	sendWRSize = 128 // C: sizeof(struct ibv_send_wr)
)

var postSend = command{"post_send", 0, noMethod, 28}

// RingSend makes a software device, rxe or siw, look at the send queue of a QP, which the program shares with the
// kernel. fd is the context's descriptor, handle the kernel's of the QP. Other devices return EINVAL. Nothing is
// written, because the kernel may refuse that.
//
// C: post_send_db (rdma-core v44.0, providers/rxe/rxe.c:1606), siw_db (providers/siw/siw.h:101).
func RingSend(fd int, handle uint32) error {
	q, bad := &abi.UverbsPostSend{QPHandle: handle, WQESize: sendWRSize}, new(uint32)
	err := error(syscall.EINVAL)
	for _, driver := range []uint32{driverRXE, driverSIW} {
		if err = Lent(fd, driver).invoke(&postSend, &request{in: Bytes(q), out: Bytes(bad)}); err != syscall.EINVAL {
			break
		}
	}
	return err
}

// Refused reports whether the kernel refuses every write of the calling thread to an RDMA device file, rdma_cm's
// included, because of the thread's credentials. The caller has locked the goroutine to the thread on which a write
// returned EACCES. It writes a command that no kernel has.
func Refused(fd int) bool {
	c := [2]uint64{0: 0xffffffff} // more than the header of a command, which the emulator does not examine
	_, err := kernel.Write(fd, Bytes(&c))
	return err == syscall.EACCES
}
