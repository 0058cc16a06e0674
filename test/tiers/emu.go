//go:build linux

package main

import (
	"context"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/native"
)

// binaries runs the test binaries of a tier's folders: in a folder one suite after another, for tests with fixed ports
// must not run twice at a time. Those of tier emu, which run on the emulated ConnectX what the VM's tests run on
// SoftRoCE, wait much. So there one folder more runs at a time than there are processors: 295 s on two. With three more
// they poll in vain for each other, and take 347.
func (r *runner) binaries(ctx context.Context) []Result {
	most := 1
	if r.tier == "emu" && !r.measures() {
		most = runtime.NumCPU() + 1
	}
	jobs, failed := r.prepare(ctx)
	return append(failed, lanes(most, jobs, func(job []suite) (ran []Result) {
		for _, s := range job {
			switch {
			case ctx.Err() != nil:
			case s.Variant == nativeVariant:
				ran = append(ran, r.native(ctx, s)...)
			default:
				ran = append(ran, r.test(ctx, s)...)
			}
		}
		return ran
	})...)
}

// Variants: of what runs on the native control path, and of the tests in package native. libraries are cells.
const (
	nativeVariant = "native"
	nativeRows    = "native-rows"
	libraries     = "libraries"
)

// native runs a package's tests on the native control path. Those that package native lists run afterwards, to see that
// they still fail for the reason that it has.
func (r *runner) native(ctx context.Context, s suite) []Result {
	results := r.test(ctx, s)
	rows := slices.DeleteFunc(slices.Clone(native.Rows), func(row native.Row) bool {
		top, _, _ := strings.Cut(row.Test, "/")
		wanted, err := regexp.MatchString(s.Run, top)
		return row.Dir != s.dir || !wanted || err != nil
	})
	var ran []Result
	quiet := *r
	quiet.note, quiet.live = io.Discard, nil // they fail
	s.Variant, s.Env = nativeRows, append(s.Env, native.RowsEnv+"=1")
	// One may crash. If one did not run at all, checkRows says so.
	for left, before := rows, 0; len(left) > 0 && len(left) != before; {
		s.Run, before = pattern(left), len(left)
		res := quiet.test(ctx, s)
		ran = append(ran, res...)
		left = slices.DeleteFunc(slices.Clone(left), func(row native.Row) bool {
			return slices.ContainsFunc(res, func(t Result) bool { return row.Is(t.Test) })
		})
	}
	return append(results, checkRows(rows, ran, r.full())...)
}

// pattern returns the regular expression for go test of the tests of rows.
func pattern(rows []native.Row) string {
	var tests []string
	for _, row := range rows {
		tests = append(tests, row.Test)
	}
	return exactly(tests)
}

// checkRows returns a result for each test of a row. It has to fail, for the reason in the row. Of a row that has no
// such test in a short run, a full one has some.
func checkRows(rows []native.Row, ran []Result, full bool) (results []Result) {
	for _, row := range rows {
		pkg, n := nativeRows+" "+row.Dir, len(results)
		for _, t := range ran {
			if !row.Is(t.Test) {
				continue
			}
			output := t.Output
			for _, sub := range ran {
				if strings.HasPrefix(sub.Test, t.Test+"/") {
					output += sub.Output
				}
			}
			status := Fail
			switch {
			case t.Status == Skip:
				status = Skip
			case t.Status == Pass:
				output = "it passes on the native control path: remove its row from package native\n"
			case !row.Shows.MatchString(output):
				output = "it fails for another reason than its row has (" + row.Text + "):\n" + output
			default:
				status, output = Pass, ""
			}
			results = append(results, Result{"emu", pkg, t.Test, status, output})
		}
		if len(results) == n && (full || !strings.Contains(row.Test, "*")) {
			results = append(results, Result{"emu", pkg, row.Test, Fail, "it did not run\n"})
		}
	}
	return results
}

// The packages' own tests, on the emulated device, with the libraries of other releases of rdma-core.

// A short run has one in so many of the longest packages' tests, and cells of so many processor seconds at most.
const shares, shortCost = 8, 20

// cells returns the tests of each package with each release's libraries on each data path. Neighbours differ in the
// package, and also in the release or in the path. A full run has no more of a cell than a short one: the rows of a
// full run are for this machine's libraries.
func cells() (all []suite) {
	paths := []string{"ops", "direct"}
	variants := len(paths) * len(table.Debians)
	for round := range variants {
		for i, l := range table.Libraries {
			s, v := table.Emulated, (round+i)%variants
			release, path := table.Debians[v/len(paths)], paths[v%len(paths)]
			s.Dirs, s.Cost, s.Path, s.Variant = l.Dirs, l.Cost, path, release+"-"+path
			s.Env = []string{testutil.FullEnv + "=", testutil.LibrariesEnv + "=" + release}
			if s.Variant == "bullseye-ops" {
				// Its libmlx5 writes behind the queue: ibv refuses to bind windows.
				s.Env = append(s.Env, "PUREVERBS_UNBOUND=1")
			}
			s.Below = append(slices.Clone(s.Below), "$ROOT/scripts/in-debian", "-t", release)
			all = append(all, s)
		}
	}
	return all
}

// someCells returns the cells of a short run: those from number turn on that cost no more than most.
func someCells(turn uint64, most int) (some []suite) {
	all := slices.DeleteFunc(cells(), func(c suite) bool { return c.Cost > most })
	for i := range all {
		c := all[(turn+uint64(i))%uint64(len(all))]
		if most -= c.Cost; most < 0 {
			break
		}
		some = append(some, c)
	}
	return some
}
