package sysfs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// NaturalCompare compares names with runs of digits ordered by value, so mlx5_2 comes before
// mlx5_10. It is a total order: the result is 0 only for equal strings.
func NaturalCompare(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		dx, dy := digits(x), digits(y)
		if dx == 0 || dy == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		nx, ny := strings.TrimLeft(x[:dx], "0"), strings.TrimLeft(y[:dy], "0")
		if c := cmp.Or(cmp.Compare(len(nx), len(ny)), strings.Compare(nx, ny)); c != 0 {
			return c
		}
		x, y = x[dx:], y[dy:]
	}
	// Equal by value, or one is a prefix of the other: 07 and 7 differ in bytes.
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// digits returns the length of the run of decimal digits that s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// parseIndex parses a non-negative number in the only form that the kernel writes.
func parseIndex(s string) (int, bool) {
	if len(s) == 0 || len(s) > 9 || digits(s) != len(s) || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

func sortedIndices(names []string) []int {
	out := make([]int, 0, len(names))
	for _, s := range names {
		if n, ok := parseIndex(s); ok {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}
