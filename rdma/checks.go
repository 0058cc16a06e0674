package rdma

import (
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// None means none or never in an option whose 0 means a default, here as in packages ibv and rdmacm.
const None = ibv.None

// positive refuses an option that is below 0 and not None.
func positive[T ~int | ~int64](arg string, v T) error {
	if v >= None {
		return nil
	}
	return &ibv.ArgError{Arg: arg, Got: fmt.Sprint(v), Want: "positive, 0 for the default or None"}
}

// notNegative refuses an option that is below 0.
func notNegative(arg string, v time.Duration) error {
	if v >= 0 {
		return nil
	}
	return &ibv.ArgError{Arg: arg, Got: v.String(), Want: "more than 0, or 0 for the default"}
}

// upTo refuses an option that is below 0 or above most.
func upTo(arg string, v, most int) error {
	if v >= 0 && v <= most {
		return nil
	}
	return &ibv.ArgError{Arg: arg, Got: fmt.Sprint(v), Want: fmt.Sprintf("1 to %d, or 0 for the default", most)}
}
