package main

import (
	"strings"

	"github.com/pureverbs/pureverbs/internal/testutil/native"
)

// Rows of package native: tests that fail on the native control path, for the reason in the row.

// pattern returns the regular expression for go test of the tests of rows.
func pattern(rows []native.Row) string {
	var alternatives []string
	for _, row := range rows {
		var levels []string
		for level := range strings.SplitSeq(row.Test, "/") {
			levels = append(levels, "^"+level+"$")
		}
		alternatives = append(alternatives, strings.Join(levels, "/"))
	}
	return strings.Join(alternatives, "|")
}

// checkRows returns a result for each test of a row. It has to fail, for the reason in the row. Of a row that has no
// such test in a short run, a full one has some.
func checkRows(rows []native.Row, ran []Result, full bool) (results []Result) {
	for _, row := range rows {
		none := true
		for _, t := range ran {
			if row.Is(t.Test) {
				none = false
				results = append(results, checkRow(row, t, ran))
			}
		}
		if none && (full || !strings.Contains(row.Test, "*")) {
			results = append(results, Result{"emu", nativeRows + " " + row.Dir, row.Test, Fail, "it did not run\n"})
		}
	}
	return results
}

func checkRow(row native.Row, t Result, ran []Result) Result {
	res := Result{"emu", nativeRows + " " + row.Dir, t.Test, Fail, ""}
	output := t.Output
	for _, sub := range ran {
		if strings.HasPrefix(sub.Test, t.Test+"/") {
			output += sub.Output
		}
	}
	switch {
	case t.Status == Skip:
		res.Status, res.Output = Skip, output
	case t.Status == Pass:
		res.Output = "it passes on the native control path: remove its row from package native\n"
	case !row.Shows.MatchString(output):
		res.Output = "it fails for another reason than its row has (" + row.Text + "):\n" + output
	default:
		res.Status = Pass
	}
	return res
}
