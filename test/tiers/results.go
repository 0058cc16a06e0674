//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Status is the outcome of a test.
type Status int

// The outcomes of a test.
const (
	Pass Status = 1
	Fail Status = 2
	Skip Status = 3
)

// Result is one test, subtest or check.
type Result struct {
	Tier    string
	Package string
	Test    string
	Status  Status
	Output  string
}

// Name returns the package and the test, as a list of failures prints them.
func (r Result) Name() string { return r.Package + "." + r.Test }

// counts returns how many results have each status.
func counts(results []Result) (n [4]int) {
	for _, r := range results {
		n[r.Status]++
	}
	return n
}

// usage is what a tier takes. cpu is processor time of its commands and everything below them, in nanoseconds.
type usage struct {
	cpu  atomic.Int64
	wall time.Duration
}

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// parser converts the events of any number of packages, which are written to it, to results.
type parser struct {
	tier    string
	live    io.Writer // gets every line of output, nil for none
	note    io.Writer // gets a line for each package that ends
	rest    []byte    // of a line that has not ended
	results []Result
	open    map[string]*openPackage
	builds  map[string]string // output of failing builds, by import path
}

type openPackage struct {
	running map[string]*strings.Builder // what each test that has not ended has printed
	output  strings.Builder             // of the package, and of tests that have ended
	count   [4]int
}

func newParser(tier string, live, note io.Writer) *parser {
	return &parser{tier: tier, live: live, note: note, open: map[string]*openPackage{}, builds: map[string]string{}}
}

// Write reads a stream of events. Lines that are not events come from the go command itself.
func (p *parser) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	for {
		line, rest, whole := bytes.Cut(p.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		var e event
		if json.Unmarshal(line, &e) != nil || e.Action == "" {
			fmt.Fprintf(p.note, "%s\n", line)
		} else {
			p.event(e)
		}
		p.rest = rest
	}
}

var (
	benchLine  = regexp.MustCompile(`^Benchmark\S*\s+\d+\s|^\s*\d+\t\s*[\d.]+ ns/op`)
	figureLine = regexp.MustCompile(`(?m)(?:^|: )(figure \S+ \S+.*?)\r?$`)
	statuses   = map[string]Status{"pass": Pass, "fail": Fail, "skip": Skip}
)

func printFigures(w io.Writer, output string) {
	for _, m := range figureLine.FindAllStringSubmatch(output, -1) {
		fmt.Fprintln(w, m[1])
	}
}

func (p *parser) event(e event) {
	if e.Action == "build-output" {
		p.builds[e.ImportPath] += e.Output
	}
	if e.Package == "" {
		return
	}
	k := p.open[e.Package]
	if e.Action == "start" { // once more in a VM that was booted again
		p.results = slices.DeleteFunc(p.results, func(r Result) bool { return r.Package == e.Package })
		k = nil
	}
	if k == nil {
		k = &openPackage{running: map[string]*strings.Builder{}}
		p.open[e.Package] = k
	}
	s := statuses[e.Action]
	switch {
	case e.Action == "run":
		k.running[e.Test] = new(strings.Builder)
	case e.Action == "output":
		if p.live != nil {
			fmt.Fprint(p.live, e.Output)
		}
		b := k.running[e.Test]
		if b == nil {
			b = &k.output
		}
		b.WriteString(e.Output)
		if benchLine.MatchString(e.Output) {
			if e.Test == "" {
				e.Test = strings.Fields(e.Output)[0]
			}
			p.add(k, e, Pass, "")
		}
	case s != 0 && e.Test == "":
		p.end(k, e, s)
	case s == Pass:
		if p.live == nil {
			printFigures(p.note, k.text(e.Test)) // also of the hosts that the doctor was tried on, for example
		}
		p.add(k, e, s, "")
	case s != 0:
		p.add(k, e, s, k.text(e.Test))
	}
}

func (k *openPackage) text(test string) string {
	if b := k.running[test]; b != nil {
		return b.String()
	}
	return ""
}

func (p *parser) add(k *openPackage, e event, s Status, out string) {
	p.results = append(p.results, Result{p.tier, e.Package, e.Test, s, out})
	delete(k.running, e.Test)
	k.count[s]++
}

// end closes a package. If it failed by a crash, an exit or a limit, the tests that were running have failed. If it
// failed while none was running, for instance in its build, that is a failure of its own.
func (p *parser) end(k *openPackage, e event, s Status) {
	delete(p.open, e.Package)
	if s == Fail {
		out := p.builds[e.FailedBuild] + k.output.String() + e.Output
		for _, e.Test = range slices.Sorted(maps.Keys(k.running)) {
			if text := k.text(e.Test); strings.HasPrefix(e.Test, "Benchmark") {
				out += text
			} else {
				p.add(k, e, Fail, out+text)
				out = "" // once is enough
			}
		}
		if k.count[Fail] == 0 {
			e.Test = "(package)"
			p.add(k, e, Fail, out)
		}
	}
	if k.count != [4]int{} {
		word := "ok  "
		if k.count[Fail] > 0 {
			word = "FAIL"
		}
		fmt.Fprintf(p.note, "%s %-8s %s: %s (%.1fs)\n", word, p.tier, e.Package, sums(k.count), e.Elapsed)
	}
}

// finish fails the packages that never ended, and returns all results.
func (p *parser) finish() []Result {
	if len(p.rest) > 0 {
		_, _ = p.Write([]byte("\n"))
	}
	for _, pkg := range slices.Sorted(maps.Keys(p.open)) {
		p.end(p.open[pkg], event{Package: pkg}, Fail)
	}
	return p.results
}

// allowance is one line of the list of allowed skips.
type allowance struct {
	tier         string
	test, reason *regexp.Regexp
}

// readAllowed reads lines `TIER TEST-REGEXP REASON-REGEXP`. TIER is a pattern of path.Match.
func readAllowed(name string) ([]allowance, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out []allowance
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.SplitN(line, " ", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s:%d: want TIER TEST REASON, have %q", name, i+1, line)
		}
		test, err := regexp.Compile("^(" + f[1] + ")$")
		reason, err2 := regexp.Compile(strings.TrimSpace(f[2]))
		_, err3 := path.Match(f[0], "")
		if err := errors.Join(err, err2, err3); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		out = append(out, allowance{f[0], test, reason})
	}
	return out, nil
}

func allowed(list []allowance, r Result) bool {
	return slices.ContainsFunc(list, func(a allowance) bool {
		tier, _ := path.Match(a.tier, r.Tier)
		return tier && a.test.MatchString(r.Test) && a.reason.MatchString(r.Output)
	})
}

// report prints failures, skips that no list allows, a line for each tier, and reports whether everything passed.
func report(w io.Writer, tiers []string, results []Result, list []allowance, took map[string]*usage) bool {
	byTier := map[string][]Result{}
	var odd []string
	for _, r := range results {
		byTier[r.Tier] = append(byTier[r.Tier], r)
		if r.Status == Fail && !(reason(r.Output) == "" && hasFailedChild(results, r)) {
			fmt.Fprintf(w, "\n--- FAIL: tier %s: %s\n%s", r.Tier, r.Name(), indent(r.Output))
		}
		if r.Status == Skip && !allowed(list, r) {
			odd = append(odd, fmt.Sprintf("  tier %s: %s: %s\n", r.Tier, r.Name(), reason(r.Output)))
		}
	}
	if len(odd) > 0 {
		fmt.Fprintf(w, "\nskips that test/allowed-skips does not list:\n%s", strings.Join(odd, ""))
	}
	fmt.Fprintln(w)
	empty := false
	for _, t := range tiers {
		if took[t] == nil {
			fmt.Fprintf(w, "tier %s: not run\n", t)
			continue
		}
		n := counts(byTier[t])
		fmt.Fprintf(w, "tier %s: %s (%.0f s)\n", t, sums(n), took[t].wall.Seconds())
		empty = empty || n[Pass]+n[Fail] == 0
	}
	if empty {
		fmt.Fprintln(w, "a tier ran no test: that is a failure")
	}
	return counts(results)[Fail] == 0 && len(odd) == 0 && !empty
}

// sums is the text of a line of counts. A run ends with that of all tiers, which tools that start it look for.
func sums(n [4]int) string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", n[Pass], n[Fail], n[Skip])
}

// hasFailedChild reports whether a subtest of r also failed, which then says why.
func hasFailedChild(results []Result, r Result) bool {
	return slices.ContainsFunc(results, func(c Result) bool {
		return c.Status == Fail && c.Tier == r.Tier && c.Package == r.Package && strings.HasPrefix(c.Test, r.Test+"/")
	})
}

// reason returns the output of a skipped test, on one line.
func reason(output string) string {
	var out []string
	for _, l := range strings.Split(output, "\n") {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "=== ") && !strings.HasPrefix(l, "--- ") {
			out = append(out, l)
		}
	}
	return strings.Join(out, " ")
}

// message is a line that a test has logged, which says where.
var message = regexp.MustCompile(`(?m)^\s*\w+_test\.go:\d+: .*\n`)

// indent returns the output of a test: its ends if it is long, and of what lies between the test's messages.
func indent(s string) string {
	const most = 16 << 10
	if len(s) > most {
		between := strings.Join(message.FindAllString(s[most/2:len(s)-most/2], most/256), "")
		s = s[:most/2] + "\n[...]\n" + between + "[...]\n" + s[len(s)-most/2:]
	}
	s = strings.TrimRight(s, "\n")
	if s == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(s, "\n", "\n    ") + "\n"
}
