package ibv

import (
	"errors"
	"fmt"
	"math"
	"syscall"
)

// limit is something that was asked for and what the device has of it.
type limit struct {
	what  string
	asked int
	most  int // below 0 if nobody tells
}

func (l limit) error(where string) error {
	most := min(l.most, mostInt)
	if most < 0 {
		most = mostInt
	}
	return &LimitError{What: l.what, Asked: uint64(l.asked), Limit: uint64(most), Where: where}
}

// mostInt is the largest number that goes through C: its int, and its uint32_t
// that libraries reckon with as an int.
const mostInt = math.MaxInt32

// fitInt refuses numbers that C would see as others: negative ones, and those of
// more than its 31 bits. Lower limits are the device's to enforce.
func fitInt(where string, limits ...limit) error {
	var errs []error
	for _, l := range limits {
		switch {
		case l.asked < 0 && l.most < 0:
			errs = append(errs, &ArgError{Arg: l.what, Got: fmt.Sprint(l.asked), Want: "0 or more"})
		case l.asked < 0:
			errs = append(errs, &ArgError{Arg: l.what, Got: fmt.Sprint(l.asked), Want: fmt.Sprintf("0 to %d", l.most)})
		case l.asked > mostInt:
			errs = append(errs, l.error(where))
		}
	}
	return errors.Join(errs...)
}

// grant is what was asked for and what a call has given of it.
type grant struct {
	limit
	given int
}

// checkGranted refuses what a library granted less of than was asked, where that
// was beyond the device: its arithmetic has overflown.
func checkGranted(where string, grants ...grant) error {
	var errs []error
	for _, g := range grants {
		if g.given < g.asked && g.asked > g.most && g.most > 0 {
			errs = append(errs, g.error(where))
		}
	}
	return errors.Join(errs...)
}

// granted is a size that a library gives. With no room at all it may be a
// negative number: libmlx5 takes headers off a work request that has no block.
func granted(n uint32) int { return int(max(int32(n), 0)) }

// explainLimits turns a refusal into what was asked beyond the device, where
// something was. The kernel says no more than EINVAL or ENOMEM.
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

// orDefault is n, or def where n is 0, or 0 where n is None.
func orDefault(n, def int) int {
	switch n {
	case 0:
		return def
	case None:
		return 0
	}
	return n
}

// None asks for none of something whose zero value means a default.
const None = -1
