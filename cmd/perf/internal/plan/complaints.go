package plan

import "fmt"

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

// complaints collects what is wrong, in the order of the checks.
type complaints []error

func (c *complaints) add(format string, a ...any) { *c = append(*c, fmt.Errorf(format, a...)) }

// unfit is add for what perftest takes: the option that has no effect there.
func (c *complaints) unfit(option, format string, a ...any) {
	*c = append(*c, &Unfit{option, fmt.Sprintf(format, a...)})
}
