package uverbs

import (
	"structs"
	"syscall"
	"unsafe"
)

// postSend is struct ib_uverbs_post_send of rdma/ib_user_verbs.h, without work requests.
type postSend struct {
	_        structs.HostLayout
	response uint64
	qp       uint32
	wrs      uint32
	sges     uint32
	wqeSize  uint32
}

const (
	cmdPostSend = 28  // C: IB_USER_VERBS_CMD_POST_SEND
	driverRXE   = 14  // C: RDMA_DRIVER_RXE
	driverSIW   = 18  // C: RDMA_DRIVER_SIW
	sendWRSize  = 128 // C: sizeof(struct ibv_send_wr)
)

var _ [24]byte = [unsafe.Sizeof(postSend{})]byte{}

// RingSend makes a software device, rxe or siw, look at the send queue of a QP, which the program shares with the
// kernel. fd is the context's descriptor, handle the kernel's of the QP. Other devices return EINVAL.
//
// C: post_send_db (rdma-core v44.0, providers/rxe/rxe.c:1606), siw_db (providers/siw/siw.h:101).
func RingSend(fd int, handle uint32) error {
	cmd, bad := &postSend{qp: handle, wqeSize: sendWRSize}, new(uint32)
	err := error(syscall.EINVAL)
	for _, driver := range []uint32{driverRXE, driverSIW} {
		c := &command{object: objectDevice, method: methodInvoke, driver: driver}
		c.value(writeCmd, cmdPostSend)
		c.add(coreIn, unsafe.Pointer(cmd), unsafe.Sizeof(*cmd))
		c.add(coreOut, unsafe.Pointer(bad), unsafe.Sizeof(*bad))
		if err = c.do(fd); err != syscall.EINVAL {
			break
		}
	}
	return err
}
