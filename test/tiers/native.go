package main

import (
	"context"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/testutil/native"
)

// The packages' tests on the emulated device, without libibverbs and librdmacm.

const (
	nativeVariant = "native"
	nativeRows    = "native-rows" // of the tests that do not run there
)

// onNative lists the packages whose tests run on the native control path, and what a short run has of them: those that
// find most, at most 90 seconds on one processor. A full run has all.
var onNative = map[string]string{
	"ibv":      `^TestRXE`,
	"rdmacm":   `^TestRXE`,
	"rdma":     `^TestRXE`,
	"cmd/perf": `^TestRXE`,
	"examples": `^TestRXE`,

	"mlx5dv":      "",
	"test/random": "",
}

// nativeTests returns the regular expression of the tests of a folder that run on the native control path, "" for none.
func (r *runner) nativeTests(dir, run string) string {
	tests, ok := onNative[dir]
	switch {
	case !ok || r.only == onlyLibraries:
		return ""
	case r.run != "" || r.only == nativeVariant || os.Getenv(fullEnv) != "":
		return run
	case tests == "":
		return ""
	}
	return "-run=" + tests
}

// native runs a package's tests on the native control path. Those that package native lists run afterwards, to see that
// they still fail for the reason that it has.
func (r *runner) native(ctx context.Context, dir, tests, strict string) ([]Result, error) {
	e := emulation{variant: nativeVariant, path: "direct", strict: strict, env: []string{native.Env + "=native"}}
	results, err := r.emulated(ctx, e, tests, dir)
	if err != nil {
		return results, err
	}
	wanted, err := regexp.Compile(strings.TrimPrefix(tests, "-run="))
	if err != nil {
		return results, err
	}
	rows := slices.DeleteFunc(slices.Clone(native.Rows), func(row native.Row) bool {
		top, _, _ := strings.Cut(row.Test, "/")
		return row.Dir != dir || !wanted.MatchString(top)
	})
	e = emulation{variant: nativeRows, path: "direct", env: append(e.env, native.RowsEnv+"=1")}
	var ran []Result
	quiet := *r
	quiet.note, quiet.live = io.Discard, nil // they fail
	for left := rows; len(left) > 0; {       // one may crash
		res, err := quiet.emulated(ctx, e, "-run="+pattern(left), dir)
		before := len(left)
		left = slices.DeleteFunc(slices.Clone(left), func(row native.Row) bool {
			return slices.ContainsFunc(res, func(t Result) bool { return row.Is(t.Test) })
		})
		ran = append(ran, res...)
		if len(left) == before || err != nil {
			break // checkRows says which did not run
		}
	}
	return append(results, checkRows(rows, ran, os.Getenv(fullEnv) != "")...), nil
}

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
