package ibv

import "fmt"

// ArgError is an argument that cannot be right on any device. Nothing was
// called.
type ArgError struct {
	Arg  string // its name
	Got  string // its value
	Want string // what it may be
}

func (e *ArgError) Error() string {
	return fmt.Sprintf("%s is %s; it must be %s", e.Arg, e.Got, e.Want)
}

// Unwrap makes an ArgError an EINVAL, as the C call would have answered.
func (e *ArgError) Unwrap() error { return errInvalid }
