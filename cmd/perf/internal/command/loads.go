package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// mostSizes is how many there may be: a step that is too small for its range is a mistake.
const mostSizes = 1000

// sizes is a list of message sizes: with commas between them, or from, to and a factor or a step.
func sizes(at *[]uint64) pflag.Value {
	return value[[]uint64]{at: at, kind: "list", read: func(t string) (list []uint64, _ error) {
		for part := range strings.SplitSeq(t, ",") {
			more, err := parseRange(part)
			if err != nil {
				return nil, err
			}
			if list = append(list, more...); len(list) > mostSizes {
				return nil, fmt.Errorf("%q has more than %d sizes", t, mostSizes)
			}
		}
		return list, nil
	}}
}

// parseRange reads a size, or 2:8M:x4, or 1K:4K:+512.
func parseRange(t string) ([]uint64, error) {
	p := strings.Split(t, ":")
	if len(p) > 3 {
		return nil, fmt.Errorf("%q is not a range of sizes, such as 2:8M:x4 or 1K:4K:+512", t)
	}
	from, err := readSize(p[0])
	if err != nil || len(p) == 1 {
		return []uint64{from}, err
	}
	to, err := readSize(p[1])
	if err != nil {
		return nil, err
	}
	if from > to {
		return nil, fmt.Errorf("%q: the range starts above its end", t)
	}
	factor, step := uint64(2), uint64(0)
	if len(p) == 3 {
		switch num := p[2][min(1, len(p[2])):]; {
		case strings.HasPrefix(p[2], "x"):
			if factor, err = strconv.ParseUint(num, 10, 16); err != nil || factor < 2 {
				return nil, fmt.Errorf("factor %q of sizes; allowed: x2 to x65535", p[2])
			}
		case strings.HasPrefix(p[2], "+"):
			if step, err = readSize(num); err != nil {
				return nil, err
			}
			factor = 1
		default:
			return nil, fmt.Errorf("step %q of sizes; allowed: a factor such as x4 and a number such as +512", p[2])
		}
	}
	var list []uint64
	for n := from; n <= to && len(list) <= mostSizes; {
		list = append(list, n)
		next := n*factor + step
		if next/factor < n { // more than 64 bits
			break
		}
		n = next
	}
	return slices.Clip(list), nil
}
