//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// vm puts the tests of every folder that has some for the tier, with the programs, into a folder, and runs them in one
// VM or two, one folder after another.
func (r *runner) vm(ctx context.Context) []Result {
	jobs, failed := r.prepare(ctx)
	if len(jobs) == 0 {
		return failed
	}
	all := slices.Concat(jobs...)
	if err := r.fillPayload(all); err != nil {
		return append(failed, r.failed("tiers", "(payload)", err))
	}
	vms := r.shards(all)
	return append(failed, lanes(len(vms), vms, func(part []suite) []Result { return r.boot(ctx, part) })...)
}

// payload is the folder that the VM gets.
func (r *runner) payload() string { return filepath.Join(r.work, "payload-"+r.tier) }

// fillPayload links the programs, the tests and testdata, which a package's tests have in their working directory, as
// under go test.
func (r *runner) fillPayload(suites []suite) error {
	var errs []error
	link := func(from, dir string) {
		dir = filepath.Join(r.payload(), dir)
		errs = append(errs, os.MkdirAll(dir, 0o755))
		if to := filepath.Join(dir, filepath.Base(from)); !missing(from) && missing(to) {
			errs = append(errs, os.Symlink(from, to))
		}
	}
	commands, _ := filepath.Glob(filepath.Join(r.root, "cmd/*"))
	examples, _ := filepath.Glob(filepath.Join(r.root, "examples/*"))
	for _, p := range slices.Concat(commands, examples, []string{"tiers", "rdmaperf", "test2json", "cc"}) {
		if missing(filepath.Join(p, "go.mod")) {
			link(filepath.Join(r.bin(), filepath.Base(p)), "bin") // one that did not build is a failure already
		}
	}
	link(filepath.Join(r.root, "scripts/guest-test"), "bin")
	for _, s := range suites {
		link(r.binary(s.dir), "test")
		link(filepath.Join(r.root, s.dir, "testdata"), filepath.Join("src", s.dir))
	}
	return errors.Join(errs...)
}

// shards divides packages among VMs that run at the same time: with one VM, which waits for much of the time, half of
// two processors would be idle. A package that measures has the machine for itself.
func (r *runner) shards(all []suite) [][]suite {
	a := slices.DeleteFunc(slices.Clone(all), func(s suite) bool { return slices.Contains(table.Second, s.dir) })
	b := slices.DeleteFunc(slices.Clone(all), func(s suite) bool { return !slices.Contains(table.Second, s.dir) })
	info, _ := os.ReadFile("/proc/meminfo")
	_, text, _ := strings.Cut(string(info), "MemAvailable:")
	var kib int
	_, _ = fmt.Sscan(text, &kib)
	if r.measures() || len(a) == 0 || len(b) == 0 || runtime.NumCPU() < 2 || kib < 8<<20 {
		return [][]suite{all}
	}
	return [][]suite{a, b}
}

// boot tests folders in a VM.
func (r *runner) boot(ctx context.Context, suites []suite) []Result {
	// In the guest each package has a limit of its own. The limit for the guest itself is longer.
	kind, _, _ := strings.Cut(r.tier, "-")
	args := []string{r.self, "watch", (r.quiet + 2*time.Minute).String(), "scripts/vm", "run", "-d", kind,
		"-t", strconv.Itoa(int((time.Duration(len(suites)) * r.timeout).Seconds()))}
	for _, name := range []string{figuresEnv, testutil.TurnEnv, testutil.FullEnv} {
		if value := os.Getenv(name); value != "" && (name != testutil.FullEnv || r.full()) {
			args = append(args, "-e", name+"="+value)
		}
	}
	for _, e := range r.env {
		args = append(args, "-e", e)
	}
	args = append(args, r.payload(), "--", "sh", "-c", r.guestScript(suites))
	return r.stream(r.command(ctx, []string{"VM_ARCH=" + r.arch}, args...), "", suites...)
}

// guestScript runs the packages one after another, with scripts/guest-test.
func (r *runner) guestScript(suites []suite) string {
	var b strings.Builder
	b.WriteString(". guest-test\n")
	for _, s := range suites {
		fmt.Fprintf(&b, "run %s %s", s.dir, r.quiet)
		for _, f := range r.binaryFlags(s) {
			b.WriteString(" '" + strings.ReplaceAll(f, "'", `'\''`) + "'")
		}
		b.WriteString("\n")
	}
	return b.String()
}
