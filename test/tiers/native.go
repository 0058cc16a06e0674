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
	for left := rows; len(left) > 0; { // one may crash
		res, err := quiet.emulated(ctx, e, "-run="+pattern(left), dir)
		before := len(left)
		left = slices.DeleteFunc(slices.Clone(left), func(row native.Row) bool {
			return slices.ContainsFunc(res, func(t Result) bool { return t.Test == row.Test })
		})
		ran = append(ran, res...)
		if len(left) == before {
			if err != nil {
				return results, err
			}
			break
		}
	}
	return append(results, checkRows(rows, ran)...), nil
}

// pattern returns the regular expression for go test of the tests of rows.
func pattern(rows []native.Row) string {
	var alternatives []string
	for _, row := range rows {
		var levels []string
		for name := range strings.SplitSeq(row.Test, "/") {
			levels = append(levels, "^"+regexp.QuoteMeta(name)+"$")
		}
		alternatives = append(alternatives, strings.Join(levels, "/"))
	}
	return strings.Join(alternatives, "|")
}

// checkRows returns a result for each row. Its test has to fail, for the reason in the row.
func checkRows(rows []native.Row, ran []Result) (results []Result) {
	for _, row := range rows {
		res := Result{"emu", nativeRows + " " + row.Dir, row.Test, Fail, "it did not run\n"}
		i := slices.IndexFunc(ran, func(t Result) bool { return t.Test == row.Test })
		var output strings.Builder
		for _, t := range ran {
			if t.Test == row.Test || strings.HasPrefix(t.Test, row.Test+"/") {
				output.WriteString(t.Output)
			}
		}
		switch {
		case i < 0:
		case ran[i].Status == Skip:
			res.Status, res.Output = Skip, output.String()
		case ran[i].Status == Pass:
			res.Output = "it passes on the native control path: remove its row from package native\n"
		case !row.Shows.MatchString(output.String()):
			res.Output = "it fails for another reason than its row has (" + row.Text + "):\n" + output.String()
		default:
			res.Status, res.Output = Pass, ""
		}
		results = append(results, res)
	}
	return results
}
