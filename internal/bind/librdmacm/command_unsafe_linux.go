package librdmacm

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/cmem"
)

// command writes a command of Linux's include/uapi/rdma/rdma_user_cm.h that has a response.
func command(fd int, code uint32, number, arg uint32, resp unsafe.Pointer, size uintptr) error {
	cmd := &struct {
		Code     uint32
		In, Out  uint16
		Response uint64
		ID, Arg  uint32
	}{Code: code, In: 16, Out: uint16(size), Response: uint64(cmem.Heap(resp)), ID: number, Arg: arg}
	err := write(fd, unsafe.Slice((*byte)(unsafe.Pointer(cmd)), unsafe.Sizeof(*cmd)))
	runtime.KeepAlive(resp)
	return err
}

func write(fd int, cmd []byte) error {
	_, err := syscall.Write(fd, cmd)
	return err
}

// MoveRequests moves the connection requests that nobody has read from a channel to another one, to which their
// listeners have been moved. MIGRATE_ID has moved their events with the listener. But Linux from 5.10 on makes the ID
// of a request when it arrives, and leaves that ID where it is (drivers/infiniband/core/ucma.c,
// ucma_connect_event_handler). librdmacm would fail to use it, and the kernel would refuse the peer.
//
// The number of such an ID is the lowest that was free. So MoveRequests tries all numbers from 0 on, up to a gap that
// is too large to have come about since. It also moves the other IDs that are left at from: see SetChannel.
func (l Lib) MoveRequests(from, to uintptr) {
	const migrateID, gap = 18, 1024
	_ = on(to, func() error {
		reported := new(uint32)
		for n, free := uint32(0), 0; free < gap; n++ {
			switch err := command(fdOf(to), migrateID, n, uint32(fdOf(from)), unsafe.Pointer(reported),
				unsafe.Sizeof(*reported)); err {
			case syscall.ENOENT:
				free++
			case syscall.EACCES:
				return err
			default:
				free = 0
			}
		}
		return nil
	})
}
