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
)

// vm puts the tests of every folder that has some for the tier, with the programs, into a folder, and runs them in one
// VM or two, one folder after another.
func (r *runner) vm(ctx context.Context) []Result {
	payload := filepath.Join(r.root, ".build", "payload"+strconv.Itoa(os.Getpid()))
	defer os.RemoveAll(payload)
	var dirs []string
	var results []Result
	of := map[string]suite{}
	for _, s := range r.suites() {
		if r.run != "" {
			s.Flags = nil // no benchmarks
		}
		results = append(results, r.before(ctx, s)...)
		have, failed := r.compile(ctx, r.folders(s))
		results = append(results, failed...)
		for _, d := range have {
			of[d] = r.at(s, d)
		}
		dirs = append(dirs, have...)
	}
	if len(dirs) == 0 {
		return results
	}
	if err := r.fillPayload(ctx, payload, dirs); err != nil {
		return append(results, r.failed("tiers", "(payload)", err))
	}
	shards := r.shards(dirs)
	parts := make([][]Result, len(shards))
	lanes(len(shards), len(shards), func(i int) { parts[i] = r.boot(ctx, payload, shards[i], of) })
	return append(results, slices.Concat(parts...)...)
}

// fillPayload makes the folder that the VM gets.
func (r *runner) fillPayload(ctx context.Context, payload string, dirs []string) error {
	bin, test := filepath.Join(payload, "bin"), filepath.Join(payload, "test")
	_, err := r.output(ctx, nil, "go", "build", "-o", bin+"/", "cmd/test2json")
	err = errors.Join(err, os.MkdirAll(test, 0o755))
	programs := []string{"tiers", "rdmaperf"}
	for _, tree := range []string{"cmd", "examples"} {
		list, _ := os.ReadDir(filepath.Join(r.root, tree))
		for _, f := range list {
			if !r.nested(filepath.Join(tree, f.Name())) {
				programs = append(programs, f.Name())
			}
		}
	}
	for _, p := range programs {
		// One that did not build is a failure already, and not every folder has a program.
		if from := filepath.Join(r.bin(), p); !missing(from) {
			err = errors.Join(err, linkOrCopy(from, filepath.Join(bin, p)))
		}
	}
	for _, d := range dirs {
		err = errors.Join(err, linkOrCopy(r.binary(d), filepath.Join(test, testName(d))), r.copyTestdata(payload, d))
	}
	if r.arch != "" {
		err = errors.Join(err, r.cross(ctx, payload))
	}
	return err
}

// copyTestdata gives the package's tests in the VM a working directory like the one that go test gives them.
func (r *runner) copyTestdata(payload, dir string) error {
	to, from := filepath.Join(payload, "src", dir), filepath.Join(r.root, dir, "testdata")
	err := os.MkdirAll(to, 0o755)
	if to = filepath.Join(to, "testdata"); err != nil || missing(from) || !missing(to) {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

// cross compiles the C libraries of the tests on another architecture. The guest has no compiler, but scripts/guest-cc,
// which knows only these.
func (r *runner) cross(ctx context.Context, payload string) error {
	lib := filepath.Join(payload, "lib")
	err := errors.Join(os.Mkdir(lib, 0o755), linkOrCopy(filepath.Join(r.root, "scripts/guest-cc"),
		filepath.Join(payload, "bin", "cc")), r.copyTestdata(payload, "ibv")) // a test looks at the source, too
	for _, src := range []string{"internal/ccall/testdata/ccalltest.c", "ibv/testdata/fakeverbs/fakeverbs.c"} {
		so := filepath.Join(lib, strings.TrimSuffix(filepath.Base(src), ".c")+".so")
		_, ccErr := r.output(ctx, nil, "aarch64-linux-gnu-gcc", "-std=gnu11", "-O2", "-shared", "-fPIC", "-pthread",
			"-o", so, src)
		err = errors.Join(err, ccErr)
	}
	return err
}

// shards divides packages among VMs that run at the same time: with one VM, which waits for much of the time, half of
// two processors would be idle. A package that measures has the machine for itself.
func (r *runner) shards(dirs []string) [][]string {
	second := func(d string) bool { return slices.Contains(table.Second, d) }
	a := slices.DeleteFunc(slices.Clone(dirs), second)
	b := slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return !second(d) })
	info, _ := os.ReadFile("/proc/meminfo")
	_, text, _ := strings.Cut(string(info), "MemAvailable:")
	var kib int
	_, _ = fmt.Sscan(text, &kib)
	if r.figures || r.ratios || len(a) == 0 || len(b) == 0 || runtime.NumCPU() < 2 || kib < 8<<20 {
		return [][]string{dirs}
	}
	return [][]string{a, b}
}

// boot tests folders in a VM.
func (r *runner) boot(ctx context.Context, payload string, dirs []string, of map[string]suite) []Result {
	script := "run-" + testName(dirs[0]) + ".sh"
	if err := os.WriteFile(filepath.Join(payload, script), []byte(r.guestScript(dirs, of)), 0o755); err != nil {
		return []Result{r.failed("tiers", "(script)", err)}
	}
	env := slices.Clone(r.env)
	if r.figures || r.ratios {
		env = append(env, "PUREVERBS_FIGURES=1")
	}
	if r.full() {
		env = append(env, fullEnv+"=1")
	} else if turn := os.Getenv(turnEnv); turn != "" {
		env = append(env, turnEnv+"="+turn)
	}
	// In the guest each package has a limit of its own. The limit for the guest itself is longer.
	args := []string{r.self, "watch", (r.quiet + 2*time.Minute).String(), "scripts/vm", "run",
		"-t", strconv.Itoa(int((time.Duration(len(dirs)) * r.timeout).Seconds()))}
	if r.tier == "siw" {
		args = append(args, "-d", "siw")
	}
	for _, e := range env {
		args = append(args, "-e", e)
	}
	vm := r.command(ctx, []string{"VM_ARCH=" + r.arch}, append(args, payload, "--", "sh", script)...)
	return r.stream(vm, dirs...)
}

// guestScript runs the packages one after another, each with limits of its own, and afterwards ends what it left
// running and mends the network. It prints events.
func (r *runner) guestScript(dirs []string, of map[string]suite) string {
	var b strings.Builder
	b.WriteString(`export GOTRACEBACK=all
reap() {
	for p in /proc/[0-9]*; do
		case ${p#/proc/} in
		1 | $$ | $PPID) ;;
		*) readlink $p/exe >/dev/null && kill -9 ${p#/proc/} ;;
		esac
	done 2>/dev/null
}
`)
	for _, d := range dirs {
		fmt.Fprintf(&b, "cd /payload/src/%s\ntest2json -t -p %s setsid tiers watch %s /payload/test/%s", d, d, r.quiet,
			testName(d))
		for _, f := range r.binaryFlags(of[d]) {
			b.WriteString(" " + shellQuote(f))
		}
		fmt.Fprintf(&b, `
rc=$?
reap
rdma-net || [ $rc -ne 0 ] || echo '{"Action":"fail","Package":"%s","Output":"the package left the devices broken"}'
`, d)
	}
	return b.String()
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
