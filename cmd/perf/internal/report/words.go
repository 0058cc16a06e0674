package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plot"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// How many runes a table and a verdict have of what others wrote.
const (
	longestText  = 64 // of a host's name
	longestError = 300
)

// words returns those that are not empty.
func words(list ...string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// text returns that of an error, "" of none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// distance returns the distance of v from the median in words.
func distance(v, median float64) string {
	switch {
	case v <= 0 || !(median > 0):
		return ""
	case v >= 4*median:
		return "×" + plot.Number(math.Round(10*v/median)/10)
	case 10*v <= median: // percents of all of them look alike
		return "÷" + plot.Number(math.Round(10*median/v)/10)
	}
	percent := math.Round(100 * (v/median - 1))
	if percent == 0 {
		return "±0 %"
	}
	return strings.Replace(fmt.Sprintf("%+.0f %%", percent), "-", "−", 1)
}

// name is a host's name for a table.
func name(s string) string { return cut(printable.Message(s), longestText) }

func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most/2]) + "…" + string(r[len(r)-most/2+1:])
	}
	return s
}

// grouped prints a number with commas.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}
