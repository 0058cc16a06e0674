//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/testutil/native"
)

// job is tests that run one after another: tests of a package with fixed ports must not run twice at a time.
type job []func(context.Context) []Result

// emu runs on the emulated ConnectX what the VM's tests run on SoftRoCE, with libmlx5's data path and with our own, and
// the stock programs. It runs one package more at a time than there are processors, for they wait much: 295 s on two.
// With three more they poll in vain for each other, and take 347.
func (r *runner) emu(ctx context.Context) []Result {
	if r.ratios {
		return r.plain(ctx)
	}
	jobs, results := r.emuJobs(ctx)
	dirs := slices.DeleteFunc(slices.Clone(table.Long), func(d string) bool { return jobs[d] == nil })
	for _, d := range slices.Sorted(maps.Keys(jobs)) {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	dirs, failed := r.compile(ctx, dirs)
	ran := make([][]Result, len(dirs))
	lanes(runtime.NumCPU()+1, len(dirs), func(i int) {
		for _, run := range jobs[dirs[i]] {
			if ctx.Err() == nil {
				ran[i] = append(ran[i], run(ctx)...)
			}
		}
	})
	return slices.Concat(results, failed, slices.Concat(ran...))
}

// emuJobs returns the jobs of tier emu, by folder, and failures of what comes before.
func (r *runner) emuJobs(ctx context.Context) (jobs map[string]job, failed []Result) {
	jobs = map[string]job{}
	add := func(s suite, d string) {
		jobs[d] = append(jobs[d], func(ctx context.Context) []Result { return r.test(ctx, r.at(s, d)) })
	}
	cells := r.libraryCells(ctx)
	for _, d := range r.folders(table.Emulated) {
		for _, c := range cells {
			if c.Dir == d {
				add(r.onLibrary(c), d)
			}
		}
		if tests := r.nativeTests(d); tests != "" {
			jobs[d] = append(jobs[d], func(ctx context.Context) []Result { return r.native(ctx, d, tests) })
		}
	}
	for _, s := range r.suites() {
		failed = append(failed, r.before(ctx, s)...)
		for _, d := range r.folders(s) {
			if r.only == "" {
				add(s, d)
			}
		}
	}
	return jobs, failed
}

// Variants of tier emu that run alone on demand, and that of the tests in package native.
const (
	onlyLibraries = "libraries"
	nativeVariant = "native"
	nativeRows    = "native-rows"
)

// nativeTests returns the regular expression of the tests of a folder that run on the native control path, "" for none.
func (r *runner) nativeTests(dir string) string {
	tests, ok := table.Native[dir]
	if ok && (r.run != "" || r.only == nativeVariant || r.full()) {
		tests = r.fill(table.Emulated).Run
	}
	if r.only == onlyLibraries {
		return ""
	}
	return tests
}

// native runs a package's tests on the native control path. Those that package native lists run afterwards, to see that
// they still fail for the reason that it has.
func (r *runner) native(ctx context.Context, dir, tests string) []Result {
	s := table.Emulated
	s.Path, s.Variant, s.Env = "direct", nativeVariant, []string{native.Env + "=native"}
	s = r.at(r.fill(s), dir)
	s.Run = tests
	results := r.test(ctx, s)
	wanted, err := regexp.Compile(tests)
	if err != nil {
		return append(results, r.failed(dir, "(run)", err))
	}
	rows := slices.DeleteFunc(slices.Clone(native.Rows), func(row native.Row) bool {
		top, _, _ := strings.Cut(row.Test, "/")
		return row.Dir != dir || !wanted.MatchString(top)
	})
	var ran []Result
	quiet := *r
	quiet.note, quiet.live = io.Discard, nil // they fail
	s.Variant, s.Env = nativeRows, append(s.Env, native.RowsEnv+"=1")
	for left := rows; len(left) > 0; { // one may crash
		s.Run = pattern(left)
		res := quiet.test(ctx, s)
		ran = append(ran, res...)
		before := len(left)
		left = slices.DeleteFunc(slices.Clone(left), func(row native.Row) bool {
			return slices.ContainsFunc(res, func(t Result) bool { return row.Is(t.Test) })
		})
		if len(left) == before {
			break // checkRows says which did not run
		}
	}
	return append(results, checkRows(rows, ran, r.full())...)
}

// pattern returns the regular expression for go test of the tests of rows.
func pattern(rows []native.Row) string {
	var list []string
	for _, row := range rows {
		list = append(list, "^"+strings.ReplaceAll(row.Test, "/", "$/^")+"$")
	}
	return strings.Join(list, "|")
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

// The packages' own tests, on the emulated device, with the libraries of other releases of rdma-core.

// library is a package whose tests run with these libraries, and their processor seconds with one of them.
type library struct {
	Dir  string
	Cost int
}

// shortCost bounds the processor seconds of a short run's cells. Those that cost more are for a full run.
const shortCost = 25

// cell is a package's tests with a release's libraries on a data path.
type cell struct {
	library
	release, path string
}

func (c cell) variant() string { return c.release + "-" + c.path }

func (c cell) String() string { return c.variant() + " " + c.Dir }

// cells returns all cells. Neighbours differ in the package, and also in the release or in the path.
func cells() (all []cell) {
	paths, releases := []string{"ops", "direct"}, table.Debians
	variants := len(releases) * len(paths)
	for round := range variants {
		for i, p := range table.Libraries {
			v := (round + i) % variants
			all = append(all, cell{p, releases[v/len(paths)], paths[v%len(paths)]})
		}
	}
	return all
}

// someCells returns the cells of a short run: those from number turn on that cost no more than most.
func someCells(turn uint64, most int) (some []cell) {
	all := slices.DeleteFunc(cells(), func(c cell) bool { return c.Cost > most })
	for i := range all {
		c := all[(turn+uint64(i))%uint64(len(all))]
		if most -= c.Cost; most < 0 {
			break
		}
		some = append(some, c)
	}
	return some
}

// libraryCells returns the cells of this run, which in a short one differ from commit to commit.
func (r *runner) libraryCells(ctx context.Context) []cell {
	switch {
	case r.only == nativeVariant:
		return nil
	case r.only == onlyLibraries || r.full():
		return cells()
	}
	list := someCells(r.turn(ctx), shortCost)
	fmt.Fprintf(r.note, "emu: this commit's packages with other libraries: %v\n", list)
	return list
}

// onLibrary is the tests of a cell. A full run has no more of it than a short one: the rows of a full run are for this
// machine's libraries.
func (r *runner) onLibrary(c cell) suite {
	s := table.Emulated
	s.Path, s.Variant, s.Env = c.path, c.variant(), []string{fullEnv + "=", "PUREVERBS_LIBRARIES=" + c.release}
	if s.Variant == "bullseye-ops" {
		s.Env = append(s.Env, "PUREVERBS_UNBOUND=1") // its libmlx5 writes behind the queue: ibv refuses to bind windows
	}
	s.Below = append(slices.Clone(s.Below), filepath.Join(r.root, "scripts/in-debian"), "-t", c.release)
	return r.fill(s)
}
