package ibv

import (
	"errors"
	"fmt"
	"math"
	"syscall"
)

// limit is a requested value and the most that the device allows.
type limit struct {
	what  string
	asked int
	most  int // negative if unknown
}

func (l limit) error(where string) error {
	most := min(l.most, mostInt)
	if most < 0 {
		most = mostInt
	}
	return &LimitError{What: l.what, Asked: uint64(l.asked), Limit: uint64(most), Where: where}
}

// safeInt is a number that no library miscounts with, whatever size of entries it multiplies it by. Some devices take
// more than they report, but not more than this.
const safeInt = 1 << 16

// ceiling returns the largest number that libraries get. They may round up what is larger, or cut it to fewer bits:
// libmlx5 of v17 and v22 ends the process with a CQ of 2^31 - 1 entries.
func (l limit) ceiling() int {
	if l.most < 0 {
		return mostInt
	}
	return min(max(l.most, safeInt), mostInt)
}

// mostInt is the largest number that C can take: for its int, and for a uint32_t that libraries
// treat as an int.
const mostInt = math.MaxInt32

// fitInt refuses numbers that no library gets. Smaller limits are for the device to enforce.
func fitInt(where string, limits ...limit) error {
	var errs []error
	for _, l := range limits {
		switch {
		case l.asked < 0 && l.most < 0:
			errs = append(errs, &ArgError{Arg: l.what, Got: fmt.Sprint(l.asked), Want: "0 or more"})
		case l.asked < 0:
			errs = append(errs, &ArgError{Arg: l.what, Got: fmt.Sprint(l.asked), Want: fmt.Sprintf("0 to %d", l.most)})
		case l.asked > l.ceiling():
			errs = append(errs, l.error(where))
		}
	}
	return errors.Join(errs...)
}

// usualWR is how many work requests a queue has room for unless the caller says it. most is the device's limit, 0 if it
// is not known.
func usualWR(most int) int {
	const usual = 128
	if most > 0 {
		return min(usual, most)
	}
	return usual
}

// grant is a limit and what a call granted.
type grant struct {
	limit
	given int
}

// checkGranted refuses a grant smaller than a request that was beyond the device: the
// arithmetic of the library overflowed.
func checkGranted(where string, grants ...grant) error {
	var errs []error
	for _, g := range grants {
		if g.given < g.asked && g.asked > g.most && g.most > 0 {
			errs = append(errs, g.error(where))
		}
	}
	return errors.Join(errs...)
}

// granted converts a size that a library returned. It may be a negative number where there is
// no room: libmlx5 subtracts the headers from a work request of no blocks.
func granted(n uint32) int { return int(max(int32(n), 0)) }

// explainLimits adds to a refusal the requests that were beyond the device, if any. The kernel
// itself returns only EINVAL or ENOMEM.
func explainLimits(err error, where string, limits ...limit) error {
	if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOMEM) {
		return err
	}
	var over []error
	for _, l := range limits {
		if l.asked > l.most {
			over = append(over, l.error(where))
		}
	}
	if over == nil {
		return err
	}
	return errors.Join(append(over, err)...)
}

// checkOptional is checkNone for a field of so many bits.
func checkOptional(arg string, v, bits int) error {
	if most := 1<<bits - 1; v > most {
		return limit{arg, v, most}.error(fmt.Sprintf("a field of %d bits", bits))
	}
	return checkNone(arg, v)
}

// fitOptional is fitInt for options that can be None.
func fitOptional(where string, limits ...limit) error {
	var errs []error
	for _, l := range limits {
		err := checkNone(l.what, l.asked)
		if err == nil {
			err = fitInt(where, l)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
