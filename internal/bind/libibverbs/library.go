// Package libibverbs calls libibverbs: one method for each C function, named after it, with its prototype above, in a
// file for each C object. It also reads the public fields of the objects.
package libibverbs

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/loader"
)

// Lib is libibverbs. A function that is an op of verbs_context, which an older libibverbs or another provider may not
// have, then returns control.ErrNoOp.
type Lib struct {
	control.NoExperimental

	lib bind.Library
}

// Open opens the library, once.
func Open() (Lib, error) {
	l, err := bind.Open(loader.IBVerbs)
	return Lib{lib: l}, err
}

// Path returns the file that was loaded.
func (l Lib) Path() string { return l.lib.Path() }

// Version returns the library's version, as in "44.0"; it may be empty.
func (l Lib) Version() string { return l.lib.Version() }

// opPtr calls an op of verbs_context that returns a pointer, or NULL and sets errno.
//
//go:uintptrescapes
func opPtr(ctx, dist uintptr, args ...uintptr) (uintptr, error) {
	return bind.OpPtr(ctx, abi.ContextOp(ctx, dist), args...)
}

// opErr calls an op of verbs_context that returns 0 or an errno.
//
//go:uintptrescapes
func opErr(ctx, dist uintptr, args ...uintptr) error {
	return bind.OpErr(ctx, abi.ContextOp(ctx, dist), args...)
}
