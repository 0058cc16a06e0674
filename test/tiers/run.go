//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	c.Stdout, c.Stderr = r.note, r.note
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
	err := c.Run()
	r.use.cpu.Add(int64(cpu(c)))
	if err != nil {
		err = fmt.Errorf("%s%s: %w", &out, strings.Join(args, " "), err)
	}
	return out.String(), err
}

// failed is the result of a step of a tier that is no test.
func (r *runner) failed(of, step string, err error) Result {
	return Result{r.tier, of, step, Fail, err.Error() + "\n"}
}

// test runs a suite: packages by go test, or the test binary of a folder.
func (r *runner) test(ctx context.Context, s suite) []Result {
	args := []string{r.self, "watch"}
	if s.Keep || s.compile {
		args = append(args, "-keep", r.work)
	}
	quiet := r.quiet
	if s.compile {
		quiet = 0
	}
	args = append(append(args, quiet.String()), r.expand(s, s.Below)...)
	dir := s.dir
	if dir != "" {
		// Not by go tool, which sets CC and GOTOOLCHAIN, among others, for what it runs.
		test2json, err := r.output(ctx, nil, "go", "tool", "-n", "test2json")
		if err != nil {
			return []Result{r.failed(dir, "(run)", err)}
		}
		args = slices.Concat([]string{strings.TrimSpace(test2json), "-t", "-p", module + "/" + dir}, args,
			[]string{r.binary(dir)}, r.binaryFlags(s))
	} else {
		packages := s.Packages
		if last := packages[len(packages)-1]; r.nested(last) {
			dir, packages = last, []string{"."}
		}
		// One more than there are processors: tests wait.
		args = slices.Concat([]string{"go", "test", "-json", "-vet=off", "-count=1",
			"-p=" + strconv.Itoa(runtime.NumCPU()+1), "-timeout=" + r.timeout.String(),
			"-exec=" + strings.Join(args, " ")}, s.flags(), packages)
	}
	c := r.command(ctx, r.expand(s, s.Env), args...)
	c.Dir = filepath.Join(r.root, dir)
	c.Env = append(c.Env, "PWD="+c.Dir)
	if r.figures || r.ratios {
		c.Env = append(c.Env, "PUREVERBS_FIGURES=1")
	}
	results := r.stream(c)
	if s.Variant != "" {
		for i := range results {
			results[i].Package = s.Variant + " " + results[i].Package
		}
	}
	return results
}

// flags returns the flags of go test.
func (s suite) flags() []string {
	flags := slices.Clone(s.Flags)
	if s.Run != "" {
		flags = append(flags, "-run="+s.Run)
	}
	if s.Skip != "" {
		flags = append(flags, "-skip="+s.Skip)
	}
	return flags
}

// binaryFlags returns the flags of a test binary.
func (r *runner) binaryFlags(s suite) []string {
	flags := []string{"-test.v=test2json", "-test.paniconexit0", "-test.timeout=" + r.timeout.String()}
	for _, f := range s.flags() {
		flags = append(flags, "-test."+strings.TrimPrefix(f, "-"))
	}
	return flags
}

// stream runs a command that prints events, and collects the results. The packages that it is to test fail if it does
// not come to them.
func (r *runner) stream(c *exec.Cmd, packages ...string) []Result {
	p := newParser(r.tier, r.live, r.note)
	for _, d := range packages {
		p.event(event{Action: "output", Package: d, Output: "never ran\n"})
	}
	c.Stdout = p
	err := c.Run()
	r.use.cpu.Add(int64(cpu(c)))
	results := p.finish()
	if err != nil && !slices.ContainsFunc(results, func(t Result) bool { return t.Status == Fail }) {
		for _, text := range p.builds {
			err = fmt.Errorf("%w\n%s", err, text)
		}
		results = append(results, r.failed("tiers", "(run)", fmt.Errorf("%s: %w", strings.Join(c.Args, " "), err)))
	}
	return results
}

// A package's tests are compiled once for all tiers that run them as they are. Tier unit keeps the test binaries that
// go test makes, and bench, emu and rxe run them again. What is missing because unit did not run is compiled first.

// binary returns the name of a folder's test binary.
func (r *runner) binary(dir string) string { return filepath.Join(r.work, testName(dir)) }

func testName(dir string) string { return strings.ReplaceAll(dir, "/", "-") + ".test" }

// keep links or copies a test binary to a folder below .build. It is named after the working directory, which go test
// has made the package's folder.
func keep(in, binary string) error {
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := filepath.Rel(in[:max(0, strings.LastIndex(in, "/.build/"))], wd)
	if err == nil && !strings.HasSuffix(binary, ".test") {
		err = errors.New("keep: no test binary")
	}
	if err != nil {
		return err
	}
	return linkOrCopy(binary, filepath.Join(in, testName(dir)))
}

func linkOrCopy(from, to string) error {
	if err := os.Link(from, to); err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	part := fmt.Sprintf("%s-%d", to, os.Getpid()) // another tier may run the old one
	return errors.Join(os.WriteFile(part, data, 0o755), os.Rename(part, to))
}

// compile compiles the tests of the folders that have no test binary yet. It returns the folders that have one then,
// and failures of the others.
func (r *runner) compile(ctx context.Context, dirs []string) (have []string, failed []Result) {
	var own []string // of this module
	lacks := func(d string) bool { return missing(r.binary(d)) }
	for _, d := range dirs {
		switch {
		case !lacks(d):
		case r.nested(d):
			failed = append(failed, r.test(ctx, suite{compile: true, Packages: []string{"./" + d}})...)
		default:
			own = append(own, d)
		}
	}
	if len(own) > 0 {
		failed = append(failed, r.test(ctx, suite{compile: true, Packages: paths(own)})...)
	}
	return slices.DeleteFunc(slices.Clone(dirs), lacks), failed
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

// lanes calls f with 0 to n-1, so many calls at a time.
func lanes(most, n int, f func(int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, most)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			f(i)
			<-slots
		})
	}
	wg.Wait()
}
