package libibverbs

import (
	"errors"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// struct ibv_context *ibv_open_device(struct ibv_device *device);
func (l Lib) OpenDevice(dev uintptr) (uintptr, error) { return l.lib.Ptr("ibv_open_device", dev) }

// struct ibv_context *ibv_import_device(int cmd_fd);
// Absent before v31. The context owns the descriptor.
func (l Lib) ImportDevice(cmdFD int) (uintptr, error) {
	return l.lib.Ptr("ibv_import_device", uintptr(cmdFD))
}

// int ibv_close_device(struct ibv_context *context);
func (l Lib) CloseDevice(ctx uintptr) error { return l.lib.Err("ibv_close_device", ctx) }

// int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
func (l Lib) QueryDevice(ctx uintptr, attr *abi.DeviceAttr) error {
	return l.lib.Err("ibv_query_device", ctx, uintptr(unsafe.Pointer(attr)))
}

// Removed asks the kernel whether the device is gone: then every command fails.
func (l Lib) Removed(ctx uintptr) bool {
	err := l.lib.Plain("ibv_query_device", ctx, uintptr(unsafe.Pointer(new(abi.DeviceAttr))))
	return err == syscall.EIO || err == syscall.ENODEV
}

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

// int (*query_device_ex)(struct ibv_context *, const struct ibv_query_device_ex_input *, struct ibv_device_attr_ex *,
// size_t); an op of verbs_context, not an export.
func (l Lib) QueryDeviceEx(ctx uintptr, attr *abi.DeviceAttrEx) error {
	return opErr(ctx, abi.DistQueryDeviceEx, ctx, 0, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
}

// int (*query_rt_values)(struct ibv_context *, struct ibv_values_ex *); an op of verbs_context.
func (l Lib) QueryRTValuesEx(ctx uintptr, v *abi.ValuesEx) error {
	return opErr(ctx, abi.DistQueryRTValues, ctx, uintptr(unsafe.Pointer(v)))
}

// int ibv_query_port(struct ibv_context *, uint8_t port, struct ibv_port_attr *);
// The exported function knows only the first 48 bytes. The op of verbs_context takes a length and is used where there
// is one (v22).
func (l Lib) QueryPort(ctx uintptr, port uint8, attr *abi.PortAttr) error {
	if op := abi.ContextOp(ctx, abi.DistQueryPort); op != 0 {
		err := ccall.Err(op, ctx, uintptr(port), uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
		return explain(ctx, err)
	}
	return l.lib.Err("ibv_query_port", ctx, uintptr(port), uintptr(unsafe.Pointer(attr)))
}

// int ibv_query_gid(struct ibv_context *, uint8_t port, int index, union ibv_gid *gid);
func (l Lib) QueryGID(ctx uintptr, port uint8, index int, gid *abi.GID) error {
	return l.lib.Minus1("ibv_query_gid", ctx, uintptr(port), uintptr(index), uintptr(unsafe.Pointer(gid)))
}

// int _ibv_query_gid_ex(struct ibv_context *, uint32_t port, uint32_t index, struct ibv_gid_entry *, uint32_t flags,
// size_t entry_size); absent before v32.
func (l Lib) QueryGIDEx(ctx uintptr, port uint8, index int, e *abi.GIDEntry) error {
	return l.lib.Err("_ibv_query_gid_ex",
		ctx, uintptr(port), uintptr(index), uintptr(unsafe.Pointer(e)), 0, unsafe.Sizeof(*e))
}

// HasQueryGIDEx reports whether the library has QueryGIDEx and QueryGIDTable.
func (l Lib) HasQueryGIDEx() bool { return l.lib.Has("_ibv_query_gid_ex") }

// ssize_t _ibv_query_gid_table(struct ibv_context *, struct ibv_gid_entry *, size_t max, uint32_t flags,
// size_t entry_size); absent before v32.
func (l Lib) QueryGIDTable(ctx uintptr, entries []abi.GIDEntry) (int, error) {
	return l.lib.NegErrno("_ibv_query_gid_table", ctx, uintptr(unsafe.Pointer(unsafe.SliceData(entries))),
		uintptr(len(entries)), 0, unsafe.Sizeof(abi.GIDEntry{}))
}

// int ibv_query_pkey(struct ibv_context *, uint8_t port, int index, __be16 *pkey);
func (l Lib) QueryPKey(ctx uintptr, port uint8, index int) (uint16, error) {
	k := new(abi.Be16)
	err := l.lib.Minus1("ibv_query_pkey", ctx, uintptr(port), uintptr(index), uintptr(unsafe.Pointer(k)))
	return k.Get(), err
}

// int ibv_get_async_event(struct ibv_context *, struct ibv_async_event *event);
func (l Lib) GetAsyncEvent(ctx uintptr, ev *abi.AsyncEvent) error {
	return l.lib.Minus1("ibv_get_async_event", ctx, uintptr(unsafe.Pointer(ev)))
}

// void ibv_ack_async_event(struct ibv_async_event *event);
func (l Lib) AckAsyncEvent(ev *abi.AsyncEvent) {
	_ = l.lib.Void("ibv_ack_async_event", uintptr(unsafe.Pointer(ev)))
}

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
