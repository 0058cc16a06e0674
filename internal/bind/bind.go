// Package bind calls C functions by name. Its subpackages have one method for each function of
// libibverbs, libmlx5 and librdmacm, with its prototype. No other package knows symbols or how C
// reports failure.
//
// Handles are addresses of C objects. Arguments may point to Go memory: uintptr(unsafe.Pointer(p))
// in the argument list keeps *p on the heap and alive for the call. C keeps no such pointer, unless a method documents
// it. Errors are errnos, or a *loader.SymbolError where the library has no such function.
package bind

//go:generate go run ./gen

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/loader"
)

// Library calls the functions of an open library, with one method for each convention of returning
// errors. A symbol is looked up when it is first used, so a function missing from an old library
// affects only its callers.
type Library struct{ lib *loader.Library }

// Open opens a library once; later calls return the same one.
func Open(name loader.Name) (Library, error) {
	lib, err := loader.Open(name)
	return Library{lib}, err
}

// Path returns the file that was loaded.
func (l Library) Path() string { return l.lib.Path() }

// Version returns the library's version, as in "44.0"; it may be empty.
func (l Library) Version() string { return l.lib.Version() }

// Has reports whether the library has a function.
func (l Library) Has(name string) bool {
	_, err := l.Symbol(name)
	return err == nil
}

// Symbol returns the address of a function. The error is a *loader.SymbolError.
func (l Library) Symbol(name string) (uintptr, error) {
	if h := hidden.Load(); h != nil && slices.Contains(h.names, name) {
		return 0, &loader.SymbolError{
			Symbol: name, Library: l.lib.Name(), Path: l.Path(), Version: l.Version(), Since: h.since,
		}
	}
	return l.lib.Symbol(name)
}

// Missing returns, of an error for a function that a library lacks, which release has the function
// and what is here instead, each in words.
func Missing(err error) (since, have string, ok bool) {
	var e *loader.SymbolError
	if !errors.As(err, &e) {
		return "", "", false
	}
	return fmt.Sprintf("%s of rdma-core %s or later", e.Library, e.Since),
		fmt.Sprintf("version %q, without %s", e.Version, e.Symbol), true
}

// hidden holds the functions that Hide hides.
var hidden atomic.Pointer[symbols]

type symbols struct {
	since string
	names []string
}

// Hide makes libraries lack functions, like those from before a release, until undo is called. It is for tests.
func Hide(since string, names ...string) (undo func()) {
	hidden.Store(&symbols{since, names})
	return func() { hidden.Store(nil) }
}

// call calls a function by one of package ccall's.
func call[T any](l Library, name string, args []uintptr, by func(fn uintptr, args ...uintptr) (T, error)) (T, error) {
	runtime.LockOSThread() // for explained
	defer runtime.UnlockOSThread()
	var v T
	fn, err := l.Symbol(name)
	if err != nil {
		return v, err
	}
	if v, err = by(fn, args...); err != nil {
		err = explained(name, args, err)
	}
	return v, err
}

// Ptr calls a function that returns a pointer, or NULL and sets errno.
//
//go:uintptrescapes
func (l Library) Ptr(name string, args ...uintptr) (uintptr, error) {
	return call(l, name, args, ccall.Ptr)
}

// Plain is Err without WatchContext's explanation.
//
//go:uintptrescapes
func (l Library) Plain(name string, args ...uintptr) error {
	fn, err := l.Symbol(name)
	if err != nil {
		return err
	}
	return ccall.Err(fn, args...)
}

// Err calls a function that returns 0 or an errno.
//
//go:uintptrescapes
func (l Library) Err(name string, args ...uintptr) error {
	_, err := call(l, name, args, func(fn uintptr, args ...uintptr) (int, error) { return 0, ccall.Err(fn, args...) })
	return err
}

// Minus1 calls a function that returns 0, or -1 and sets errno.
//
//go:uintptrescapes
func (l Library) Minus1(name string, args ...uintptr) error {
	_, err := call(l, name, args, ccall.Minus1Int)
	return err
}

// Minus1Int calls a function that returns a number, or -1 or another negative number of its own and sets errno.
//
//go:uintptrescapes
func (l Library) Minus1Int(name string, args ...uintptr) (int, error) {
	return call(l, name, args, ccall.Minus1Int)
}

// NegErrno calls a function that returns a count, or an errno negated.
//
//go:uintptrescapes
func (l Library) NegErrno(name string, args ...uintptr) (int, error) {
	return call(l, name, args, ccall.NegErrno)
}

// Count calls a function that returns a count in an int, or an errno negated.
//
//go:uintptrescapes
func (l Library) Count(name string, args ...uintptr) (int, error) {
	return call(l, name, args, func(fn uintptr, args ...uintptr) (int, error) {
		n := ccall.Int(fn, args...)
		if n < 0 {
			return 0, abi.Errno(int(-n))
		}
		return int(n), nil
	})
}

// Size calls a function that returns a size, or -1 and sets errno.
//
//go:uintptrescapes
func (l Library) Size(name string, args ...uintptr) (int, error) {
	return call(l, name, args, ccall.Size)
}

// Void calls a function that returns nothing.
//
//go:uintptrescapes
func (l Library) Void(name string, args ...uintptr) error {
	fn, err := l.Symbol(name)
	if err != nil {
		return err
	}
	return ccall.Void(fn, args...)
}

// Int calls a function that returns an int and does not fail.
//
//go:uintptrescapes
func (l Library) Int(name string, args ...uintptr) (int32, error) {
	fn, err := l.Symbol(name)
	if err != nil {
		return 0, err
	}
	return ccall.Int(fn, args...), nil
}

// Uint64 calls a function that returns 64 bits and does not fail.
//
//go:uintptrescapes
func (l Library) Uint64(name string, args ...uintptr) (uint64, error) {
	fn, err := l.Symbol(name)
	if err != nil {
		return 0, err
	}
	return ccall.Uint64(fn, args...), nil
}

// String calls a function that returns a static string.
//
//go:uintptrescapes
func (l Library) String(name string, args ...uintptr) (string, error) {
	fn, err := l.Symbol(name)
	if err != nil {
		return "", err
	}
	return ccall.String(fn, args...), nil
}

// OpPtr calls op, a function of the provider of the context ctx, which returns a pointer, or NULL and sets errno. An op
// of 0 is one that is missing.
//
//go:uintptrescapes
func OpPtr(ctx, op uintptr, args ...uintptr) (uintptr, error) {
	if op == 0 {
		return 0, control.ErrNoOp
	}
	p, err := ccall.Ptr(op, args...)
	return p, Explain(ctx, err)
}

// OpErr is OpPtr for a function that returns 0 or an errno.
//
//go:uintptrescapes
func OpErr(ctx, op uintptr, args ...uintptr) error {
	if op == 0 {
		return control.ErrNoOp
	}
	return Explain(ctx, ccall.Err(op, args...))
}

// At returns a struct that a function has returned, and its address.
func At[T any](p uintptr, err error) (*T, uintptr, error) { return cmem.At[T](p), p, err }

// Number returns an object that a function has returned, and the number or the descriptor that it begins with.
func Number[T int | uint32](obj uintptr, err error) (uintptr, T, error) {
	if err != nil {
		return 0, 0, err
	}
	return obj, T(*cmem.At[int32](obj)), nil
}
