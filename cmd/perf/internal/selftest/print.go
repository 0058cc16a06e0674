package selftest

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/printable"
)

// Print prints a step for people: a line for the step, and lines for what failed, what was measured and, once for each
// reason, what was skipped.
func Print(w io.Writer, s *Step) {
	n := s.outcomes()
	fmt.Fprintf(w, "%2d  %-7s  %s: %d passed, %d failed, %d skipped (%.1f s)\n", s.Number, s.Outcome, s.Name,
		n[Passed], n[Failed], n[Skipped], s.Seconds)
	line := func(format string, v ...any) {
		fmt.Fprintf(w, "    %s\n", printable.Message(strings.ReplaceAll(fmt.Sprintf(format, v...), "\n", " ")))
	}
	if s.Reason != "" {
		line("%s", s.Reason)
	}
	reasons := map[string]bool{}
	for _, c := range s.Checks {
		switch {
		case c.Outcome == Failed:
			line("failed: %s: %s", c.Name, c.Reason)
		case c.Outcome == Skipped && !reasons[c.Reason]:
			reasons[c.Reason] = true
			line("skipped: %s: %s", c.Name, c.Reason)
		}
		if c.Wanted > 0 {
			line("%s: %d of %d when the time was over", c.Name, c.Count, c.Wanted)
		}
		for _, k := range slices.Sorted(maps.Keys(c.Figures)) {
			line("%s: %s %.4g", c.Name, k, c.Figures[k])
		}
	}
}

// tail returns both ends of a text that is too long: a crash names its cause first.
func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most/2] + "\n[...]\n" + s[len(s)-most/2:]
}
