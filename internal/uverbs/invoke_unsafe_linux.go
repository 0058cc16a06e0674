package uverbs

import (
	"structs"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/cmem"
)

// attr is struct ib_uverbs_attr of rdma/rdma_user_ioctl_cmds.h.
type attr struct {
	_     structs.HostLayout
	id    uint16
	len   uint16
	flags uint16
	_     uint16
	data  uint64
}

// command is struct ib_uverbs_ioctl_hdr with room for attributes.
type command struct {
	_      structs.HostLayout
	length uint16
	object uint16
	method uint16
	num    uint16
	_      uint64
	driver uint32
	_      uint32
	attrs  [5]attr
}

const (
	ioctl        = 0xc0181b01 // C: RDMA_VERBS_IOCTL
	mandatory    = 1          // C: UVERBS_ATTR_F_MANDATORY
	objectDevice = 0          // C: UVERBS_OBJECT_DEVICE
	methodInvoke = 0          // C: UVERBS_METHOD_INVOKE_WRITE
	coreIn       = 0          // C: UVERBS_ATTR_CORE_IN
	coreOut      = 1          // C: UVERBS_ATTR_CORE_OUT
	writeCmd     = 2          // C: UVERBS_ATTR_WRITE_CMD
	driverIn     = 1 << 12    // C: UVERBS_ATTR_UHW_IN
)

var (
	_ [24]byte = [unsafe.Offsetof(command{}.attrs)]byte{}
	_ [16]byte = [unsafe.Sizeof(attr{})]byte{}
)

// add appends an attribute of size bytes at p, which the caller keeps alive.
func (c *command) add(id uint16, p unsafe.Pointer, size uintptr) {
	c.attrs[c.num] = attr{id: id, len: uint16(size), flags: mandatory, data: uint64(cmem.Heap(p))}
	c.num++
}

// value appends an attribute that holds its value.
func (c *command) value(id uint16, v uint64) {
	c.attrs[c.num] = attr{id: id, len: 8, flags: mandatory, data: v}
	c.num++
}

func (c *command) do(fd int) error {
	c.length = uint16(unsafe.Offsetof(c.attrs) + uintptr(c.num)*unsafe.Sizeof(attr{}))
	for {
		_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), ioctl, uintptr(unsafe.Pointer(c)))
		switch e {
		case syscall.EINTR:
			continue
		case 0:
			return nil
		}
		return e
	}
}

// noInvoke reports whether the error of the ioctl means that the kernel has no ioctl, or no INVOKE_WRITE.
func noInvoke(err error) bool { return err == syscall.ENOTTY || err == syscall.EPROTONOSUPPORT }

// Refused reports whether the kernel refuses every write of the calling thread to an RDMA device file, rdma_cm's
// included, because of the thread's credentials. The caller has locked the goroutine to the thread on which a write
// returned EACCES. It writes a command that no kernel has.
func Refused(fd int) bool {
	cmd := [2]uint64{0: 0xffffffff} // more than the header of a command, which the emulator does not examine
	_, err := syscall.Write(fd, unsafe.Slice((*byte)(unsafe.Pointer(&cmd)), unsafe.Sizeof(cmd)))
	return err == syscall.EACCES
}
