package rdma

import (
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// None means none or never in an option whose 0 means a default, here as in packages ibv and rdmacm.
const None = ibv.None

// refuse refuses an option that is bad.
func refuse(bad bool, arg string, got any, want string) error {
	if !bad {
		return nil
	}
	return &ibv.ArgError{Arg: arg, Got: fmt.Sprint(got), Want: want}
}

// positive refuses an option that is below 0 and not None.
func positive[T ~int | ~int64](arg string, v T) error {
	return refuse(v < None, arg, v, "positive, 0 for the default or None")
}

// notNegative refuses an option that is below 0.
func notNegative(arg string, v time.Duration) error {
	return refuse(v < 0, arg, v, "more than 0, or 0 for the default")
}

// upTo refuses an option that is below 0 or above most.
func upTo(arg string, v, most int) error {
	return refuse(v < 0 || v > most, arg, v, fmt.Sprintf("1 to %d, or 0 for the default", most))
}
