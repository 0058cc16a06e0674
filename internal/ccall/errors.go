package ccall

import (
	"errors"
	"fmt"
)

// maxArgs is the maximum number of arguments of a control-path call.
const maxArgs = 15

// CallError reports a call that was not made.
type CallError struct {
	Fn     uintptr // the C function; 0 if the library or the provider has none
	Args   int     // number of arguments
	Reason string
}

func (e *CallError) Error() string {
	return fmt.Sprintf("c function %#x with %d arguments was not called: %s", e.Fn, e.Args, e.Reason)
}

// Is reports whether target is errors.ErrUnsupported and the function is missing or the system is
// not Linux.
func (e *CallError) Is(target error) bool {
	return target == errors.ErrUnsupported && (e.Fn == 0 || e.Reason == reasonSystem)
}

const (
	reasonNil    = "the function is missing (a nil pointer)"
	reasonSystem = "C libraries for RDMA can be called only on Linux, and not in a static program"
	reasonArgs   = "the limit is 15 arguments"
)
