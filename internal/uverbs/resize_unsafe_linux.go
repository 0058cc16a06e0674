package uverbs

import (
	"structs"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/cmem"
)

// resizeCQ is the command as it is written: struct ib_uverbs_cmd_hdr, struct ib_uverbs_resize_cq, and struct
// mlx5_ib_resize_cq of rdma/mlx5-abi.h. INVOKE_WRITE takes the latter two.
type resizeCQ struct {
	_        structs.HostLayout
	command  uint32
	inWords  uint16
	outWords uint16

	response uint64
	cq       uint32
	cqe      uint32

	bufAddr uint64
	cqeSize uint16
	_       [6]byte
}

// resizeCQResp is struct ib_uverbs_resize_cq_resp.
type resizeCQResp struct {
	_   structs.HostLayout
	cqe uint32
	_   uint32
}

const cmdResizeCQ = 19 // C: IB_USER_VERBS_CMD_RESIZE_CQ

const (
	resizeCore   = unsafe.Offsetof(resizeCQ{}.response)
	resizeDriver = unsafe.Offsetof(resizeCQ{}.bufAddr)
)

var (
	_ [40]byte = [unsafe.Sizeof(resizeCQ{})]byte{}
	_ [8]byte  = [resizeCore]byte{}
	_ [24]byte = [resizeDriver]byte{}
	_ [8]byte  = [unsafe.Sizeof(resizeCQResp{})]byte{}
)

// ResizeCQ makes an mlx5 device continue in another ring, of entries entries of size bytes at buf: a power of two, and
// not as many as the CQ has. fd is the context's descriptor, handle the kernel's of the CQ. The error is EACCES if the
// kernel lacks the ioctl and refuses a write of this thread.
//
// C: mlx5_resize_cq (rdma-core v44.0, providers/mlx5/verbs.c:1212).
func ResizeCQ(fd int, handle uint32, buf uintptr, entries, size uint32) error {
	resp := new(resizeCQResp)
	cmd := &resizeCQ{command: cmdResizeCQ, inWords: uint16(unsafe.Sizeof(resizeCQ{}) / 4),
		outWords: uint16(unsafe.Sizeof(resizeCQResp{}) / 4), response: uint64(cmem.Heap(unsafe.Pointer(resp))),
		cq: handle, cqe: entries - 1, bufAddr: uint64(buf), cqeSize: uint16(size)}
	c := &command{object: objectDevice, method: methodInvoke, driver: driverMLX5}
	c.value(writeCmd, cmdResizeCQ)
	c.add(coreIn, unsafe.Pointer(&cmd.response), resizeDriver-resizeCore)
	c.add(coreOut, unsafe.Pointer(resp), unsafe.Sizeof(*resp))
	c.add(driverIn, unsafe.Pointer(&cmd.bufAddr), unsafe.Sizeof(*cmd)-resizeDriver)
	err := c.do(fd)
	if noInvoke(err) {
		err = write(fd, unsafe.Slice((*byte)(unsafe.Pointer(cmd)), unsafe.Sizeof(*cmd)))
	}
	if err == nil && resp.cqe != entries-1 {
		return syscall.EPROTO
	}
	return err
}

// write writes a command, whose responses it names.
func write(fd int, cmd []byte) error {
	for {
		n, err := syscall.Write(fd, cmd)
		switch {
		case err == syscall.EINTR:
			continue
		case err == nil && n != len(cmd):
			return syscall.EPROTO
		}
		return err
	}
}
