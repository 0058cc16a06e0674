//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Status is the outcome of a test, as an event names it.
type Status string

// The outcomes of a test.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip"
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

// sums is how many results have each status.
type sums map[Status]int

func counts(results []Result) sums {
	n := sums{}
	for _, r := range results {
		n[r.Status]++
	}
	return n
}

// String is the text of a line of counts. A run ends with that of all tiers, which tools that start it look for.
func (n sums) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", n[Pass], n[Fail], n[Skip])
}

// usage is what a tier takes. cpu is processor time of its commands and everything below them, in nanoseconds.
type usage struct {
	cpu  atomic.Int64
	wall time.Duration
}

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      Status // one of these, or another
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
	variant string    // comes before the package, "" for none
	live    io.Writer // gets every line of output, nil for none
	note    io.Writer // gets a line for each package that ends
	rest    []byte    // of a line that has not ended
	results []Result
	open    map[string]*openPackage
	builds  map[string]string // output of failing builds, by import path
}

// openPackage is a package whose tests run. It has what each test that has not ended has printed, and at "" what the
// package has, and tests that have ended.
type openPackage struct {
	output map[string][]byte
	count  sums
}

func newParser(tier, variant string, live, note io.Writer) *parser {
	return &parser{tier: tier, variant: variant, live: live, note: note, open: map[string]*openPackage{},
		builds: map[string]string{}}
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
	frameLine  = regexp.MustCompile(`(?m)^\s*(?:===|---) .*`)         // of package testing, about a test
	message    = regexp.MustCompile(`(?m)^\s*\w+_test\.go:\d+: .*\n`) // a line that a test has logged, which says where
)

// word is how the line of a package or check begins, depending on whether it has passed.
var word = map[bool]string{true: "ok  ", false: "FAIL"}

func (p *parser) event(e event) {
	if e.Package == "" {
		p.builds[e.ImportPath] += e.Output
		return
	}
	e.Package = strings.TrimSpace(p.variant + " " + e.Package)
	k := p.open[e.Package]
	if e.Action == "start" { // once more in a VM that was booted again
		p.results = slices.DeleteFunc(p.results, func(r Result) bool { return r.Package == e.Package })
		k = nil
	}
	if k == nil {
		k = &openPackage{map[string][]byte{"": nil}, sums{}}
		p.open[e.Package] = k
	}
	switch e.Action {
	case "run":
		k.output[e.Test] = nil
	case "output":
		if p.live != nil {
			fmt.Fprint(p.live, e.Output)
		}
		of := e.Test
		if _, runs := k.output[of]; !runs {
			of = ""
		}
		k.output[of] = append(k.output[of], e.Output...)
		if benchLine.MatchString(e.Output) {
			p.add(k, e.Package, cmp.Or(e.Test, strings.Fields(e.Output)[0]), Pass, "")
		}
	case Pass, Fail, Skip:
		text := string(k.output[e.Test])
		switch {
		case e.Test == "":
			p.end(k, e)
			return
		case e.Action == Pass && p.live == nil:
			for _, m := range figureLine.FindAllStringSubmatch(text, -1) { // also of what a test prints of hosts
				fmt.Fprintln(p.note, m[1])
			}
		}
		p.add(k, e.Package, e.Test, e.Action, text)
	}
}

func (p *parser) add(k *openPackage, pkg, test string, s Status, output string) {
	if s == Pass {
		output = ""
	}
	p.results = append(p.results, Result{p.tier, pkg, test, s, output})
	delete(k.output, test)
	k.count[s]++
}

// end closes a package. If it failed by a crash, an exit or a limit, the tests that were running have failed. If it
// failed while none was running, for instance in its build, that is a failure of its own.
func (p *parser) end(k *openPackage, e event) {
	delete(p.open, e.Package)
	if e.Action == Fail {
		out := p.builds[e.FailedBuild] + string(k.output[""]) + e.Output
		for _, test := range slices.Sorted(maps.Keys(k.output))[1:] {
			if text := string(k.output[test]); strings.HasPrefix(test, "Benchmark") {
				out += text
			} else {
				p.add(k, e.Package, test, Fail, out+text)
				out = "" // once is enough
			}
		}
		if k.count[Fail] == 0 {
			p.add(k, e.Package, "(package)", Fail, out)
		}
	}
	if len(k.count) > 0 {
		fmt.Fprintf(p.note, "%s %-8s %s: %s (%.1fs)\n", word[k.count[Fail] == 0], p.tier, e.Package, k.count, e.Elapsed)
	}
}

// finish fails the packages that never ended, and returns all results.
func (p *parser) finish() []Result {
	if len(p.rest) > 0 {
		_, _ = p.Write([]byte("\n"))
	}
	for _, pkg := range slices.Sorted(maps.Keys(p.open)) {
		p.end(p.open[pkg], event{Action: Fail, Package: pkg})
	}
	return p.results
}

// readAllowed reads lines `TIER TEST-REGEXP REASON-REGEXP`, where a * in TIER is anything. It returns a regular
// expression for each, of the tier and the test, and below them the output.
func readAllowed(name string) (list []*regexp.Regexp, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		f := strings.SplitN(line, " ", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s:%d: want TIER TEST REASON, have %q", name, i+1, line)
		}
		tier := strings.ReplaceAll(f[0], "*", ".*")
		re, err := regexp.Compile(fmt.Sprintf("^%s (?:%s)\n(?s:.*)(?:%s)", tier, f[1], f[2]))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		list = append(list, re)
	}
	return list, nil
}

// report prints failures, skips that no list allows, a line for each tier, and reports whether everything passed.
func report(w io.Writer, tiers []string, results []Result, allowed []*regexp.Regexp, took map[string]*usage) bool {
	odd, empty := "", false
	for _, r := range results {
		why := func(c Result) bool { // a subtest
			return c.Status == Fail && c.Tier == r.Tier && strings.HasPrefix(c.Name(), r.Name()+"/")
		}
		if r.Status == Fail && (reason(r.Output) != "" || !slices.ContainsFunc(results, why)) {
			fmt.Fprintf(w, "\n--- FAIL: tier %s: %s\n%s", r.Tier, r.Name(), indent(r.Output))
		}
		matches := func(a *regexp.Regexp) bool { return a.MatchString(r.Tier + " " + r.Test + "\n" + r.Output) }
		if r.Status == Skip && !slices.ContainsFunc(allowed, matches) {
			odd += fmt.Sprintf("  tier %s: %s: %s\n", r.Tier, r.Name(), reason(r.Output))
		}
	}
	if odd != "" {
		fmt.Fprintf(w, "\nskips that test/allowed-skips does not list:\n%s", odd)
	}
	fmt.Fprintln(w)
	for _, t := range tiers {
		if took[t] == nil {
			fmt.Fprintf(w, "tier %s: not run\n", t)
			continue
		}
		n := counts(slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Tier != t }))
		fmt.Fprintf(w, "tier %s: %s (%.0f s)\n", t, n, took[t].wall.Seconds())
		empty = empty || n[Pass]+n[Fail] == 0
	}
	if empty {
		fmt.Fprintln(w, "a tier ran no test: that is a failure")
	}
	return counts(results)[Fail] == 0 && odd == "" && !empty
}

// reason returns what a test has printed, on one line.
func reason(output string) string {
	return strings.Join(strings.Fields(frameLine.ReplaceAllString(output, "")), " ")
}

// indent returns the output of a test: its ends if it is long, and of what lies between the test's messages.
func indent(s string) string {
	const most = 16 << 10
	if len(s) > most {
		between := strings.Join(message.FindAllString(s[most/2:len(s)-most/2], most/256), "")
		s = s[:most/2] + "\n[...]\n" + between + "[...]\n" + s[len(s)-most/2:]
	}
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ") + "\n"
}
