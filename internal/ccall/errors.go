package ccall

import (
	"errors"
	"fmt"
)

// maxArgs is how many arguments a control-path call takes.
const maxArgs = 15

// CallError is a call that was not made.
type CallError struct {
	Fn     uintptr // the C function; 0 where the library or the provider has none
	Args   int     // how many arguments were given
	Reason string
}

func (e *CallError) Error() string {
	return fmt.Sprintf("c function %#x with %d arguments was not called: %s", e.Fn, e.Args, e.Reason)
}

// Is reports a missing function, and a system other than Linux, as
// errors.ErrUnsupported.
func (e *CallError) Is(target error) bool {
	return target == errors.ErrUnsupported && (e.Fn == 0 || e.Reason == reasonSystem)
}

const (
	reasonNil    = "the function is missing (a nil pointer)"
	reasonSystem = "calling C libraries for RDMA is for Linux"
	reasonArgs   = "the limit is 15 arguments"
)
