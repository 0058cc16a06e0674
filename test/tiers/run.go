//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// testGOGC names the environment variable with the GOGC of test binaries. That of all other commands is higher, which
// saves a quarter of the time of compiling.
const testGOGC = "PUREVERBS_TEST_GOGC"

// buildFlags are those of the Makefile, too. Without descriptions for a debugger, compiling takes a tenth less.
const buildFlags = " -trimpath '-ldflags=-s -w' -gcflags=all=-dwarf=false"

// command is a command in the root of the module, without cgo. When ctx ends, so does all that it started. All go
// commands below it compile alike, and so share what the cache has.
func (r *runner) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Dir = r.root
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+buildFlags,
		"GOGC=400", testGOGC+"="+os.Getenv("GOGC"))
	if r.arch != "" {
		c.Env = append(c.Env, "GOARCH="+r.arch)
	}
	c.Env = append(c.Env, env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	return c
}

// output runs a command and returns what it prints, which its error has, too.
func (r *runner) output(ctx context.Context, env []string, args ...string) (string, error) {
	var out bytes.Buffer
	c := r.command(ctx, env, args...)
	c.Stdout, c.Stderr = &out, &out
	err := r.wait(c)
	if err != nil {
		err = fmt.Errorf("%s%s: %w", &out, strings.Join(args, " "), err)
	}
	return out.String(), err
}

// wait runs a command to its end, and counts the processor time of it and of all its descendants that were waited for.
func (r *runner) wait(c *exec.Cmd) error {
	err := c.Run()
	if s := c.ProcessState; s != nil {
		r.use.cpu.Add(int64(s.UserTime() + s.SystemTime()))
	}
	return err
}

// failed is the result of a step of a tier that is no test.
func (r *runner) failed(of, step string, err error) Result {
	return Result{r.tier, of, step, Fail, err.Error() + "\n"}
}

// test runs a suite: packages by go test, or the test binary of a folder.
func (r *runner) test(ctx context.Context, s suite) []Result {
	dir, below := s.dir, append([]string{r.self, "watch", r.quiet.String()}, r.expand(s, s.Below)...)
	var args []string
	if dir != "" {
		args = slices.Concat([]string{filepath.Join(r.bin(), "test2json"), "-t", "-p", module + "/" + dir}, below,
			[]string{r.binary(dir)}, r.binaryFlags(s))
	} else {
		packages := s.Packages
		if last := packages[len(packages)-1]; r.nested(last) {
			dir, packages = last, []string{"."}
		}
		// One more than there are processors: tests wait.
		args = slices.Concat([]string{"go", "test", "-json", "-vet=off", "-count=1",
			"-p=" + strconv.Itoa(runtime.NumCPU()+1), "-timeout=" + r.timeout.String(),
			"-exec=" + strings.Join(below, " ")}, s.flags("-"), packages)
	}
	c := r.command(ctx, r.expand(s, s.Env), args...)
	c.Dir = filepath.Join(r.root, dir)
	c.Env = append(c.Env, "PWD="+c.Dir)
	return r.stream(c, s.Variant)
}

// flags returns the flags of go test, with this before their names.
func (s suite) flags(dash string) (flags []string) {
	for _, f := range append(slices.Clip(s.Flags), "-run="+s.Run, "-skip="+s.Skip) {
		flags = append(flags, dash+strings.TrimPrefix(f, "-"))
	}
	return flags
}

// binaryFlags returns the flags of a test binary.
func (r *runner) binaryFlags(s suite) []string {
	return append([]string{"-test.v=test2json", "-test.paniconexit0", "-test.timeout=" + r.timeout.String()},
		s.flags("-test.")...)
}

// stream runs a command that prints events, and collects the results. If it does not come to one of these suites, that
// fails.
func (r *runner) stream(c *exec.Cmd, variant string, suites ...suite) []Result {
	p := newParser(r.tier, variant, r.live, r.note)
	for _, s := range suites {
		p.event(event{Action: "output", Package: s.dir, Output: "never ran\n"})
	}
	c.Stdout, c.Stderr = p, r.note
	err := r.wait(c)
	results := p.finish()
	if err != nil && !slices.ContainsFunc(results, func(t Result) bool { return t.Status == Fail }) {
		results = append(results, r.failed("tiers", "(run)", fmt.Errorf("%s: %w", strings.Join(c.Args, " "), err)))
	}
	return results
}

// binary returns the name of a folder's test binary. A package's tests are linked once for all tiers that run them as
// they are: tier unit keeps what go test makes (scripts/keep), and bench, emu and rxe run it again.
func (r *runner) binary(dir string) string {
	return filepath.Join(r.work, strings.ReplaceAll(dir, "/", "-")+".test")
}

// prepare makes what the suites of the tier's folders need, test binaries as well if there are none. It returns those
// of each folder that has one then, in the order in which they begin, and failures.
func (r *runner) prepare(ctx context.Context) (jobs [][]suite, failed []Result) {
	of, built := map[string][]suite{}, []string{}
	for _, s := range r.suites() {
		if command := strings.Join(s.Before, "\n"); !slices.Contains(built, command) {
			built, failed = append(built, command), append(failed, r.before(ctx, s)...)
		}
		for _, d := range r.folders(s) {
			of[d] = append(of[d], r.at(s, d))
		}
	}
	var dirs []string
	for _, d := range slices.Concat(table.Long, slices.Sorted(maps.Keys(of))) {
		if of[d] != nil && !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	failed = append(failed, lanes(runtime.NumCPU(), dirs, func(d string) (failed []Result) {
		if missing(r.binary(d)) && ctx.Err() == nil {
			args := []string{"go", "test", "-C", d, "-c", "-vet=off", "-o", r.binary(d), "."}
			if _, err := r.output(ctx, nil, args...); err != nil {
				failed = append(failed, r.failed(module+"/"+d, "(build)", err))
			}
		}
		return failed
	})...)
	for _, d := range dirs {
		if !missing(r.binary(d)) {
			jobs = append(jobs, of[d])
		}
	}
	return jobs, failed
}

func missing(name string) bool {
	_, err := os.Stat(name)
	return err != nil
}

// nested reports whether a folder is a module of its own, with tests that need what the library must not depend on.
func (r *runner) nested(dir string) bool {
	return filepath.Clean(dir) != "." && !missing(filepath.Join(r.root, dir, "go.mod"))
}

// bin returns the folder of the programs.
func (r *runner) bin() string { return filepath.Join(r.root, ".build", "bin", r.arch) }

// lanes calls f with each of list, so many at a time, and returns all results.
func lanes[T any](most int, list []T, f func(T) []Result) []Result {
	var wg sync.WaitGroup
	results, slots := make([][]Result, len(list)), make(chan struct{}, most)
	for i, x := range list {
		slots <- struct{}{}
		wg.Go(func() {
			results[i] = f(x)
			<-slots
		})
	}
	wg.Wait()
	return slices.Concat(results...)
}
