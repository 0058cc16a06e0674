//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/adapters"
	"go.yaml.in/yaml/v3"
)

// tiers has a function for each tier that runs its tests.
var tiers = map[string]func(*runner, context.Context) []Result{
	"lint": (*runner).plain, "unit": (*runner).plain, "race": (*runner).plain, "releases": (*runner).plain,
	"arm64": (*runner).plain, "bench": (*runner).binaries, "emu": (*runner).binaries, "rxe": (*runner).vm,
	"rxe-arm64": (*runner).vm, "siw": (*runner).vm, "hw": (*runner).hw,
}

// plain runs a tier's suites one after another, but two of tier lint at a time: neither the linker nor staticcheck has
// work for all processors always. What is for one system builds on what was compiled before.
func (r *runner) plain(ctx context.Context) []Result {
	most := 1
	if r.tier == "lint" {
		most = runtime.NumCPU()
	}
	return lanes(most, r.suites(), func(s suite) []Result { return r.suite(ctx, s) })
}

// hw runs the emulated adapters' tests on real ones, with both data paths. It takes no link down and changes no
// address. Frames and steering rules take PUREVERBS_HW_FRAMES=1.
func (r *runner) hw(ctx context.Context) []Result {
	list, _, err := adapters.Choose(sysfs.DefaultRoot(), os.Getenv(testutil.DevicesEnv))
	if err != nil {
		return []Result{r.failed("tiers", "hw", fmt.Errorf("%w, or with %s=NAME, or NAME,NAME for one at each end", err,
			testutil.DevicesEnv))}
	}
	os.Setenv(testutil.DevicesEnv, strings.Join(list, ","))
	return r.plain(ctx)
}

// suite runs a row of the table.
func (r *runner) suite(ctx context.Context, s suite) []Result {
	if ctx.Err() != nil || s.Go != "" && version.Lang(s.Go) == version.Lang(runtime.Version()) && !r.full() {
		return nil // the other tiers run with this release
	}
	results := r.before(ctx, s)
	if s.Go == "" || r.pkg == "" && r.run == "" {
		for _, c := range s.Checks {
			if ctx.Err() == nil {
				results = append(results, r.check(ctx, s, c))
			}
		}
	}
	if r.pkg != "" && s.Packages != nil {
		s.Packages = []string{r.pkg}
	}
	if s.With != "" {
		for _, d := range r.folders(s) {
			s.Packages = append(s.Packages, "./"+d)
		}
	}
	if len(s.Packages) == 0 || ctx.Err() != nil {
		return results
	}
	return append(results, r.test(ctx, s)...)
}

// before runs the commands that a suite needs.
func (r *runner) before(ctx context.Context, s suite) (failed []Result) {
	for _, command := range s.Before {
		if _, err := r.output(ctx, r.expand(s, s.Env), r.expand(s, strings.Fields(command))...); err != nil {
			failed = append(failed, r.failed("tiers", "(build)", err))
		}
	}
	return failed
}

// check runs one of a suite's checks.
func (r *runner) check(ctx context.Context, s suite, text string) Result {
	name, command, _ := strings.Cut(text, " ")
	start, pkg := time.Now(), strings.TrimSpace(s.Variant+" lint")
	out, err := r.output(ctx, r.expand(s, s.Env), strings.Fields(command)...)
	fmt.Fprintf(r.note, "%s %-8s %s (%.1fs)\n", word[err == nil], r.tier, name, time.Since(start).Seconds())
	if err != nil {
		return r.failed(pkg, name, err)
	}
	fmt.Fprint(r.note, out)
	return Result{r.tier, pkg, name, Pass, ""}
}

// suite is a row of tiers.yaml, which says what the fields mean: tests that run under the same conditions.
type suite struct {
	When, Go, Device, Path, Variant, Run, Skip, Less, With string

	Before, Checks, Env, Below, Flags, Packages, Dirs, Not, Asked []string

	Turns, Share, Cost int
	Apart              map[string][]string
	Tests              map[string]string

	dir string // the folder whose test binary runs
}

//go:embed tiers.yaml
var tableText []byte

// table is tiers.yaml.
var table = func() (t struct {
	Emulated                       suite
	Tiers                          map[string][]suite
	Shares                         map[string]string
	Long, Leaking, Second, Debians []string
	Libraries                      []suite
}) {
	d := yaml.NewDecoder(bytes.NewReader(tableText))
	d.KnownFields(true)
	if err := d.Decode(&t); err != nil {
		panic("tiers.yaml: " + err.Error()) // it is part of the program
	}
	return t
}()

// suites returns the rows of the tier for this run, complete but for their folders.
func (r *runner) suites() (list []suite) {
	when := cmp.Or(r.only, "short")
	if r.only == "" && r.full() {
		when = "full"
	}
	switch r.tier + " " + when {
	case "emu short":
		list = someCells(r.turn, shortCost)
	case "emu full", "emu libraries":
		list = cells()
	}
	for _, s := range table.Tiers[r.tier] {
		if s.When == when || s.When == "" && r.only == "" || s.When == "setup" && r.setup {
			list = append(list, s)
		}
	}
	for i, s := range list {
		list[i] = r.fill(s)
	}
	return list
}

// fill completes a row.
func (r *runner) fill(s suite) suite {
	s.Flags, s.Env = r.expand(s, s.Flags), slices.Clone(s.Env)
	if s.Device != "" {
		s.Env = append(s.Env, testutil.TierEnv+"="+s.Device, "PUREVERBS_DATAPATH="+s.Path, "PATH=$BIN:$PATH")
	}
	if s.Go != "" {
		s.Env, s.Before = append(s.Env, "GOTOOLCHAIN="+s.Go), []string{"go version"}
	}
	s.Variant = cmp.Or(s.Variant+s.Go, s.Path)
	turn := func(all []string, always int) []string {
		return slices.DeleteFunc(slices.Clone(all), func(x string) bool {
			i := slices.Index(all, x)
			return s.Turns > 0 && i >= always && !testutil.Turn(i, s.Turns)
		})
	}
	s.Packages, s.Checks = turn(s.Packages, 2), turn(s.Checks, 0)
	if r.run == "" {
		s.Skip = strings.Trim(s.Skip+"|"+s.Less, "|")
	} else if s.Run != "^$" {
		s.Run = r.run
	}
	return s
}

// at returns the suite of a folder's tests.
func (r *runner) at(s suite, dir string) suite {
	s.dir = dir
	if r.run != "" && s.Run == r.run {
		s.Flags = nil // no benchmarks
	}
	if r.full() || r.run != "" {
		return s
	}
	if r.only == "" && s.Tests != nil {
		s.Run = s.Tests[dir]
	}
	out := slices.Clone(s.Apart[dir])
	if always, ok := table.Shares[dir]; ok && s.Share > 0 {
		for i, name := range r.tests[dir] {
			if !testutil.Turn(i+s.Share, shares) && !regexp.MustCompile("^("+always+")$").MatchString(name) {
				out = append(out, name)
			}
		}
	}
	s.Skip = strings.Trim(s.Skip+"|"+exactly(out), "|")
	return s
}

// exactly returns the regular expression for go test of tests and subtests.
func exactly(tests []string) string {
	var list []string
	for _, t := range tests {
		list = append(list, "^"+strings.ReplaceAll(t, "/", "$/^")+"$")
	}
	return strings.Join(list, "|")
}

// folders lists those that a suite has tests in, of those that -pkg names.
func (r *runner) folders(s suite) (dirs []string) {
	only := strings.TrimPrefix(filepath.ToSlash(r.pkg), "./")
	tree, isTree := strings.CutSuffix(only, "...")
	for dir, names := range r.tests {
		_, listed := s.Tests[dir]
		switch {
		case only != "" && dir != only && !(isTree && strings.HasPrefix(dir+"/", tree)):
		case s.Dirs != nil && !slices.Contains(s.Dirs, dir), slices.Contains(s.Not, dir):
		case slices.Contains(s.Asked, dir) && r.pkg == "" && !r.full():
		case s.Tests != nil && (!listed || r.at(s, dir).Run == ""):
		case slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, s.With) }):
			dirs = append(dirs, dir)
		}
	}
	return slices.Sorted(slices.Values(dirs))
}

// expand replaces $NAME in values of a suite. What is empty then is left out.
func (r *runner) expand(s suite, values []string) (list []string) {
	strict := "--strict"
	switch {
	case s.Variant == nativeRows:
		strict = ""
	case slices.Contains(table.Leaking, s.dir):
		strict = "--strict-ignore=leak,srq-empty-segment"
	}
	known := map[string]string{"BIN": r.bin(), "WORK": r.work, "MODULE": module, "STRICT": strict,
		"PAYLOAD": r.payload(), "ROOT": r.root, "GOFLAGS": os.Getenv("GOFLAGS") + buildFlags}
	for _, v := range values {
		v = os.Expand(v, func(name string) string {
			if text, ok := known[name]; ok {
				return text
			}
			return os.Getenv(name)
		})
		if v != "" {
			list = append(list, v)
		}
	}
	return list
}
