package libibverbs

import (
	"errors"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// Removed asks the kernel whether the device is gone: then every command fails.
func (l Lib) Removed(ctx uintptr) bool {
	err := l.lib.Plain("ibv_query_device", ctx, uintptr(unsafe.Pointer(new(abi.DeviceAttr))))
	return err == syscall.EIO || err == syscall.ENODEV
}

// int (*query_device_ex)(struct ibv_context *, const struct ibv_query_device_ex_input *, struct ibv_device_attr_ex *,
// size_t); an op of verbs_context, not an export.
func (l Lib) QueryDeviceEx(ctx uintptr, attr *abi.DeviceAttrEx) error {
	return opErr(ctx, abi.DistQueryDeviceEx, ctx, 0, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
}

// int ibv_query_port(struct ibv_context *, uint8_t port, struct ibv_port_attr *);
// The exported function knows only the first 48 bytes. The op of verbs_context takes a length and is used where there
// is one (v22).
func (l Lib) QueryPort(ctx uintptr, port uint8, attr *abi.PortAttr) error {
	if op := abi.ContextOp(ctx, abi.DistQueryPort); op != 0 {
		return bind.OpErr(ctx, op, ctx, uintptr(port), uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
	}
	return l.lib.Err("ibv_query_port", ctx, uintptr(port), uintptr(unsafe.Pointer(attr)))
}

// HasQueryGIDEx reports whether the library has QueryGIDEx and QueryGIDTable.
func (l Lib) HasQueryGIDEx() bool { return l.lib.Has("_ibv_query_gid_ex") }

// Context reads a struct ibv_context, and the struct verbs_context that contains it.
func (l Lib) Context(ctx uintptr) control.Context {
	c := cmem.At[abi.Context](ctx)
	return control.Context{Device: c.Device, CmdFD: int(c.CmdFD), AsyncFD: int(c.AsyncFD),
		CompVectors: int(c.NumCompVectors), Size: int(abi.ContextSize(ctx))}
}

// Owner returns the struct ibv_context of a C object, which is its first field.
func (l Lib) Owner(obj uintptr) uintptr { return *cmem.At[uintptr](obj) }

// Watch is bind.WatchContext.
func (l Lib) Watch(ctx uintptr, explain func(error) error) { bind.WatchContext(ctx, explain) }

// Unwatch is bind.UnwatchContext.
func (l Lib) Unwatch(ctx uintptr) { bind.UnwatchContext(ctx) }

// destroy destroys an object, whose first field is its context.
func (l Lib) destroy(name string, obj uintptr) error {
	ctx := *cmem.At[uintptr](obj)
	return l.Destroyed(ctx, l.lib.Err(name, obj))
}

// Destroyed returns the error of a call that destroys an object. On a removed device libibverbs
// returns EIO and keeps the object's memory, or EBUSY because of another object that it keeps. The
// kernel's objects are gone, so both count as success.
func (l Lib) Destroyed(ctx uintptr, err error) error {
	for _, errno := range []error{syscall.EIO, syscall.ENODEV, syscall.EBUSY} {
		if errors.Is(err, errno) && l.Removed(ctx) {
			return nil
		}
	}
	return err
}
