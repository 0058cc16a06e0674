package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/testutil/native"
)

// emulator is the program that runs tests on the emulated device, in strict mode: two devices, as the VM has.
const emulator = ".build/bin/emu"

// emuEnv tells tests that the emulator is built; package testutil reads it.
const emuEnv = "PUREVERBS_TEST_EMU"

// binariesEnv names the folder of the packages' test binaries, for tests that run others in their own way; package
// testutil reads it, and compiles what is not there.
const binariesEnv = "PUREVERBS_TEST_BINARIES"

// emu runs on the emulated ConnectX what the VM's tests run on SoftRoCE, with libmlx5's data path and with our own, and
// the stock programs.
func (r *runner) emu(ctx context.Context) ([]Result, error) {
	if out, err := r.build(ctx, "./emu"); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	var results []Result
	if out, err := r.build(ctx, "./cmd/...", "./examples/..."); err != nil {
		results = append(results, Result{"emu", "tiers", "(build)", Fail, out + err.Error() + "\n"})
	}
	if r.ratios {
		dirs, err := packagesWith(r.root, "TestEmuRatios", r.pkg)
		if err != nil || len(dirs) == 0 {
			return nil, errors.Join(err, errIf(len(dirs) == 0, "no package has a TestEmuRatios function"))
		}
		for i := range dirs {
			dirs[i] = "./" + dirs[i]
		}
		return r.gotest(ctx, "emu", nil, []string{"PUREVERBS_FIGURES=1", emuEnv + "=1"},
			append([]string{"-run=^TestEmuRatios", "-p=1"}, dirs...)...)
	}
	run := "-run=^TestRXE|^TestEmu"
	if r.run != "" {
		run = "-run=" + r.run
	}
	jobs, err := r.emuJobs(ctx, run)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, j := range jobs {
		dirs = append(dirs, j.name)
	}
	dirs, failed := r.binaries(ctx, "emu", dirs)
	jobs = slices.DeleteFunc(jobs, func(j job) bool { return !slices.Contains(dirs, j.name) })
	return append(append(results, failed...), r.concurrently(ctx, jobs)...), nil
}

// job is a list of packages' tests that run one after another, because tests with fixed ports must not run twice at a
// time.
type job struct {
	name string
	runs []func(context.Context) ([]Result, error)
}

// long lists the packages that take longest, the longest first. They begin first, so that no lane waits for one of them
// at the end.
var long = []string{"cmd/perf", "test/emu", "rdma", "test/docs", "test/posts/wire", "test/posts", "examples", "rdmacm"}

// onePath lists packages that a short run tests on the direct data path alone. The VM tests some of them on the other,
// and those of rdma run on both.
var onePath = []string{"cmd/perf", "cmd/show_gids", "examples", "test/grpc", "test/posts", "test/soak"}

// apart lists patterns of tests, and of subtests, that a short run of tier emu leaves out in a variant of a package,
// because another variant has them and they tell as much there.
var apart = map[string][]string{
	// How connections begin and end does not depend on how work requests are posted. Of the rows with 700 clients each
	// data path has one.
	"rdma ops":          slices.Concat(oneVariant, []string{"TestRXE_IdleMemory", "TestRXE_Stalled/700_.*messages"}),
	"rdma direct":       {"TestRXE_Stalled/700_.*stream"},
	"rdma least-direct": slices.Concat(oneVariant, []string{"TestRXE_Unread"}),
	"rdmacm ops":        {"TestRXE_CM_Killed", "TestRXE_CM_Credentials.*", "TestRXE_CM_Handshake.*"},
	"test/posts direct": {"TestRXE_Posts", "TestRXE_PostsRaw"}, // test/posts/wire has them, with a trace
}

// oneVariant has the tests of rdma that say nothing of limits either, or mostly wait.
var oneVariant = []string{"TestRXE_CloseMany", "TestRXE_CloseBeside", "TestRXE_Handshake.*", "TestRXE_Credentials",
	"TestRXE_Foreign", "TestRXE_DialNames", "TestRXE_Fallback.*", "TestRXE_OptionsOfCalls", "TestRXE_Examples"}

// skips returns the tests of a package that this run leaves out in a variant, as -skip has them.
func (r *runner) skips(dir, variant string) string {
	if r.full() || r.run != "" {
		return ""
	}
	var list []string
	for _, p := range apart[dir+" "+variant] {
		list = append(list, "^"+strings.ReplaceAll(p, "/", "$/^")+"$")
	}
	return strings.Join(list, "|")
}

// emuJobs returns the jobs of tier emu.
func (r *runner) emuJobs(ctx context.Context, run string) ([]job, error) {
	byDir := map[string]*job{}
	at := func(d string) *job {
		if byDir[d] == nil {
			byDir[d] = &job{name: d}
		}
		return byDir[d]
	}
	dirs, err := packagesWith(r.root, "TestRXE", r.pkg)
	if err != nil {
		return nil, err
	}
	others := r.libraryCells(ctx)
	for _, d := range dirs {
		strict := "--strict"
		switch d {
		case "test/rxebench", "test/bed":
			continue // they compare with the stock tools in the VM, or look at the VM itself
		case "cmd/perf", "rdmacm/rsocket", "examples":
			strict = "--strict-ignore=leak" // stock programs do not destroy all that they made
		case "test/soak":
			strict = "--strict-ignore=leak" // its clients are killed
		}
		paths := []string{"ops", "direct"}
		if slices.Contains(onePath, d) && os.Getenv(fullEnv) == "" {
			paths = paths[1:]
		}
		for _, c := range others[d] {
			at(d).runs = append(at(d).runs, func(ctx context.Context) ([]Result, error) {
				return r.onLibrary(ctx, c, run, strict)
			})
		}
		at(d).runs = append(at(d).runs, r.nativeRuns(d, run, strict)...)
		if r.only != "" {
			continue
		}
		for _, path := range paths {
			at(d).runs = append(at(d).runs, func(ctx context.Context) ([]Result, error) {
				return r.emulated(ctx, emulation{variant: path, path: path, strict: strict,
					skip: r.skips(d, path)}, run, d)
			})
		}
		if d == "rdma" { // other devices grant less: 20 s of processor time
			if !r.full() {
				paths = paths[1:]
			}
			for _, path := range paths {
				at(d).runs = append(at(d).runs, func(ctx context.Context) ([]Result, error) {
					least := "least-" + path
					return r.emulated(ctx, emulation{variant: least, path: path, strict: strict,
						skip:  r.skips(d, least),
						flags: []string{"--limit", "max_srq=0", "--limit", "max_mw=0", "--limit", "max_atomic=0"},
						env:   []string{"PUREVERBS_TEST_LEAST=1"}}, run, d)
				})
			}
		}
	}
	if dirs, err = packagesWith(r.root, "TestEmu", r.pkg); err != nil {
		return nil, err
	}
	if r.only != "" {
		dirs = nil
	}
	for _, d := range slices.DeleteFunc(dirs, r.leavesOut) {
		at(d).runs = append(at(d).runs, func(ctx context.Context) ([]Result, error) {
			return r.test(ctx, "emu", nil, []string{emuEnv + "=1", binariesEnv + "=" + r.work}, d, run)
		})
	}
	var jobs []job
	for _, d := range append(slices.Clone(long), slices.Sorted(maps.Keys(byDir))...) {
		if byDir[d] != nil {
			jobs = append(jobs, *byDir[d])
			delete(byDir, d)
		}
	}
	return jobs, nil
}

// concurrently runs jobs, one more at a time than there are processors, for they wait much: 295 s on two. With three
// more they poll in vain for each other, and take 347. The results are in the order of the jobs.
func (r *runner) concurrently(ctx context.Context, jobs []job) []Result {
	results := make([][]Result, len(jobs))
	inLanes(runtime.NumCPU()+1, len(jobs), func(i int) {
		for _, run := range jobs[i].runs {
			if ctx.Err() != nil {
				return
			}
			res, err := run(ctx)
			if err != nil {
				res = append(res, Result{"emu", jobs[i].name, "(run)", Fail, err.Error() + "\n"})
			}
			results[i] = append(results[i], res...)
		}
	})
	return slices.Concat(results...)
}

// onNative lists the packages whose tests run on the native control path, and what a short run has of them: those that
// find most, for at most 90 seconds of one processor. A full run has all.
var onNative = map[string]string{
	"ibv":         "^TestRXE",
	"rdmacm":      "^TestRXE",
	"mlx5dv":      "^TestRXE(Signature|Mkey|Memcpy)",
	"test/random": "",
	"rdma": "^TestRXE_(Messages|Calls|Killed|LeadOthers|Lease(|Request|Expires|Revoked|Invalidated|Faults|Keys|Stuck)" +
		"|RandomLeases|Manual|NetConn|Packet(|Dial|Group|Restart)|RandomTransfers|SendBuffer|Batch|WriteBuffers|" +
		"OwnQueues|Pollers|Stream|LargeStreams|Credentials|HandshakeKilled|VanishingClients|Faults|ZZRemoval)$",
	"cmd/perf": "^TestRXE_(InteropStock|StockCM|OursCM|ZZRemoval)$",
	"examples": "^TestRXE(CM_(RPing|UDAddy|Ucmatose|MCKey)|PingPong)$",
}

// nativeRuns returns the runs of a package on the native control path, one or none.
func (r *runner) nativeRuns(dir, run, strict string) []func(context.Context) ([]Result, error) {
	tests := r.nativeTests(dir, run)
	if tests == "" {
		return nil
	}
	return []func(context.Context) ([]Result, error){func(ctx context.Context) ([]Result, error) {
		return r.native(ctx, dir, tests, strict)
	}}
}

// nativeTests returns the regular expression of the tests of a folder that run on the native control path, "" for none.
func (r *runner) nativeTests(dir, run string) string {
	tests, ok := onNative[dir]
	switch {
	case !ok || r.only == onlyLibraries:
		return ""
	case r.run != "" || r.only == nativeVariant || os.Getenv(fullEnv) != "":
		return run
	case tests == "":
		return ""
	}
	return "-run=" + tests
}

// native runs a package's tests on the native control path. Those that package native lists run afterwards, to see that
// they still fail for the reason that it has.
func (r *runner) native(ctx context.Context, dir, tests, strict string) ([]Result, error) {
	e := emulation{variant: nativeVariant, path: "direct", strict: strict, env: []string{native.Env + "=native"}}
	results, err := r.emulated(ctx, e, tests, dir)
	if err != nil {
		return results, err
	}
	wanted, err := regexp.Compile(strings.TrimPrefix(tests, "-run="))
	if err != nil {
		return results, err
	}
	rows := slices.DeleteFunc(slices.Clone(native.Rows), func(row native.Row) bool {
		top, _, _ := strings.Cut(row.Test, "/")
		return row.Dir != dir || !wanted.MatchString(top)
	})
	e = emulation{variant: nativeRows, path: "direct", env: append(e.env, native.RowsEnv+"=1")}
	var ran []Result
	quiet := *r
	quiet.note, quiet.live = io.Discard, nil // they fail
	for left := rows; len(left) > 0; {       // one may crash
		res, err := quiet.emulated(ctx, e, "-run="+pattern(left), dir)
		before := len(left)
		left = slices.DeleteFunc(slices.Clone(left), func(row native.Row) bool {
			return slices.ContainsFunc(res, func(t Result) bool { return row.Is(t.Test) })
		})
		ran = append(ran, res...)
		if len(left) == before || err != nil {
			break // checkRows says which did not run
		}
	}
	return append(results, checkRows(rows, ran, os.Getenv(fullEnv) != "")...), nil
}

const skipFigures = "-skip=^TestRXEFigures|^TestRXERatios"

// emulation is how a package's tests run on the emulated device.
type emulation struct {
	variant string   // of the results
	path    string   // data path
	strict  string   // flag of the emulator, "" if it is not strict
	flags   []string // more of them
	skip    string   // regexp of tests that are left out
	below   []string // command that starts the tests, below the emulator
	env     []string
}

// emulated runs a package on two devices. Results have the name of the variant.
func (r *runner) emulated(ctx context.Context, e emulation, run, dir string) ([]Result, error) {
	env := append([]string{"PUREVERBS_TEST_TIER=emu", "PUREVERBS_DATAPATH=" + e.path, "PATH=" + filepath.Join(r.root,
		".build/bin") + ":" + os.Getenv("PATH")}, e.env...)
	under := []string{filepath.Join(r.root, emulator), "--device", "mlx5_0,dmabuf=memfd", "--device", "mlx5_1"}
	if e.strict != "" {
		under = append(under, e.strict)
	}
	under = append(append(append(under, e.flags...), "--"), e.below...)
	skip := skipFigures
	if e.skip != "" {
		skip += "|" + e.skip
	}
	res, err := r.test(ctx, "emu", under, env, dir, run, skip)
	for i := range res {
		res[i].Package = e.variant + " " + res[i].Package
	}
	return res, err
}
