//go:build linux && (amd64 || arm64)

package preempt

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

const sideEnv = "PUREVERBS_PREEMPT" // the arguments of a side

func TestMain(m *testing.M) {
	if args := os.Getenv(sideEnv); args != "" {
		if err := side(args); err != nil {
			fmt.Fprintln(os.Stderr, "preempt:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// way is one way to run the loop.
type way struct {
	name string
	load string
	how  string   // of the Go loop: "locked"
	env  []string // for it
	c    bool
}

var (
	noAsync = []string{"GODEBUG=asyncpreemptoff=1"}
	ways    = []way{
		{name: "c", load: "alone", c: true},
		{name: "go", load: "alone"},
		{name: "locked", load: "alone", how: "locked"},
		{name: "noasync", load: "alone", env: noAsync},
		{name: "locked_noasync", load: "alone", how: "locked", env: noAsync},

		{name: "c", load: "alloc", c: true},
		{name: "go", load: "alloc"},
		{name: "locked", load: "alloc", how: "locked"},
		{name: "noasync", load: "alloc", env: noAsync},
		{name: "gogc400", load: "alloc", env: []string{"GOGC=400"}},
		{name: "memlimit", load: "alloc", env: []string{"GOGC=off", "GOMEMLIMIT=4GiB"}},
		{name: "locked_memlimit_noasync", load: "alloc", how: "locked", env: append(slices.Clone(noAsync), "GOGC=off",
			"GOMEMLIMIT=4GiB")},

		{name: "c", load: "busy", c: true},
		{name: "go", load: "busy"},
		{name: "locked", load: "busy", how: "locked"},
		// Not with noasync: neighbours that call no function would then never yield a processor.
		{name: "procs", load: "busy", how: "locked", env: []string{"GOMAXPROCS=64"}},
	}
)

func (w *way) run(t *testing.T, seconds, c string) *run {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), sideEnv+"="+seconds+" "+w.load+" "+w.how), w.env...)
	if w.c {
		cmd = exec.CommandContext(t.Context(), c, seconds, w.load)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s, %s: %v\n%s", w.name, w.load, err, stderr.String())
	}
	r, err := parse(string(out))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFigures runs all ways alternately, several times, and prints the best of each.
func TestFigures(t *testing.T) {
	if os.Getenv("PUREVERBS_FIGURES") == "" {
		t.Skip("measures: make bench")
	}
	seconds, rounds := "0.2", 5
	if s := os.Getenv("PUREVERBS_PREEMPT_SECONDS"); s != "" {
		seconds, rounds = s, 15
	}
	c := filepath.Join(t.TempDir(), "loop")
	if out, err := exec.CommandContext(t.Context(), "gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", c,
		"testdata/loop.c", "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	results := make([][]*run, len(ways))
	for range rounds {
		for i := range ways {
			results[i] = append(results[i], ways[i].run(t, seconds, c))
		}
	}
	// The host also takes the processor away, at random, which only adds time. The runtime's part is in every round, so
	// the minimum of the rounds contains it.
	fmt.Printf("%-30s %7s %7s %7s %7s %7s %9s %10s %9s %8s\n", "ns for a turn of 16, best round", "mean", "cpu", "p50",
		"p99", "p99.9", "p99.99", "longest", ">2µs /s", "lost")
	for i, w := range ways {
		least := func(f func(*run) float64) float64 {
			m := f(results[i][0])
			for _, r := range results[i][1:] {
				m = min(m, f(r))
			}
			return m
		}
		q := func(p float64) float64 { return least(func(r *run) float64 { return float64(r.quantile(p)) }) }
		lost, longest := least((*run).lost), least(func(r *run) float64 { return float64(r.longest) })
		cpu := least(func(r *run) float64 { return float64(r.cpu) / float64(r.turns) })
		name := w.load + "_" + w.name
		fmt.Printf("%-30s %7.0f %7.1f %7.0f %7.0f %7.0f %9.0f %10.0f %9.0f %7.3f%%\n", name,
			least(func(r *run) float64 { return float64(r.total) / float64(r.turns) }), cpu,
			q(0.5), q(0.99), q(0.999), q(0.9999), longest, least((*run).slow), 100*lost)
		fmt.Printf("figure preempt_%s_cpu_ns %.1f\nfigure preempt_%s_p9999_ns %.0f\nfigure preempt_%s_longest_us "+
			"%.1f\nfigure preempt_%s_lost_percent %.3f\n", name, cpu, name, q(0.9999), name, longest/1000,
			name, 100*lost)
	}
}

// TestHistogram checks the limits of the buckets.
func TestHistogram(t *testing.T) {
	for v := uint64(0); v < 1<<40; v += v/7 + 1 {
		b := bucket(v)
		if lo, hi := value(b), value(b+1); v < lo || v >= hi || hi-lo > max(1, lo/sub) {
			t.Fatalf("%d is in bucket %d, from %d to %d", v, b, lo, hi)
		}
	}
	r := must(parse("100 50000 30000 50000 10:50 63:49 " + strconv.Itoa(bucket(30000)) + ":1"))(t)
	if a, b := r.quantile(0.4), r.quantile(0.995); a != 10 || b > 30000 || b < 29000 {
		t.Errorf("quantiles %d and %d", a, b)
	}
	if l := r.lost(); l < 0.58 || l > 0.61 {
		t.Errorf("lost %v", l)
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestSide runs the loop for a moment, with each load.
func TestSide(t *testing.T) {
	for _, load := range []string{"alone", "alloc", "busy"} {
		w := way{name: "go", load: load, how: "locked"}
		if r := w.run(t, "0.02", ""); r.turns == 0 || r.total < 20_000_000 || r.quantile(0.5) == 0 {
			t.Errorf("%s: %d turns in %d ns", load, r.turns, r.total)
		}
	}
}
