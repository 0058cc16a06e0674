package mlx5

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// Objects and methods of the driver. C: enum mlx5_ib_objects and its like, of rdma/mlx5_user_ioctl_cmds.h.
const (
	objectDevX    = driverNamespace
	objectObj     = driverNamespace + 1
	objectUmem    = driverNamespace + 2
	objectMatcher = driverNamespace + 3
	objectAnswers = driverNamespace + 4
	objectEvents  = driverNamespace + 5
	objectVAR     = driverNamespace + 6
	objectPP      = driverNamespace + 7
	objectAnchor  = driverNamespace + 9

	devxOther     = driverNamespace
	devxQueryUAR  = driverNamespace + 1
	devxQueryEQN  = driverNamespace + 2
	devxSubscribe = driverNamespace + 3

	// Objects have these methods in this order.
	methodCreate     = driverNamespace
	methodDestroy    = driverNamespace + 1
	methodModify     = driverNamespace + 2
	methodQuery      = driverNamespace + 3
	methodQueryAsync = driverNamespace + 4

	attr0 = driverNamespace // the first attribute of a method

	remoteIO = 121 // the errno of a command that the firmware refused: EREMOTEIO of Linux
)

func newKernelObject(c *context) kernelObject { return numbered(c, 0) }

func numbered(c *context, n uint32) kernelObject { return kernelObject{object{c: c}, n} }

// answered returns an error if the firmware refused a command.
func answered(out []byte, err error) error {
	switch {
	case out[0] == 0 || err != nil && err != syscall.Errno(remoteIO):
		return err
	case statusErrnos[out[0]] != 0:
		return statusErrnos[out[0]]
	}
	return syscall.EIO
}

const badParameter = 0x3 // C: MLX5_CMD_STAT_BAD_PARAM_ERR

// statusErrnos are the errnos of libmlx5 for what the firmware answers. C: mlx5_cmd_status_to_err.
var statusErrnos = [256]syscall.Errno{0x2: syscall.EINVAL, badParameter: syscall.EINVAL, 0x5: syscall.EINVAL,
	0x6: syscall.EBUSY, 0x8: syscall.ENOMEM, 0x9: syscall.EINVAL, 0xa: syscall.EINVAL, 0xf: syscall.EAGAIN,
	0x10: syscall.EINVAL, 0x30: syscall.EINVAL, 0x40: syscall.EINVAL}

// drop ends an object of the driver's kinds.
func (c *context) drop(command string, kind uint16, number uint32) error {
	return c.destroyed(c.file.Method(command, kind, methodDestroy, uverbs.Handle(attr0, number)))
}

// creates makes an object of the driver's kinds.
func (c *context) creates(command string, kind uint16, number *uint32, args ...uverbs.Arg) error {
	return unsupported(c.file.Method(command, kind, methodCreate,
		append([]uverbs.Arg{uverbs.New(attr0, number)}, args...)...))
}

// obj makes an object by a command.
func (c *context) obj(in, out []byte) (o obj, err error) {
	o.kernelObject = newKernelObject(c)
	err = c.creates("devx_obj_create", objectObj, &o.number, uverbs.In(attr0+1, in),
		uverbs.Out(attr0+2, out))
	return o, err
}

// about sends a command about an object of the kernel, which may be one of verbs.
func (c *context) about(method uint16, number uint32, in, out []byte) error {
	name := "devx_obj_query"
	if method == methodModify {
		name = "devx_obj_modify"
	}
	return unsupported(c.file.Method(name, objectObj, method, uverbs.Handle(attr0, number), uverbs.In(attr0+1, in),
		uverbs.Out(attr0+2, out)))
}

func (o *obj) modify(in, out []byte) error { return o.c.about(methodModify, o.number, in, out) }

func (o *obj) end() error { return o.c.drop("devx_obj_destroy", objectObj, o.number) }

// general sends a command that is about no object.
func (c *context) general(in, out []byte) error {
	return c.file.Method("devx_other", objectDevX, devxOther, uverbs.In(attr0, in), uverbs.Out(attr0+1, out))
}
