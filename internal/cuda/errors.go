package cuda

import (
	"fmt"
	"strings"
)

// A Try is a library that could not be opened.
type Try struct{ Name, Reason string }

// A LibraryError is a machine without CUDA's driver library.
type LibraryError struct{ Tried []Try }

// Error returns one line.
func (e *LibraryError) Error() string {
	var all []string
	for _, t := range e.Tried {
		all = append(all, t.Name+": "+t.Reason)
	}
	return "CUDA's driver library cannot be opened (" + strings.Join(all, "; ") +
		"); it comes with NVIDIA's driver: install that, or set LD_LIBRARY_PATH to the folder with libcuda.so.1"
}

// A SymbolError is a library that lacks a function.
type SymbolError struct {
	Library string
	Symbol  string
	Since   string // the release of CUDA that has it
}

// Error returns one line.
func (e *SymbolError) Error() string {
	return fmt.Sprintf("%s has no %s, which came with CUDA %s: a newer driver has it", e.Library, e.Symbol, e.Since)
}

// A DeviceError is a GPU that is not there.
type DeviceError struct {
	Device string // as asked for
	Count  int    // of GPUs
	Err    error  // or nil
}

// Error returns one line.
func (e *DeviceError) Error() string {
	have := fmt.Sprintf("there are %d, from 0", e.Count)
	switch e.Count {
	case 0:
		have = "there is none (nvidia-smi -L lists them; CUDA_VISIBLE_DEVICES may hide them)"
	case 1:
		have = "there is one, 0"
	}
	s := fmt.Sprintf("gpu %.40s is not there: %s", e.Device, have)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns CUDA's error.
func (e *DeviceError) Unwrap() error { return e.Err }

// Code is the result of a call of CUDA.
//
// C: enum cudaError_enum, CUresult.
type Code int32

// Some of the codes.
const (
	InvalidValue  Code = 1
	OutOfMemory   Code = 2
	NoDevice      Code = 100
	InvalidDevice Code = 101
	NotSupported  Code = 801
)

// An Error is a call of CUDA that failed.
type Error struct {
	Call string
	Code Code
	Text string // CUDA's, may be empty
}

// Error returns one line.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: CUDA error %d", e.Call, e.Code)
	if e.Text != "" {
		s += ", " + e.Text
	}
	return s
}

// Is reports whether target is the error's code.
func (e *Error) Is(target error) bool { return target == error(e.Code) }

// Error returns the number.
func (c Code) Error() string { return fmt.Sprintf("CUDA error %d", int32(c)) }
