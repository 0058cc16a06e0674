package ibv

import "fmt"

// None means no, none or never in an option whose 0 means a default: a number or a time.Duration.
// For AccessFlags there is AccessNone.
const None = -1

// optional is the type of an option that can be None.
type optional interface{ ~int | ~int64 }

// orDefault returns v, or def if v is 0, or 0 if v is None.
func orDefault[T optional](v, def T) T {
	switch v {
	case 0:
		return def
	case None:
		return 0
	}
	return v
}

// checkNone refuses negative values other than None.
func checkNone[T optional](arg string, v T) error {
	if v >= None {
		return nil
	}
	return &ArgError{Arg: arg, Got: fmt.Sprint(v), Want: "positive, 0 for the default or None"}
}
