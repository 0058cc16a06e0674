package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
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

// parser converts the events of any number of packages to results.
type parser struct {
	tier    string
	live    io.Writer // gets every line of output, nil for none
	note    io.Writer // gets a line for each package that ends
	results []Result
	open    map[string]*openPackage
	builds  map[string]*strings.Builder // output of failing builds, by import path
}

type openPackage struct {
	tests               map[string]*strings.Builder
	running             map[string]bool
	output              strings.Builder
	passed, failed, all int
}

func newParser(tier string, live, note io.Writer) *parser {
	return &parser{
		tier: tier, live: live, note: note,
		open: map[string]*openPackage{}, builds: map[string]*strings.Builder{},
	}
}

// read consumes a stream of events. Lines that are not events come from the go command itself.
func (p *parser) read(r io.Reader) error {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				fmt.Fprintf(p.note, "%s", line)
			} else {
				p.event(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

var benchLine = regexp.MustCompile(`^Benchmark\S*\s+\d+\s|^\s*\d+\t\s*[\d.]+ ns/op`)

func (p *parser) event(e event) {
	if e.Action == "build-output" {
		b := p.builds[e.ImportPath]
		if b == nil {
			b = new(strings.Builder)
			p.builds[e.ImportPath] = b
		}
		b.WriteString(e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	pkg := p.open[e.Package]
	if pkg == nil {
		pkg = &openPackage{tests: map[string]*strings.Builder{}, running: map[string]bool{}}
		p.open[e.Package] = pkg
	}
	switch {
	case e.Action == "output":
		if p.live != nil {
			fmt.Fprint(p.live, e.Output)
		}
		b := &pkg.output
		if e.Test != "" {
			if b = pkg.tests[e.Test]; b == nil {
				b = new(strings.Builder)
				pkg.tests[e.Test] = b
			}
		}
		b.WriteString(e.Output)
		if benchLine.MatchString(e.Output) {
			p.add(pkg, e.Package, benchName(e), Pass, "")
		}
	case e.Action == "run":
		pkg.tests[e.Test], pkg.running[e.Test] = new(strings.Builder), true
	case e.Test != "" && e.Action == "pass":
		if p.live == nil {
			printFigures(p.note, []byte(pkg.text(e.Test))) // of the hosts that the doctor was tried on, for example
		}
		p.add(pkg, e.Package, e.Test, Pass, "")
	case e.Test != "" && e.Action == "fail":
		p.add(pkg, e.Package, e.Test, Fail, pkg.text(e.Test))
	case e.Test != "" && e.Action == "skip":
		p.add(pkg, e.Package, e.Test, Skip, pkg.text(e.Test))
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
		p.end(e, pkg)
	}
}

func benchName(e event) string {
	if e.Test != "" {
		return e.Test
	}
	return strings.Fields(e.Output)[0]
}

func (k *openPackage) text(test string) string {
	if b := k.tests[test]; b != nil {
		return b.String()
	}
	return ""
}

func (p *parser) add(k *openPackage, pkg, test string, s Status, out string) {
	p.results = append(p.results, Result{p.tier, pkg, test, s, out})
	delete(k.tests, test)
	delete(k.running, test)
	k.all++
	switch s {
	case Pass:
		k.passed++
	case Fail:
		k.failed++
	}
}

// end closes a package. If it failed by a crash, an exit or a limit, the tests that were running have failed. If it
// failed while none was running, for instance in its build, that is a failure of its own.
func (p *parser) end(e event, k *openPackage) {
	if e.Action == "fail" {
		out := k.output.String()
		if b := p.builds[e.FailedBuild]; b != nil {
			out = b.String() + out
		}
		for _, t := range slices.Sorted(maps.Keys(k.tests)) {
			if k.running[t] && !strings.HasPrefix(t, "Benchmark") {
				p.add(k, e.Package, t, Fail, out+k.text(t))
				out = "" // once is enough
			}
		}
		if k.failed == 0 {
			for _, t := range slices.Sorted(maps.Keys(k.tests)) {
				out += k.text(t)
			}
			p.add(k, e.Package, "(package)", Fail, out)
		}
	}
	delete(p.open, e.Package)
	if k.all > 0 {
		word := "ok  "
		if k.failed > 0 {
			word = "FAIL"
		}
		fmt.Fprintf(p.note, "%s %-8s %s: %d passed, %d failed, %d skipped (%.1fs)\n",
			word, p.tier, e.Package, k.passed, k.failed, k.all-k.passed-k.failed, e.Elapsed)
	}
}

// finish fails the packages that never ended, and returns all results.
func (p *parser) finish() []Result {
	for _, pkg := range slices.Sorted(maps.Keys(p.open)) {
		p.end(event{Action: "fail", Package: pkg}, p.open[pkg])
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
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		reason, err := regexp.Compile(strings.TrimSpace(f[2]))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		if _, err := path.Match(f[0], ""); err != nil {
			return nil, fmt.Errorf("%s:%d: %q: %w", name, i+1, f[0], err)
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

// report prints failures, skips that no list allows, a line for each tier and the sum, and reports whether everything
// passed.
func report(w io.Writer, tiers []string, results []Result, list []allowance, took map[string]*usage) bool {
	failed := 0
	count := map[string]*[4]int{}
	var odd []Result
	for _, r := range results {
		if count[r.Tier] == nil {
			count[r.Tier] = new([4]int)
		}
		count[r.Tier][r.Status]++
		if r.Status == Fail {
			failed++
		}
		if r.Status == Fail && !(reason(r.Output) == "" && hasFailedChild(results, r)) {
			fmt.Fprintf(w, "\n--- FAIL: tier %s: %s\n%s", r.Tier, r.Name(), indent(r.Output))
		}
		if r.Status == Skip && !allowed(list, r) {
			odd = append(odd, r)
		}
	}
	if len(odd) > 0 {
		fmt.Fprintf(w, "\nskips that test/allowed-skips does not list:\n")
		for _, r := range odd {
			fmt.Fprintf(w, "  tier %s: %s: %s\n", r.Tier, r.Name(), reason(r.Output))
		}
	}
	fmt.Fprintln(w)
	empty := false
	for _, t := range tiers {
		if _, ran := took[t]; !ran {
			fmt.Fprintf(w, "tier %s: not run\n", t)
			continue
		}
		c := count[t]
		if c == nil {
			c = new([4]int)
		}
		fmt.Fprintf(w, "tier %s: %d passed, %d failed, %d skipped (%.0f s)\n", t, c[Pass], c[Fail], c[Skip],
			took[t].wall.Seconds())
		empty = empty || c[Pass]+c[Fail] == 0
	}
	if empty {
		fmt.Fprintln(w, "a tier ran no test: that is a failure")
	}
	return failed == 0 && len(odd) == 0 && !empty
}

// sums returns the line with which a run ends, which tools that start it look for.
func sums(results []Result) string {
	var n [4]int
	for _, r := range results {
		n[r.Status]++
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped\n", n[Pass], n[Fail], n[Skip])
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
