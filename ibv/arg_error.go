package ibv

import (
	"fmt"
	"syscall"
)

var errInvalid error = syscall.EINVAL

// ArgError reports an argument that is invalid on any device. The library was not called. It
// unwraps to EINVAL.
type ArgError struct {
	Arg  string // its name
	Got  string // its value
	Want string // the valid values
}

func (e *ArgError) Error() string {
	return fmt.Sprintf("%s is %s; it must be %s", e.Arg, e.Got, e.Want)
}

// Unwrap returns EINVAL, which the C call would have returned.
func (e *ArgError) Unwrap() error { return errInvalid }
