//go:build linux

package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"go/version"
	"os"
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

// tier runs the tests of a tier.
type tier func(*runner, context.Context) []Result

// tiers are in the order in which make test-full runs them, and then hw.
var tiers = []struct {
	name string
	run  tier
}{
	{"lint", (*runner).lint}, {"unit", (*runner).plain}, {"race", (*runner).plain}, {"releases", (*runner).plain},
	{"arm64", (*runner).plain}, {"bench", (*runner).plain}, {"emu", (*runner).emu}, {"rxe", (*runner).vm},
	{"rxe-arm64", (*runner).vm}, {"siw", (*runner).vm}, {"hw", (*runner).hw},
}

func tierNames() (names []string) {
	for _, t := range tiers {
		names = append(names, t.name)
	}
	return names
}

// plain runs a tier's suites one after another.
func (r *runner) plain(ctx context.Context) (results []Result) {
	for _, s := range r.suites() {
		if ctx.Err() == nil && !(s.Go != "" && version.Lang(s.Go) == version.Lang(runtime.Version()) && !r.full()) {
			results = append(results, r.suite(ctx, s)...)
		}
	}
	return results
}

// suite runs a row of the table.
func (r *runner) suite(ctx context.Context, s suite) []Result {
	results := r.before(ctx, s)
	if s.Go != "" {
		fmt.Fprintf(r.note, "with %s:\n", s.Variant)
	}
	if s.Go == "" || r.pkg == "" && r.run == "" {
		for _, c := range s.Checks {
			if ctx.Err() == nil {
				results = append(results, r.check(ctx, s, c))
			}
		}
	}
	switch {
	case s.Each:
		dirs, failed := r.compile(ctx, r.folders(s))
		results = append(results, failed...)
		for _, d := range dirs {
			results = append(results, r.test(ctx, r.at(s, d))...)
		}
		return results
	case s.With != "":
		s.Packages = paths(r.folders(s))
	case r.pkg != "" && s.Packages != nil:
		s.Packages = []string{r.pkg}
	}
	if len(s.Packages) > 0 {
		ran := r.test(ctx, s)
		if len(ran) == 0 && s.Go != "" && r.run == "" {
			ran = append(ran, r.failed("tiers", s.Variant, errors.New("no test ran")))
		}
		results = append(results, ran...)
	}
	return results
}

// before runs the commands that a suite needs.
func (r *runner) before(ctx context.Context, s suite) (failed []Result) {
	for _, command := range s.Before {
		args := r.expand(s, strings.Fields(command))
		if _, err := r.output(ctx, r.expand(s, s.Env), args...); err != nil {
			failed = append(failed, r.failed("tiers", "(build)", err))
		}
	}
	return failed
}

// check runs one of a suite's checks, which print nothing, or counts of the API, if all is well.
func (r *runner) check(ctx context.Context, s suite, text string) Result {
	name, command, _ := strings.Cut(text, " ")
	start, pkg := time.Now(), strings.TrimSpace(s.Variant+" lint")
	out, err := r.output(ctx, r.expand(s, s.Env), strings.Fields(command)...)
	res, word := Result{r.tier, pkg, name, Pass, out}, "ok  "
	if err != nil || name == "gofmt" && out != "" {
		res.Status, word = Fail, "FAIL"
		if err != nil {
			res.Output = err.Error() + "\n"
		}
	}
	fmt.Fprintf(r.note, "%s %-8s %s (%.1fs)\n", word, r.tier, name, time.Since(start).Seconds())
	if name == "api" && err == nil {
		fmt.Fprint(r.note, out)
	}
	return res
}

// lint runs the checks that need no test. Each counts as one. Two systems at a time: neither the linker nor staticcheck
// has work for all processors always. What is for one system builds on what was compiled before.
func (r *runner) lint(ctx context.Context) []Result {
	suites := r.suites()
	results := make([][]Result, len(suites))
	lanes(runtime.NumCPU(), len(suites), func(i int) { results[i] = r.suite(ctx, suites[i]) })
	return slices.Concat(results...)
}

// hw runs the emulated adapters' tests on real ones, with both data paths. It takes no link down and changes no
// address. Frames and steering rules take PUREVERBS_HW_FRAMES=1.
func (r *runner) hw(ctx context.Context) []Result {
	const env = "PUREVERBS_HW_DEVICES" // package testutil reads it
	list, _, err := adapters.Choose(sysfs.DefaultRoot(), os.Getenv(env))
	if err != nil {
		return []Result{r.failed("tiers", "hw", fmt.Errorf("tier hw: %w, or with %s=NAME, or NAME,NAME for one at "+
			"each end", err, env))}
	}
	r.devices = strings.Join(list, ",")
	return r.plain(ctx)
}

// suite is a row of tiers.yaml, which says what the fields mean: tests that run under the same conditions.
type suite struct {
	When, Go, Device, Path, Variant, Run, Skip, Less, With string

	Before, Checks, Env, Below, Flags, Packages, Dirs, Not, Asked []string

	Each, Keep   bool
	Turns, Third int
	Apart        map[string][]string

	dir     string // the folder whose test binary runs
	compile bool   // keep the test binaries, and run none
}

//go:embed tiers.yaml
var tableText []byte

// table is tiers.yaml.
var table = func() (t struct {
	Emulated                       suite
	Tiers                          map[string][]suite
	Native                         map[string]string
	Thirds                         map[string]string
	Long, Leaking, Second, Debians []string
	Libraries                      []library
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
	for _, s := range table.Tiers[r.tier] {
		switch {
		case r.figures && s.When != "figures", r.ratios && s.When != "ratios", s.When == "short" && r.full(),
			s.When == "full" && !r.full(), !r.figures && s.When == "figures", !r.ratios && s.When == "ratios":
		default:
			list = append(list, r.fill(s))
		}
	}
	return list
}

// fill completes a row.
func (r *runner) fill(s suite) suite {
	s.Flags, s.Env = slices.Clone(s.Flags), slices.Clone(s.Env)
	for i, f := range s.Flags {
		s.Flags[i] = strings.ReplaceAll(f, "$MODULE", module)
	}
	if s.Device != "" {
		s.Env = append(s.Env, "PUREVERBS_TEST_TIER="+s.Device, "PUREVERBS_DATAPATH="+s.Path, "PATH=$BIN:$PATH")
	}
	if s.Go != "" {
		s.Env, s.Before = append(s.Env, "GOTOOLCHAIN="+s.Go), []string{"go version"}
	}
	s.Variant += s.Go
	if s.Variant == "" {
		s.Variant = s.Path
	}
	if s.Turns > 0 {
		s.Packages = slices.DeleteFunc(slices.Clone(s.Packages), func(pkg string) bool {
			i := slices.Index(s.Packages, pkg)
			return i > 1 && !testutil.Turn(i, s.Turns)
		})
		s.Checks = slices.DeleteFunc(slices.Clone(s.Checks), func(c string) bool {
			return !testutil.Turn(slices.Index(s.Checks, c), s.Turns)
		})
	}
	if s.Run != "^$" && r.run != "" {
		s.Run = r.run
	}
	if r.run == "" {
		s.Skip = strings.Trim(s.Skip+"|"+s.Less, "|")
	}
	return s
}

// at returns the suite of a folder's tests.
func (r *runner) at(s suite, dir string) suite {
	s.dir = dir
	if !r.full() && r.run == "" {
		for _, p := range s.Apart[dir] {
			s.Skip += "|^" + strings.ReplaceAll(p, "/", "$/^") + "$"
		}
		if always, ok := table.Thirds[dir]; ok && s.Third > 0 {
			for i, name := range r.tests[dir] {
				if !testutil.Turn(i+s.Third, 3) && !regexp.MustCompile("^("+always+")$").MatchString(name) {
					s.Skip = strings.TrimPrefix(s.Skip+"|^"+name+"$", "|")
				}
			}
		}
	}
	return s
}

// folders lists those that a suite has tests in.
func (r *runner) folders(s suite) []string {
	return slices.DeleteFunc(r.with(s.With), func(d string) bool {
		return s.Dirs != nil && !slices.Contains(s.Dirs, d) || slices.Contains(s.Not, d) ||
			slices.Contains(s.Asked, d) && r.pkg == "" && !r.full()
	})
}

// expand replaces $NAME in values of a suite.
func (r *runner) expand(s suite, values []string) (list []string) {
	strict := "--strict"
	switch {
	case s.Variant == nativeRows:
		strict = ""
	case slices.Contains(table.Leaking, s.dir):
		strict = "--strict-ignore=leak,srq-empty-segment"
	}
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "$STRICT" && strict == "" })
	known := map[string]string{"BIN": r.bin(), "WORK": r.work, "STRICT": strict, "DEVICES": r.devices,
		"GOFLAGS": os.Getenv("GOFLAGS") + buildFlags}
	for _, v := range values {
		list = append(list, os.Expand(v, func(name string) string {
			if text, ok := known[name]; ok {
				return text
			}
			return os.Getenv(name)
		}))
	}
	return list
}

// paths prepends ./ to folders.
func paths(dirs []string) (list []string) {
	for _, d := range dirs {
		list = append(list, "./"+d)
	}
	return list
}
