//go:build linux

// Tiers runs the project's tests, tier by tier, and counts them.
//
//	go run ./test/tiers [flags] TIER...
//
// The tiers: lint, unit, race, releases, arm64, bench on this machine, emu on the emulated ConnectX, hw on mlx5 devices
// of this machine, rxe in the SoftRoCE VM, rxe-arm64 in that of the other architecture, and siw in a VM with iWARP. It
// exits with 1 if a test failed, if a tier ran no test, or if a test skipped that test/allowed-skips does not list. See
// docs/testing.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "watch" {
		os.Exit(watch(os.Args[2:], os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type runner struct {
	root  string
	work  string              // folder for this run's files
	self  string              // this program
	tests map[string][]string // the names of the tests and benchmarks in each folder
	skips []*regexp.Regexp    // that are allowed
	note  io.Writer           // progress, and figures
	live  io.Writer           // output of the tests as it comes; nil for none

	run     string        // regexp of test names, "" for all
	pkg     string        // one package or subtree, "" for all
	only    string        // what alone runs: one of choices, or ""
	quiet   time.Duration // how long a test binary may print nothing
	timeout time.Duration // for one package, whatever it prints
	env     []string      // NAME=VALUE for the guest
	setup   bool          // install what is missing

	turn uint64 // the number of a short run, which differs from commit to commit
	tier string // that runs
	use  *usage
	arch string // the architecture to build for, "" for this machine's
}

// module is the path of the module.
const module = "github.com/pureverbs/pureverbs"

// figuresEnv is the environment variable with which tests measure.
const figuresEnv = "PUREVERBS_FIGURES"

// choices are what -only may name: the figure tests, the comparisons with the stock tools, and of tier emu the tests
// with other releases' libraries, or those on the native control path.
var choices = []string{"figures", "ratios", libraries, nativeVariant}

// measures reports whether the run is for figures or ratios, and for no tests.
func (r *runner) measures() bool { return slices.Contains(choices[:2], r.only) }

// full reports whether tests run in each row. On the other architecture they do not: what differs there is the code of
// calls, barriers and layouts, and the kernel's, which the rows share.
func (r *runner) full() bool { return os.Getenv(testutil.FullEnv) != "" && r.arch == "" }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	r := &runner{note: stdout, use: new(usage)}
	f := flag.NewFlagSet("tiers", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&r.run, "run", "", "run only tests whose name matches this `regexp`")
	f.StringVar(&r.pkg, "pkg", "", "only this `package` (./ibv) or subtree (./internal/...)")
	f.StringVar(&r.only, "only", "", "run nothing else than `these`: "+strings.Join(choices, ", "))
	f.DurationVar(&r.quiet, "quiet", 5*time.Minute, "end a test binary that prints nothing for so long")
	f.DurationVar(&r.timeout, "timeout", 2*time.Hour, "end the tests of one package after so long, whatever they print")
	f.Func("e", "rxe: set `NAME=VALUE` in the VM", func(s string) error { r.env = append(r.env, s); return nil })
	f.BoolFunc("v", "print the tests' output as it comes", func(string) error { r.live = stdout; return nil })
	f.BoolVar(&r.setup, "setup", false, "lint: install what the other tiers need, with scripts/setup")
	if f.Parse(args) != nil {
		return 2
	}
	names := f.Args()
	err := r.open(names)
	defer os.RemoveAll(r.work)
	if err != nil {
		fmt.Fprintln(stderr, "tiers:", err)
		return 2
	}
	start := time.Now()
	results, took := r.runTiers(ctx, names)
	ok := report(stdout, names, results, r.skips, took)
	var steps []byte
	if r.setup {
		steps, _ = os.ReadFile(filepath.Join(r.root, setupTimes))
	}
	printUsage(stdout, names, took, string(steps), time.Since(start))
	if ctx.Err() == nil {
		ok = r.support(stdout, names, results) && ok
	}
	fmt.Fprintf(stdout, "\n%s\n", counts(results))
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "tiers: interrupted: the sums are those of what ran until then")
		return 130
	case !ok:
		return 1
	}
	return 0
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`)

// open checks the command line, finds the module and its tests, and makes a folder below .build, on whose file system
// test binaries can be linked to. It tells the tests of a short run which rows of their long lists are theirs; without
// git they are always the same.
func (r *runner) open(names []string) error {
	if len(names) == 0 || slices.ContainsFunc(names, func(t string) bool { return tiers[t] == nil }) {
		all := slices.Sorted(maps.Keys(tiers))
		return fmt.Errorf("tiers %q: the tiers are %s; -h prints the flags", names, strings.Join(all, ", "))
	}
	if r.only != "" && !slices.Contains(choices, r.only) {
		return fmt.Errorf("-only %s: want one of %s", r.only, strings.Join(choices, ", "))
	}
	file, err := exec.Command("go", "env", "GOMOD").Output()
	r.root = filepath.Dir(strings.TrimSpace(string(file)))
	if err != nil || missing(filepath.Join(r.root, "go.mod")) {
		return errors.Join(err, errors.New("not inside the module: run it in the repository"))
	}
	if r.turn, err = strconv.ParseUint(os.Getenv(testutil.TurnEnv), 10, 64); err != nil {
		head, _ := r.output(context.Background(), nil, "git", "rev-parse", "HEAD")
		r.turn = uint64(crc32.ChecksumIEEE([]byte(head)))
	}
	os.Unsetenv(testutil.TurnEnv)
	if !r.full() && r.run == "" {
		os.Setenv(testutil.TurnEnv, strconv.FormatUint(r.turn, 10))
	}
	if r.measures() {
		os.Setenv(figuresEnv, "1")
	}
	var errs [4]error
	build := filepath.Join(r.root, ".build")
	errs[0] = os.MkdirAll(build, 0o755)
	r.work, errs[1] = os.MkdirTemp(build, "tiers-")
	r.self, errs[2] = os.Executable()
	r.skips, errs[3] = readAllowed(filepath.Join(r.root, "test/allowed-skips"))
	return errors.Join(append(errs[:], r.findTests())...)
}

// findTests reads the names of all tests.
func (r *runner) findTests() error {
	r.tests = map[string][]string{}
	return filepath.WalkDir(r.root, func(file string, d os.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != r.root && (name[0] == '.' || name == "testdata" || name == "tools"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(file)
		dir, _ := filepath.Rel(r.root, filepath.Dir(file))
		for _, m := range testFunc.FindAllSubmatch(src, -1) {
			r.tests[dir] = append(r.tests[dir], string(m[1]))
		}
		return err
	})
}

// runTiers runs one tier after another until ctx ends, even if some fail. It returns how long each took.
func (r *runner) runTiers(ctx context.Context, names []string) (results []Result, took map[string]*usage) {
	took = map[string]*usage{}
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(r.note, "== tier %s\n", name)
		start, own := time.Now(), *r
		own.tier, own.use = name, new(usage)
		took[name] = own.use
		if _, own.arch, _ = strings.Cut(name, "-"); own.arch != "" {
			own.work = filepath.Join(r.work, own.arch)
		}
		_ = os.MkdirAll(own.work, 0o755) // or what is put there fails
		results = append(results, tiers[name](&own, ctx)...)
		own.use.wall = time.Since(start)
	}
	return results, took
}
