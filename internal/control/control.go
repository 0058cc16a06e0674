// Package control has the interfaces by which packages ibv and rdmacm create, change and destroy the objects of verbs.
// Two control paths implement them: the libraries of C (internal/bind) and the kernel's device files (internal/kernel).
// Posting and polling are not here.
//
// Errors are errnos, with the meaning that they have from libibverbs, or wrap one.
package control

import (
	"errors"
	"fmt"
	"syscall"
)

// Handle names an object. Only the control path that returned it knows what it is: for a library it is the address of a
// struct. 0 is none.
type Handle = uintptr

// ErrNoOp is returned for a verb that the control path does not have. It matches errors.ErrUnsupported.
var ErrNoOp = fmt.Errorf("there is no such verb: %w", errors.ErrUnsupported)

// ErrNotNative is ErrNoOp for a call of MLX5 that needs libmlx5.
var ErrNotNative = fmt.Errorf("the native control path has no such call: %w", ErrNoOp)

// Explained reports whether the explanation that Verbs.Watch was given may have something to say of an errno: EIO,
// which every command on a device that is gone returns, EACCES, which every command returns that a thread with other
// credentials writes, and EAGAIN, which the rdma cgroup returns. Each has other reasons too.
func Explained(err error) bool {
	return err == syscall.EIO || err == syscall.EACCES || err == syscall.EAGAIN
}
