package ibv

import (
	"errors"
	"syscall"
)

// limit is something that was asked for and what the device has of it.
type limit struct {
	what  string
	asked int
	most  int
}

// explainLimits turns a refusal into what was asked beyond the device, where
// something was. The kernel says no more than EINVAL or ENOMEM.
func explainLimits(err error, where string, limits ...limit) error {
	if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOMEM) {
		return err
	}
	var over []error
	for _, l := range limits {
		if l.asked > l.most {
			over = append(over, &LimitError{What: l.what, Asked: uint64(l.asked), Limit: uint64(l.most), Where: where})
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
