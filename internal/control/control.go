// Package control is what packages ibv, rdmacm and mlx5dv want from whatever creates, changes and destroys the objects of
// verbs: the libraries of C (internal/bind), or the kernel's own interface (internal/kernel). Posting and polling are not
// here.
//
// Errors are errnos, with the meaning that they have from libibverbs, or wrap one.
package control

import (
	"errors"
	"fmt"
)

// Handle names an object. Only the control path that returned it knows what it is: for a library it is the address of a
// struct. 0 is none.
type Handle = uintptr

// ErrNoOp is returned for a verb that the control path does not have. It matches errors.ErrUnsupported.
var ErrNoOp = fmt.Errorf("there is no such verb: %w", errors.ErrUnsupported)
