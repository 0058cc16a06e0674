package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A package's tests are compiled once for all tiers that run them as they are. Tier unit keeps the test binaries that
// go test makes, and bench, emu and rxe run them again. What is missing because unit did not run is compiled first.

// binary returns the name of a folder's test binary.
func (r *runner) binary(dir string) string { return filepath.Join(r.work, testName(dir)) }

// keep links or copies the test binary among args to a folder two levels below the module's root. It is named after the
// working directory, which go test has made the package's folder.
func keep(in string, args []string) error {
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := filepath.Rel(filepath.Join(in, "..", ".."), wd)
	if err != nil {
		return err
	}
	for _, a := range args {
		if strings.HasSuffix(a, ".test") && filepath.IsAbs(a) {
			return linkOrCopy(a, filepath.Join(in, testName(filepath.ToSlash(dir))))
		}
	}
	return errors.New("keep: no test binary")
}

func linkOrCopy(from, to string) error {
	if err := os.Link(from, to); err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.CreateTemp(filepath.Dir(to), "copy-") // another tier may run the old one
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Chmod(0o755), dst.Close(), os.Rename(dst.Name(), to))
}

// binaries compiles the tests of the folders that have no test binary yet. It returns the folders that have one then,
// and failures of the others.
func (r *runner) binaries(ctx context.Context, tier string, dirs []string) ([]string, []Result) {
	r.write.Lock()
	defer r.write.Unlock()
	var missing []string // of this module
	var results []Result
	compile := func(packages ...string) {
		self, err := os.Executable()
		var res []Result
		if err == nil {
			c := r.goTest(ctx, []string{self, "watch", "-keep", r.work, "0"}, nil, packages...)
			res, err = r.stream(ctx, tier, c, "")
		}
		if err != nil {
			res = append(res, Result{tier, "tiers", "(build)", Fail, err.Error() + "\n"})
		}
		results = append(results, res...)
	}
	for _, d := range dirs {
		switch _, err := os.Stat(r.binary(d)); {
		case err == nil:
		case r.nested(d):
			compile("./" + d)
		default:
			missing = append(missing, "./"+d)
		}
	}
	if len(missing) > 0 {
		compile(missing...)
	}
	return slices.DeleteFunc(slices.Clone(dirs), func(d string) bool {
		_, err := os.Stat(r.binary(d))
		return err != nil
	}), results
}

// bin returns the folder of the programs.
func (r *runner) bin() string { return filepath.Join(".build", "bin", r.arch) + "/" }

// build builds programs into bin, and returns what the go command prints.
func (r *runner) build(ctx context.Context, programs ...string) (string, error) {
	r.write.Lock()
	defer r.write.Unlock()
	return r.quietly(ctx, "go", append([]string{"build", "-o", r.bin()}, programs...)...)
}

// test runs a folder's test binary, below the program and flags in under, as go test does.
func (r *runner) test(ctx context.Context, tier string, under, env []string, dir string, flags ...string) ([]Result,
	error) {
	watched, usageFile, err := r.watched(false, under)
	if err != nil {
		return nil, err
	}
	test2json, err := r.test2json(ctx)
	if err != nil {
		return nil, err
	}
	args := append([]string{"-t", "-p", r.module + "/" + dir}, watched...)
	args = append(args, r.binary(dir), "-test.v=test2json", "-test.paniconexit0", "-test.timeout="+r.timeout.String())
	for _, f := range flags {
		args = append(args, "-test."+strings.TrimPrefix(f, "-"))
	}
	c := r.command(ctx, test2json, args...)
	c.Dir = filepath.Join(r.root, dir)
	c.Env = append(append(c.Env, "PWD="+c.Dir), env...)
	return r.stream(ctx, tier, c, usageFile)
}

// test2json returns the name of the program that converts a test's output to events.
func (r *runner) test2json(ctx context.Context) (string, error) {
	out, err := r.quietly(ctx, "go", "tool", "-n", "test2json")
	if err != nil {
		return "", fmt.Errorf("go tool -n test2json: %w\n%s", err, out)
	}
	return strings.TrimSpace(out), nil
}

// watched returns the command below which test binaries run, and the file in which it notes their processor time.
func (r *runner) watched(keep bool, under []string) ([]string, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	f, err := os.CreateTemp(r.work, "usage-")
	if err != nil {
		return nil, "", err
	}
	command := []string{self, "watch", "-usage", f.Name()}
	if keep {
		command = append(command, "-keep", r.work)
	}
	return append(append(command, r.quiet.String()), under...), f.Name(), f.Close()
}

// stream runs a command that prints events, and collects the results.
func (r *runner) stream(ctx context.Context, tier string, c *exec.Cmd, usageFile string) ([]Result, error) {
	if r.figures {
		c.Env = append(c.Env, "PUREVERBS_FIGURES=1")
	}
	c.Stdout = nil
	pipe, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	p := newParser(tier, r.live, r.note)
	var figures bytes.Buffer
	if r.figures || r.ratios {
		p.live = &figures
	}
	readErr := p.read(pipe)
	err = c.Wait()
	ran := ranFor(usageFile)
	used(ctx, 0, cpu(c)-ran, ran)
	printFigures(r.out, figures.Bytes())
	results := p.finish()
	if readErr != nil {
		return results, readErr
	}
	for _, t := range results {
		if t.Status == Fail {
			return results, nil
		}
	}
	if err != nil {
		var b strings.Builder
		for _, o := range p.builds {
			b.WriteString(o.String())
		}
		return results, fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, b.String())
	}
	return results, nil
}

// check is a command of tier lint.
type check struct {
	name string
	args []string
}

// lintOne runs it.
func (r *runner) lintOne(ctx context.Context, env []string, c check) Result {
	start := time.Now()
	out, err := r.withEnv(ctx, env, c.args...)
	res := Result{"lint", "lint", c.name, Pass, out}
	word := "ok  "
	if err != nil || c.name == "gofmt" && out != "" {
		res.Status = Fail
		word = "FAIL"
		if err != nil {
			res.Output += err.Error() + "\n"
		}
	}
	fmt.Fprintf(r.note, "%s lint     %s (%.1fs)\n", word, c.name, time.Since(start).Seconds())
	if c.name == "api" && err == nil {
		fmt.Fprint(r.note, out)
	}
	return res
}

// tagged is GOFLAGS for the native tag.
func tagged() string {
	return "GOFLAGS=" + os.Getenv("GOFLAGS") + buildFlags + " -tags=pureverbs_native"
}

// vetNative vets the packages whose code the native tag changes. ibv and rdmacm have a file of a few lines each: to vet
// all packages takes 75 s of processor time, to check their types 7.
var vetNative = []string{"go", "vet", "./internal/ccall", "./internal/cuda", "./loader"}

// differing lists the packages that have files with env that they lack without it. Of the others vet and staticcheck
// have nothing new to say.
func (r *runner) differing(ctx context.Context, env []string) ([]string, error) {
	var files [2]map[string][]string
	for i, env := range [][]string{nil, env} {
		c := r.command(ctx, "go", "list", "-f", "{{.ImportPath}} {{join .GoFiles \" \"}} {{join .CgoFiles \" \"}} "+
			"{{join .SFiles \" \"}} {{join .TestGoFiles \" \"}} {{join .XTestGoFiles \" \"}}", "./...")
		c.Env = append(c.Env, env...)
		c.Stdout = nil
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		files[i] = map[string][]string{}
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) > 0 {
				files[i][f[0]] = f[1:]
			}
		}
	}
	var names []string
	for name, list := range files[1] {
		if slices.ContainsFunc(list, func(file string) bool { return !slices.Contains(files[0][name], file) }) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []string{"./..."}, nil // this machine is such a one
	}
	slices.Sort(names)
	return names, nil
}
