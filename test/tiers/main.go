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
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
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
	note  io.Writer           // progress, and figures
	live  io.Writer           // output of the tests as it comes; nil for none

	run     string        // regexp of test names, "" for all
	pkg     string        // one package or subtree, "" for all
	only    string        // libraries, native: run the variants of tier emu with these, and no others
	figures bool          // run the figure tests and nothing else
	ratios  bool          // run the comparisons with the stock tools
	quiet   time.Duration // how long a test binary may print nothing
	timeout time.Duration // for one package, whatever it prints
	env     []string      // NAME=VALUE for the guest

	tier    string // that runs
	use     *usage
	arch    string // the architecture to build for, "" for this machine's
	devices string // of tier hw
}

// module is the path of the module.
const module = "github.com/pureverbs/pureverbs"

// fullEnv is the environment variable that makes tests run every row in each place, as make test-full does. Package
// testutil reads it.
const fullEnv = "PUREVERBS_FULL"

// turnEnv is the environment variable with the number of a short run. Package testutil reads it.
const turnEnv = "PUREVERBS_TURN"

// turn is the number of a short run, which differs from commit to commit; without git it is always the same.
func (r *runner) turn(ctx context.Context) uint64 {
	h := fnv.New64a()
	head, _ := r.output(ctx, nil, "git", "rev-parse", "HEAD")
	_, _ = h.Write([]byte(head))
	return h.Sum64()
}

// takeTurn tells the tests of a short run which rows of their long lists are theirs.
func (r *runner) takeTurn() {
	if !r.full() && r.run == "" {
		os.Setenv(turnEnv, strconv.FormatUint(r.turn(context.Background()), 10))
	}
}

// full reports whether tests run in each row. On the other architecture they do not: what differs there is the code of
// calls, barriers and layouts, and the kernel's, which the rows share.
func (r *runner) full() bool { return os.Getenv(fullEnv) != "" && r.arch == "" }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintln(stderr, "tiers:", err)
		return 2
	}
	r := &runner{note: stdout, use: new(usage)}
	f := flag.NewFlagSet("tiers", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&r.run, "run", "", "run only tests whose name matches this `regexp`")
	f.StringVar(&r.pkg, "pkg", "", "only this `package` (./ibv) or subtree (./internal/...)")
	f.BoolVar(&r.figures, "figures", false, "run the figure tests and print their lines")
	f.BoolVar(&r.ratios, "ratios", false, "rxe, emu: compare with the stock tools and print the ratios")
	f.Func("only", "emu: all tests with other releases' `libraries`, or on the native control path (native), "+
		"and no others", func(s string) error {
		if r.only = s; s != onlyLibraries && s != nativeVariant {
			return errors.New("want " + onlyLibraries + " or " + nativeVariant)
		}
		return nil
	})
	f.DurationVar(&r.quiet, "quiet", 5*time.Minute, "end a test binary that prints nothing for so long")
	f.DurationVar(&r.timeout, "timeout", 2*time.Hour, "end the tests of one package after so long, whatever they print")
	f.Func("e", "rxe: set `NAME=VALUE` in the VM", func(s string) error { r.env = append(r.env, s); return nil })
	verbose := f.Bool("v", false, "print the tests' output as it comes")
	setup := f.Bool("setup", false, "install what is missing, with scripts/setup, while tier lint compiles")
	if f.Parse(args) != nil {
		return 2
	}
	if *verbose {
		r.live = stdout
	}
	names := f.Args()
	for _, t := range names {
		if !slices.Contains(tierNames(), t) {
			return fail(fmt.Errorf("unknown tier %q: the tiers are %s", t, strings.Join(tierNames(), ", ")))
		}
	}
	if len(names) == 0 {
		f.Usage()
		return 2
	}
	err := r.open()
	defer os.RemoveAll(r.work)
	if err != nil {
		return fail(err)
	}
	skips, err := readAllowed(filepath.Join(r.root, "test/allowed-skips"))
	if err != nil {
		return fail(err)
	}
	start, ready := time.Now(), func(string) error { return nil }
	if *setup {
		ready = r.setup(ctx)
	}
	results, took := r.runTiers(ctx, names, ready)
	ok := report(stdout, names, results, skips, took)
	var phases []phase
	if *setup {
		phases = readPhases(r.root)
	}
	printUsage(stdout, names, took, phases, time.Since(start))
	if ctx.Err() == nil {
		ok = r.support(stdout, names, results) && ok
	}
	fmt.Fprintf(stdout, "\n%s\n", sums(counts(results)))
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

// open finds the module and its tests, and makes a folder below .build, on whose file system test binaries can be
// linked to.
func (r *runner) open() error {
	file, err := exec.Command("go", "env", "GOMOD").Output()
	r.root = filepath.Dir(strings.TrimSpace(string(file)))
	if err != nil || missing(filepath.Join(r.root, "go.mod")) {
		return errors.Join(err, errors.New("not inside the module: run it in the repository"))
	}
	build := filepath.Join(r.root, ".build")
	if err := os.MkdirAll(build, 0o755); err != nil {
		return err
	}
	var workErr error
	r.self, err = os.Executable()
	r.work, workErr = os.MkdirTemp(build, "tiers-")
	r.takeTurn()
	return errors.Join(err, workErr, r.findTests())
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
		dir, relErr := filepath.Rel(r.root, filepath.Dir(file))
		for _, m := range testFunc.FindAllSubmatch(src, -1) {
			r.tests[dir] = append(r.tests[dir], string(m[1]))
		}
		return errors.Join(err, relErr)
	})
}

// with lists the folders that have a test with this prefix, of those that -pkg names.
func (r *runner) with(prefix string) (dirs []string) {
	only := strings.TrimPrefix(filepath.ToSlash(r.pkg), "./")
	tree, isTree := strings.CutSuffix(only, "...")
	for dir, names := range r.tests {
		if (only == "" || dir == only || isTree && strings.HasPrefix(dir+"/", tree)) &&
			slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) }) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// runTiers runs one tier after another until ctx ends, even if some fail, each when it is ready. It returns how long
// each took.
func (r *runner) runTiers(ctx context.Context, names []string, ready func(string) error) ([]Result, map[string]*usage) {
	var results []Result
	took := map[string]*usage{}
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(r.note, "== tier %s\n", name)
		start, own := time.Now(), *r
		own.tier, own.use = name, new(usage)
		took[name] = own.use
		if _, arch, _ := strings.Cut(name, "-"); arch != "" {
			own.arch, own.work = arch, filepath.Join(r.work, arch)
		}
		if err := errors.Join(os.MkdirAll(own.work, 0o755), ready(name)); err != nil {
			results = append(results, own.failed("tiers", name, err))
		} else {
			at := slices.Index(tierNames(), name)
			results = append(results, tiers[at].run(&own, ctx)...)
		}
		own.use.wall = time.Since(start)
	}
	return results, took
}

// setup starts scripts/setup and returns a function that waits until what a tier needs is there: lint needs the Go
// modules and the tools, the others Debian's packages, too.
func (r *runner) setup(ctx context.Context) (ready func(tier string) error) {
	_ = os.Remove(filepath.Join(r.root, setupTimes))
	start := func(args ...string) (wait func() error) {
		done := make(chan error, 1)
		go func() { done <- r.command(ctx, nil, append([]string{"scripts/setup"}, args...)...).Run() }()
		return sync.OnceValue(func() error {
			if err := <-done; err != nil {
				return fmt.Errorf("scripts/setup: %w", err)
			}
			return nil
		})
	}
	system, tools := start("system"), start("go")
	releases := []string{"releases"}
	for _, s := range table.Tiers["releases"] {
		if s.When == "short" && s.Go != "" {
			releases = append(releases, s.Go)
		}
	}
	start(releases...) // tier releases says what fails
	return func(tier string) error {
		if tier == "lint" {
			return tools()
		}
		return errors.Join(tools(), system())
	}
}
