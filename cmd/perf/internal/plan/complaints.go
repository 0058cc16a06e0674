package plan

import (
	"cmp"
	"fmt"
)

// Limits, perftest's where it has one.
const (
	maxSize    = 1 << 31
	minIters   = 5
	maxDepth   = 15000
	maxReceive = 16384
	maxSamples = 1 << 28
)

// MaxOutReads is the most that rdmacm.Options can ask for.
const MaxOutReads = 254

// Unfit is why an option cannot have an effect next to the others. What perftest takes is taken without it.
type Unfit struct {
	Option string // its name on the command line
	Reason string
}

func (u *Unfit) Error() string { return u.Reason }

// wrong returns what is wrong with a plan, if it is.
func wrong(is bool, format string, a ...any) error {
	if !is {
		return nil
	}
	return fmt.Errorf(format, a...)
}

// unfit is wrong for what perftest takes: the option that has no effect there.
func unfit(is bool, option, format string, a ...any) error {
	if !is {
		return nil
	}
	return &Unfit{option, fmt.Sprintf(format, a...)}
}

// first has one of several errors, which have the same reason.
func first(errs ...error) []error { return []error{cmp.Or(errs...)} }
