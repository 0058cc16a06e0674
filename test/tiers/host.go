package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// releases are the Go releases, newest patch of each, that the bounds in internal/ccall and internal/spin admit.
var releases = []string{"go1.25.14", "go1.26.11", "go1.27.4"}

// gotest runs go test -json with args and env, the test binaries below the program and flags in under, and collects the
// results.
func (r *runner) gotest(ctx context.Context, tier string, under []string, env []string,
	args ...string) ([]Result, error) {
	watched, usageFile, err := r.watched(tier == "unit", under)
	if err != nil {
		return nil, err
	}
	return r.stream(ctx, tier, r.goTest(ctx, watched, env, args...), usageFile)
}

// goTest is the command go test -json, with the test binaries below a program and its flags.
func (r *runner) goTest(ctx context.Context, below []string, env []string, args ...string) *exec.Cmd {
	dir := r.root
	if last := len(args) - 1; last >= 0 && r.nested(args[last]) {
		dir = filepath.Join(r.root, args[last])
		args = append(slices.Clone(args[:last]), ".")
	}
	// One more than there are processors: tests wait.
	args = append([]string{"test", "-json", "-vet=off", "-count=1", "-p=" + strconv.Itoa(runtime.NumCPU()+1),
		"-timeout=" + r.timeout.String(), "-exec=" + strings.Join(below, " ")}, args...)
	c := r.command(ctx, "go", args...)
	c.Dir = dir
	c.Env = append(c.Env, env...)
	return c
}

// nested reports whether a folder is a module of its own, with tests that need what the library must not depend on.
func (r *runner) nested(dir string) bool {
	_, err := os.Stat(filepath.Join(r.root, dir, "go.mod"))
	return err == nil && filepath.Clean(dir) != "."
}

// patterns returns the packages to test: all, and the one first that waits longest, so that nothing waits for it at the
// end.
func (r *runner) patterns() []string {
	if r.pkg != "" {
		return []string{r.pkg}
	}
	return []string{"./rdma", "./..."}
}

// selection returns the flags that select the tests for this machine: all but the VM's tests and the figures.
func (r *runner) selection() []string {
	if r.figures {
		return []string{"-run=^TestFigures", "-p=1"}
	}
	s := []string{"-skip=^TestRXE|^TestSIW|^TestEmu|^TestFigures"}
	if r.run != "" {
		s = append(s, "-run="+r.run)
	}
	return s
}

func (r *runner) unit(ctx context.Context) ([]Result, error) {
	args := r.selection()
	if r.figures {
		dirs, err := packagesWith(r.root, "TestFigures", r.pkg)
		if err != nil {
			return nil, err
		}
		if len(dirs) == 0 {
			return nil, fmt.Errorf("no package has a TestFigures function")
		}
		for _, d := range dirs {
			args = append(args, "./"+d)
		}
		return r.gotest(ctx, "unit", nil, nil, args...)
	}
	if out, err := r.quietly(ctx, "go", "tool", "-n", "objdump"); err != nil { // two packages would both compile it
		return nil, fmt.Errorf("go tool -n objdump: %w\n%s", err, out)
	}
	return r.gotest(ctx, "unit", nil, nil, append(append(args, "-shuffle=on"), r.patterns()...)...)
}

// race has no process wait for a second when it ends: the tests start many. But in a full run it
// leaves out packages in which one goroutine runs and no C.
func (r *runner) race(ctx context.Context) ([]Result, error) {
	env := []string{"CGO_ENABLED=1", "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE")}
	packages := r.patterns()
	if r.pkg == "" && os.Getenv(fullEnv) == "" {
		dirs, err := concurrent(r.root)
		if err != nil {
			return nil, err
		}
		packages = append([]string{"./rdma"}, dirs...)
	}
	selection := r.selection()
	if r.run == "" && !r.figures {
		selection[0] += "|^TestModelNeeds$" // one goroutine looks through all states: tier unit has it
		if os.Getenv(fullEnv) == "" {
			selection[0] += "|^TestModel(Finds)?$"
			// As with 60 clients, and 100 s of processor time.
			selection[0] += "|^TestMemory$/^Stalled$/^(700|4000)_clients"
		}
	}
	results, err := r.gotest(ctx, "race", nil, env, append(append(selection, "-race"), packages...)...)
	if err != nil || r.figures {
		return results, err
	}
	device, err := r.raceDevice(ctx, env)
	return append(results, device...), err
}

// raceDevice runs tests of the emulated device: those of handshakes, in which goroutines of both ends meet that know
// nothing of each other, and in a full run all of the library on both data paths. The emulator runs in the test binary,
// so that the detector sees it too.
func (r *runner) raceDevice(ctx context.Context, env []string) ([]Result, error) {
	run, paths, dirs := "^TestRXE_(CM_)?Handshake", []string{"direct"}, []string{"rdma", "rdmacm"}
	if os.Getenv(fullEnv) != "" {
		run, paths, dirs = "^TestRXE", []string{"direct", "ops"}, []string{"ibv", "rdma", "rdmacm"}
		if out, err := r.build(ctx, "./emu"); err != nil { // tests inject faults
			return nil, fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	if r.run != "" {
		run = r.run
	}
	known, err := packagesWith(r.root, "TestRXE", r.pkg)
	if err != nil {
		return nil, err
	}
	args := []string{"-race", "-run=" + run, skipFigures + "|Allocs$"} // the detector's own are counted too
	for _, d := range dirs {
		if slices.Contains(known, d) {
			args = append(args, "./"+d)
		}
	}
	if len(args) == 3 {
		return nil, nil
	}
	var results []Result
	for _, path := range paths {
		on := append(slices.Clone(env), "PUREVERBS_TEST_TIER=emu", "PUREVERBS_DATAPATH="+path,
			"PATH="+filepath.Join(r.root, ".build/bin")+":"+os.Getenv("PATH"))
		res, err := r.gotest(ctx, "race", nil, on, args...)
		if err != nil {
			return results, err
		}
		for _, one := range res {
			one.Package = path + " " + one.Package
			results = append(results, one)
		}
	}
	return results, nil
}

// concurrency is in a source that starts goroutines or calls C.
var concurrency = regexp.MustCompile(`(?m)^\s*go [\w.]+\(|\bgo func\(|\.Go\(func|RunParallel\(|` +
	`pureverbs/internal/(ccall|mmio|ops)"`)

// hostTest is a test function; those that elsewhere lists are not for this machine.
var (
	hostTest  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(\w+ \*testing\.[TF]\)`)
	elsewhere = regexp.MustCompile(`^(TestRXE|TestSIW|TestEmu|TestFigures)`)
)

// seldom lists packages that the race detector sees in a full run only. Each is another program to compile and to link.
// The first six test the tests, the pages and the batch file, and are in no program that uses the library. What the
// others start is a goroutine or two, or in their tests alone. The last three have few tests for a machine without a
// device.
var seldom = []string{
	"test/bed", "test/docs", "test/examples", "test/preempt", "test/slurm", "test/tiers",
	"cmd/perf", "cmd/perf/internal/agent", "cmd/perf/internal/cm", "cmd/perf/internal/doctor", "cmd/perf/internal/mesh",
	"cmd/perf/internal/selftest", "cmd/perf/internal/wire", "cmd/show_gids", "efadv", "emu/emutest",
	"emu/internal/control", "emu/internal/guest", "emu/internal/strict", "emu/internal/sysfs", "emu/internal/trace",
	"emu/internal/verbs",
	"examples/asyncwatch", "examples/pingpong", "examples/rping", "examples/tour", "internal/bind", "internal/cuda",
	"internal/deadline", "internal/leak", "internal/mmio", "internal/sysfs", "loader", "mlx5dv", "rdmacm",
	"rdmacm/rsocket",
}

// concurrent lists the folders with tests for this machine whose sources have concurrency, as ./DIR.
func concurrent(root string) ([]string, error) {
	dirs, err := packagesWith(root, "Test", "")
	if err != nil {
		return nil, err
	}
	var list []string
	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(root, d, "go.mod")); err == nil || slices.Contains(seldom, d) {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, d, "*.go"))
		if err != nil {
			return nil, err
		}
		var found, tests bool
		for _, f := range files {
			src, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			found = found || concurrency.Match(src)
			tests = tests || slices.ContainsFunc(hostTest.FindAllSubmatch(src, -1), func(m [][]byte) bool {
				return !elsewhere.Match(m[1])
			})
		}
		if found && tests {
			list = append(list, "./"+d)
		}
	}
	return list, nil
}

// releases tests the packages that depend on the internals of the Go runtime, with every release that they claim to
// support, and once without optimisation and inlining. With the oldest release it also checks the types of all
// packages: a newer standard library has more names. In a full run, releases other than this machine's also test the
// packages that build on the first ones. The newest patch of this machine's release, and a standard library without
// optimisation, are for a full run, too: each is another standard library to compile.
func (r *runner) releases(ctx context.Context) ([]Result, error) {
	calls := []string{"./internal/ccall/...", "./internal/spin"}
	all := append(slices.Clone(calls), "./internal/abi", "./internal/dma", "./internal/mlx5", "./internal/ops", "./ibv")
	full := os.Getenv(fullEnv) != ""
	if full {
		all = append(all, "./internal/mmio") // compiles for both architectures, to look at the code
	}
	type variant struct {
		name, env, arg string
		packages       []string
	}
	slow := "-gcflags=" + r.module + "/...=-N -l"
	if full {
		slow = "-gcflags=all=-N -l"
	}
	variants := []variant{{"-N -l", "", slow, calls}}
	for _, v := range releases {
		packages := calls
		if full {
			packages = all
		}
		if version.Lang(v) == version.Lang(runtime.Version()) {
			if !full {
				continue // tier unit runs all with it
			}
			packages = calls
		}
		variants = append(variants, variant{v, "GOTOOLCHAIN=" + v, "-gcflags=", packages})
	}
	var results []Result
	for _, v := range variants {
		var env []string
		if v.env != "" {
			env = append(env, v.env)
		}
		packages := v.packages
		if r.pkg != "" {
			packages = []string{r.pkg}
		}
		fmt.Fprintf(r.note, "with %s:\n", v.name)
		if v.env != "" {
			start := time.Now()
			out, err := r.withEnv(ctx, env, "go", "version")
			used(ctx, time.Since(start), 0, 0)
			if err != nil {
				results = append(results, Result{"releases", "tiers", v.name, Fail, out + err.Error() + "\n"})
				continue
			}
		}
		if v.name == releases[0] && r.pkg == "" && r.run == "" {
			results = append(results, r.typesWith(ctx, v.name, env))
		}
		selection := r.selection()
		if !full && r.run == "" {
			// They compare with C, compile for both architectures, and look through states in one goroutine.
			selection[0] += "|^TestHeaders|^TestLitmus|^TestModel(Finds)?$"
		}
		res, err := r.gotest(ctx, "releases", nil, env, append(append(selection, v.arg), packages...)...)
		for i := range res {
			res[i].Package = v.name + " " + res[i].Package
		}
		if len(res) == 0 && err == nil && r.run == "" {
			err = errors.New("no test ran")
		}
		if err != nil {
			res = append(res, Result{"releases", "tiers", v.name, Fail, err.Error() + "\n"})
		}
		results = append(results, res...)
	}
	return results, nil
}

// typesWith checks the types of all packages and their tests with the standard library of another Go release.
func (r *runner) typesWith(ctx context.Context, release string, env []string) Result {
	self, err := os.Executable()
	var out string
	if err == nil {
		out, err = r.withEnv(ctx, env, self, "types", "-test")
	}
	res := Result{"releases", release + " lint", "types", Pass, out}
	if err != nil {
		res.Status = Fail
		res.Output += err.Error() + "\n"
	}
	return res
}

// toolchains downloads the Go releases that are missing.
func (r *runner) toolchains(ctx context.Context) {
	start := time.Now()
	for _, v := range releases {
		_, _ = r.withEnv(ctx, []string{"GOTOOLCHAIN=" + v}, "go", "version") // tier releases says what fails
	}
	notePhase(r.root, "go-releases", start)
}

// arm64 runs the packages that differ by architecture under QEMU's user mode.
func (r *runner) arm64(ctx context.Context) ([]Result, error) {
	env := []string{
		"GOARCH=arm64", "CC=aarch64-linux-gnu-gcc",
		// The guest's C library; the variable is QEMU's own.
		"QEMU_LD_PREFIX=/usr/aarch64-linux-gnu", "PUREVERBS_TEST_EXEC=qemu-aarch64-static",
	}
	packages := []string{"./internal/ccall/...", "./internal/abi/...", "./internal/ops/...", "./internal/mmio",
		"./internal/mlx5"}
	if os.Getenv(fullEnv) != "" {
		packages = append(packages, "./ibv/...") // 50 s of processor time, on the fake library
	}
	if r.pkg != "" {
		packages = []string{r.pkg}
	}
	// Debian 12 for amd64 has no libibverbs for arm64; the fake one is built.
	args := append(r.selection(), "-skip=^TestRXE|^TestSIW|^TestEmu|^TestFigures|^TestLib")
	return r.gotest(ctx, "arm64", []string{"qemu-aarch64-static"}, env, append(args, packages...)...)
}

// bench runs every benchmark once, to check that it works.
func (r *runner) bench(ctx context.Context) ([]Result, error) {
	dirs, err := packagesWith(r.root, "Benchmark", r.pkg)
	if err != nil {
		return nil, err
	}
	dirs, results := r.binaries(ctx, "bench", slices.DeleteFunc(dirs, r.nested))
	for _, d := range dirs {
		res, err := r.test(ctx, "bench", nil, nil, d, "-run=^$", "-bench=.", "-skip=^BenchmarkRXE", "-benchtime=1x")
		if results = append(results, res...); err != nil {
			return results, err
		}
	}
	return results, nil
}

// lint runs the checks that need no test. Each counts as one.
func (r *runner) lint(ctx context.Context) ([]Result, error) {
	tools := filepath.Join(r.root, ".build", "tools")
	// It reads the standard library first, faster with fewer garbage collections: 61 s of processor time and 1.2 GB,
	// not 77 and 0.8 with 200.
	staticcheck := []string{"env", "GOGC=400", filepath.Join(tools, "staticcheck")}
	// A name in libmlx5's header contains "compresion".
	misspell := []string{filepath.Join(tools, "misspell"), "-error", "-i", "compresion", "README.md", "RATIONALE.md",
		"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "cmd", "docs", "efadv", "examples", "ibv", "internal",
		"loader", "mlx5dv", "rdma", "rdmacm", "test"}
	arm64 := []string{"GOARCH=arm64"}
	differ, err := r.differing(ctx, arm64)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	types, typesTests := []string{self, "types"}, []string{self, "types", "-test"}
	// go list -export compiles without linking, which for every program on every system would take minutes.
	compile := []string{"go", "list", "-export", "-f={{/**/}}", "./..."}
	compileTests := []string{"go", "list", "-export", "-test", "-f={{/**/}}", "./..."}
	// These programs use all packages of the library.
	link := []string{"go", "build", "-o", os.DevNull, "./cmd/...", "./emu/...", "./examples/rsocket"}
	// Two systems at a time: neither the linker nor staticcheck has work for all processors always. What is for one
	// system builds on what was compiled before.
	type system struct {
		env    []string
		checks []check
	}
	systems := []system{
		{nil, []check{
			{"gofmt", []string{"gofmt", "-l", "."}},
			{"vet", []string{"go", "vet", "./..."}},
			{"staticcheck", append(slices.Clone(staticcheck), "./...")},
			{"ineffassign", []string{filepath.Join(tools, "ineffassign"), "./..."}},
			{"misspell", misspell},
			{"mod-verify", []string{"go", "mod", "verify"}},
			{"api", []string{"go", "run", "./test/api"}},
		}},
		{arm64, []check{
			{"types-arm64", typesTests},
			{"vet-arm64", append([]string{"go", "vet"}, differ...)},
		}},
		{[]string{tagged()}, []check{{"types-native", typesTests}, {"vet-native", vetNative}}},
		{append(arm64, tagged()), []check{{"types-native-arm64", typesTests}, {"vet-native-arm64", vetNative}}},
		{[]string{"GOOS=darwin"}, []check{{"types-darwin", typesTests}}},
		{[]string{"GOOS=windows"}, []check{{"types-windows", types}}},
		{[]string{"GOOS=freebsd"}, []check{{"types-freebsd", types}}},
	}
	// Each system's standard library takes longer to compile than all of the other checks. Vet reads all of gRPC.
	if os.Getenv(fullEnv) != "" {
		systems = append(systems,
			system{nil, []check{
				{"vet-grpc", []string{"go", "vet", "-C", "test/grpc", "./..."}},
				{"vet-example-grpc", []string{"go", "vet", "-C", "examples/grpc", "./..."}},
			}},
			system{arm64, []check{
				{"build-arm64", compileTests},
				{"link-arm64", link},
				// Code that only the other architecture uses is not reported as unused.
				{"staticcheck-arm64", slices.Concat(staticcheck, []string{"-checks=inherit,-U1000"}, differ)},
			}},
			system{[]string{"GOOS=darwin"}, []check{
				{"vet-darwin", []string{"go", "vet", "./..."}},
				{"build-darwin", compile},
				{"link-darwin", link},
			}},
			system{[]string{"GOOS=windows"}, []check{{"build-windows", compile}, {"link-windows", link}}},
			system{[]string{"GOOS=freebsd"}, []check{{"build-freebsd", compile}, {"link-freebsd", link}}},
		)
	}
	results := make([][]Result, len(systems))
	inParallel(len(systems), func(i int) {
		for _, c := range systems[i].checks {
			if ctx.Err() != nil {
				return
			}
			results[i] = append(results[i], r.lintOne(ctx, systems[i].env, c))
		}
	})
	return slices.Concat(results...), nil
}

// withEnv runs a command with more environment and returns what it prints.
func (r *runner) withEnv(ctx context.Context, env []string, args ...string) (string, error) {
	var out bytes.Buffer
	c := r.command(ctx, args[0], args[1:]...)
	c.Env = append(c.Env, env...)
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	used(ctx, 0, cpu(c), 0)
	return out.String(), err
}
