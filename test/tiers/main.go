// Tiers runs the project's tests, tier by tier, and counts them.
//
//	go run ./test/tiers [flags] TIER...
//
// TIER,TIER+TIER runs the last one while the others run.
//
// The tiers: lint, unit, race, releases, arm64, bench on this machine, emu on the emulated ConnectX, hw on mlx5 devices
// of this machine, rxe in the SoftRoCE VM, rxe-arm64 in that of the other architecture, and siw in a VM with iWARP. It
// exits with 1 if a test failed, if a tier ran no test, or if a test skipped that test/allowed-skips does not list. See
// docs/testing.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "watch" {
		os.Exit(watch(os.Args[2:], os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == "types" {
		os.Exit(checkTypes(os.Args[2:], os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// tier runs the tests of a tier.
type tier = func(context.Context) ([]Result, error)

type runner struct {
	root    string
	run     string // regexp of test names, "" for all
	pkg     string // one package or subtree, "" for all
	figures bool   // run the figure tests and nothing else
	ratios  bool   // run the comparisons with the stock tools

	only    string        // libraries, native: run the variants of tier emu with these, and no others
	quiet   time.Duration // how long a test binary may print nothing
	timeout time.Duration // for one package, whatever it prints
	env     []string      // NAME=VALUE for the guest
	out     io.Writer     // figures
	note    io.Writer     // progress
	live    io.Writer     // output of the tests as it comes; nil for none
	module  string        // the module's path
	work    string        // folder for this run's files
	arch    string        // the architecture to build for, "" for this machine's
	siw     bool          // the VM has devices of siw
	write   *sync.Mutex   // held by a tier that writes to work or .build/bin
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	r := &runner{out: stdout, note: stdout, write: new(sync.Mutex)}
	f := flag.NewFlagSet("tiers", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&r.run, "run", "", "run only tests whose name matches this `regexp`")
	f.StringVar(&r.pkg, "pkg", "", "only this `package` (./ibv) or subtree (./internal/...)")
	f.BoolVar(&r.figures, "figures", false, "run the figure tests and print their lines")
	f.BoolVar(&r.ratios, "ratios", false, "rxe, emu: compare with the stock tools and print the ratios")
	f.Func("only", "emu: all tests with other releases' `libraries`, or with the native control path (native), and no "+
		"others", r.setOnly)
	table := f.Bool("table", false, "write what tier emu saw with each release's libraries to "+tableFile)
	f.DurationVar(&r.quiet, "quiet", 5*time.Minute, "end a test binary that prints nothing for so long")
	f.DurationVar(&r.timeout, "timeout", 2*time.Hour, "end the tests of one package after so long, whatever they print")
	f.Func("e", "rxe: set `NAME=VALUE` in the VM", func(s string) error { r.env = append(r.env, s); return nil })
	verbose := f.Bool("v", false, "print the tests' output as it comes")
	list := f.String("allow", "test/allowed-skips", "`file` that lists the skips allowed")
	setup := f.Bool("setup", false, "install what is missing, with scripts/setup, while tier lint compiles")
	if err := f.Parse(args); err != nil {
		return 2
	}
	if *verbose {
		r.live = stdout
	}
	known := map[string]tier{
		"lint": r.lint, "unit": r.unit, "race": r.race, "releases": r.releases,
		"arm64": r.arm64, "bench": r.bench, "emu": r.emu, "hw": r.hw, "rxe": r.rxe, "rxe-arm64": r.rxeARM64,
		"siw": r.iwarp,
	}
	plan := f.Args()
	tiers := tiersOf(plan)
	for _, t := range tiers {
		if known[t] == nil {
			fmt.Fprintf(stderr, "tiers: unknown tier %q: the tiers are lint, unit, race, releases, arm64, bench, "+
				"emu, hw, rxe, rxe-arm64, siw\n", t)
			return 2
		}
	}
	if len(tiers) == 0 {
		f.Usage()
		return 2
	}
	root, module, err := moduleRoot()
	if err == nil {
		r.root, r.module = root, module
		r.work, err = workFolder(root)
	}
	if err != nil {
		fmt.Fprintln(stderr, "tiers:", err)
		return 2
	}
	defer os.RemoveAll(r.work)
	skips, err := readAllowed(filepath.Join(root, *list))
	if err != nil {
		fmt.Fprintln(stderr, "tiers:", err)
		return 2
	}

	start := time.Now()
	if *setup {
		known = r.withSetup(ctx, known)
	}
	results, took := runTiers(ctx, r.note, plan, known)
	ok := report(stdout, tiers, results, skips, took)
	var phases []phase
	if *setup {
		phases = readPhases(root)
	}
	printUsage(stdout, tiers, took, phases, time.Since(start))
	if ctx.Err() == nil {
		ok = r.support(stdout, tiers, results) && ok
	}
	if *table {
		if err := r.writeTable(ctx, results); err != nil {
			fmt.Fprintln(stderr, "tiers:", err)
			ok = false
		}
	}
	fmt.Fprintf(stdout, "\n%s", sums(results))
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "tiers: interrupted: the sums are those of what ran until then")
		return 130
	}
	if !ok {
		return 1
	}
	return 0
}

func (r *runner) setOnly(s string) error {
	if s != onlyLibraries && s != nativeVariant {
		return fmt.Errorf("want %s or %s", onlyLibraries, nativeVariant)
	}
	r.only = s
	return nil
}

// runTiers runs one tier after another until ctx ends, even if some fail, and returns where the time of each went. An
// element A,B+C runs C while A and then B run.
func runTiers(ctx context.Context, note io.Writer, plan []string, known map[string]tier) ([]Result, map[string]*usage) {
	var mu sync.Mutex
	var results []Result
	took := map[string]*usage{}
	one := func(t string) {
		fmt.Fprintf(note, "== tier %s\n", t)
		start, u := time.Now(), new(usage)
		res, err := known[t](withUsage(ctx, u))
		u.wall = time.Since(start)
		if err != nil {
			res = append(res, Result{t, "tiers", t, Fail, err.Error() + "\n"})
		}
		mu.Lock()
		defer mu.Unlock()
		results = append(results, res...)
		took[t] = u
	}
	for _, group := range plan {
		var wg sync.WaitGroup
		for lane := range strings.SplitSeq(group, "+") {
			wg.Go(func() {
				for t := range strings.SplitSeq(lane, ",") {
					if ctx.Err() != nil {
						return
					}
					one(t)
				}
			})
		}
		wg.Wait()
	}
	return results, took
}

// tiersOf returns the tiers of a plan.
func tiersOf(plan []string) []string {
	return strings.FieldsFunc(strings.Join(plan, ","), func(r rune) bool { return r == ',' || r == '+' })
}

// moduleRoot returns the folder and the path of the module.
func moduleRoot() (string, string, error) {
	out, err := exec.Command("go", "list", "-m", "-f={{.Dir}} {{.Path}}").Output()
	if err != nil {
		return "", "", fmt.Errorf("go list -m: %w", err)
	}
	line := strings.TrimSpace(string(out))
	at := strings.LastIndexByte(line, ' ')
	if at <= 0 {
		return "", "", errors.New("not inside the module: run it in the repository")
	}
	return line[:at], line[at+1:], nil
}

// workFolder makes a folder below .build, on whose file system test binaries can be linked to.
func workFolder(root string) (string, error) {
	if err := os.MkdirAll(filepath.Join(root, ".build"), 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(filepath.Join(root, ".build"), "tiers-")
}

// withSetup starts scripts/setup and returns the tiers, such that each begins when what it needs is there: lint needs
// the Go modules and the tools, the others Debian's packages, too.
func (r *runner) withSetup(ctx context.Context, known map[string]tier) map[string]tier {
	_ = os.Remove(filepath.Join(r.root, setupTimes))
	start := func(what string) (wait func() error) {
		done := make(chan error, 1)
		go func() { done <- r.command(ctx, "scripts/setup", what).Run() }()
		return sync.OnceValue(func() error { return <-done })
	}
	system, tools := start("system"), start("go")
	go r.toolchains(ctx)
	ready := map[string]tier{}
	for name, run := range known {
		ready[name] = func(ctx context.Context) ([]Result, error) {
			err := tools()
			if name != "lint" {
				err = errors.Join(err, system())
			}
			if err != nil {
				return nil, fmt.Errorf("scripts/setup: %w", err)
			}
			return run(ctx)
		}
	}
	return ready
}

var figureLine = regexp.MustCompile(`(?m)(?:^|: )(figure \S+ \S+.*?)\r?$`)

func printFigures(w io.Writer, output []byte) {
	for _, m := range figureLine.FindAllSubmatch(bytes.ReplaceAll(output, []byte{0x16}, nil), -1) {
		fmt.Fprintf(w, "%s\n", m[1])
	}
}
