package librdmacm

import (
	"bytes"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// librdmacm before v23 connects only QPs that it created: it has neither rdma_init_qp_attr nor rdma_establish. They are
// commands that librdmacm writes to the file of the event channel, so this file writes them.

// privateID is the beginning of librdmacm's struct cma_id_private, the same in v15 to v65 (librdmacm/cma.c).
type privateID struct {
	abi.RDMACMID
	_            [3]uint64 // cma_dev, connect, connect_len
	_            int32     // events_completed
	ConnectError int32
	_            int32     // sync
	_            [6]uint64 // cond
	Mutex        [0]uint64 // glibc's has 40 bytes, and 48 on arm64
}

// kernelID returns the kernel's number of an ID, which follows the mutex in struct cma_id_private, and reports whether
// the kernel knows an ID with these addresses by that number. The error is EACCES.
func kernelID(id uintptr) (number uint32, ok bool, err error) {
	mutex := uintptr(40)
	if runtime.GOARCH == "arm64" {
		mutex = 48
	}
	number = *cmem.At[uint32](id + unsafe.Offsetof(privateID{}.Mutex) + mutex)
	var route abi.UCMQueryRouteResp
	q := abi.UCMQuery{ID: number}
	switch usercm.Ask(fileOf(id), usercm.CmdQueryRoute, &q, &q.Response, &route) {
	case nil:
	case syscall.EACCES:
		return 0, false, syscall.EACCES
	default:
		return 0, false, nil
	}
	const ipv4 = 16 // a struct sockaddr_in: family, port and address
	a := &cmem.At[abi.RDMACMID](id).Route.Addr
	return number, bytes.Equal(route.SrcAddr[:ipv4], a.SrcStorage[:ipv4]) &&
		bytes.Equal(route.DstAddr[:ipv4], a.DstStorage[:ipv4]), nil
}

// initQPAttr is rdma_init_qp_attr.
func initQPAttr(id uintptr, attr *abi.QPAttr) (mask uint32, known bool, err error) {
	number, ok, err := kernelID(id)
	if !ok {
		return 0, false, err
	}
	q, a := abi.UCMQuery{ID: number, Arg: attr.QPState}, abi.UverbsQPAttr{}
	if err := usercm.Ask(fileOf(id), usercm.CmdInitQPAttr, &q, &q.Response, &a); err != nil {
		return 0, true, err
	}
	*attr = a.QPAttr()
	return a.QPAttrMask, true, nil
}

// establish is rdma_establish: the command ACCEPT without parameters.
func establish(id uintptr) (known bool, err error) {
	number, ok, err := kernelID(id)
	if !ok {
		return false, err
	}
	return true, usercm.Tell(fileOf(id), usercm.CmdAccept, &abi.UCMAccept{ID: number})
}

// fileOf returns the file of an ID's channel.
func fileOf(id uintptr) usercm.Descriptor { return usercm.Descriptor(fdOf(channelOf(id))) }

// pardon makes an ID forget that librdmacm before v21 could not bring up a QP that it did not create, after which it
// drops the ID's other events, and reports whether that was the case.
func pardon(id uintptr) bool {
	p := cmem.At[privateID](id)
	failed := p.ConnectError != 0
	p.ConnectError = 0
	return failed
}
