//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// supportFile says what is supported, and shownFile which tests show it. These have to have run.
const (
	supportFile = "docs/support.md"
	shownFile   = "test/tiers/support.txt"
)

// claim is a row of a table of supportFile whose second column is "state".
type claim struct {
	line  int
	what  string
	shown []proof
}

// proof names tests of a tier: "[full] TIER [VARIANT] PACKAGE TEST [>= N]". PACKAGE is a folder, TEST a regular
// expression for the whole name, which without a slash is that of no subtest. VARIANT is what the tier puts before the
// package, such as a data path or a Go release; without it the tests have to pass in each variant. With >= N so many
// have to pass, and others may skip; otherwise none may.
type proof struct {
	text          string
	full          bool // "full TIER …": only in a full run
	tier, variant string
	pkg           string
	test          *regexp.Regexp
	least         int
}

var proofText = regexp.MustCompile(`^(full )?(\S+) (?:(\S+) )?(\S+) (\S+)(?: >= ([1-9]\d*))?$`)

// readClaims returns the claims of a page, with the tests that shown has for them. A row's second column begins with
// its state: "not tested" must have no tests, and any other must have some.
func readClaims(page, shown string) (claims []claim, err error) {
	tests, err := readShown(shown)
	if err != nil {
		return nil, err
	}
	in := false
	for i, line := range strings.Split(page, "\n") {
		cells, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !ok {
			in = false
			continue
		}
		row := strings.Split(strings.TrimSuffix(cells, "|"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		switch {
		case len(row) == 2 && row[1] == "state":
			in = true
			continue
		case !in || strings.Trim(row[0], "-:") == "":
			continue
		case len(row) != 2:
			return nil, fmt.Errorf("%s:%d: want what, state", supportFile, i+1)
		}
		c := claim{line: i + 1, what: row[0], shown: tests[row[0]]}
		delete(tests, c.what)
		if tested := !strings.HasPrefix(row[1], "not tested"); tested != (len(c.shown) > 0) {
			return nil, fmt.Errorf("%s:%d: %q with %d tests in %s", supportFile, i+1, row[1], len(c.shown), shownFile)
		}
		claims = append(claims, c)
	}
	for what := range tests {
		return nil, fmt.Errorf("%s: %s has no row %q", shownFile, supportFile, what)
	}
	if len(claims) == 0 {
		return nil, fmt.Errorf("%s: no table with a column %q", supportFile, "state")
	}
	return claims, nil
}

// readShown returns the tests by the row that they show: a line with the row's first cell, and below it an indented
// line for each.
func readShown(text string) (map[string][]proof, error) {
	tests, what := map[string][]proof{}, ""
	for i, line := range strings.Split(text, "\n") {
		test, indented := strings.CutPrefix(line, "\t")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !indented && tests[line] != nil:
			return nil, fmt.Errorf("%s:%d: %q twice", shownFile, i+1, line)
		case !indented:
			what = line
		case what == "":
			return nil, fmt.Errorf("%s:%d: a test without a row", shownFile, i+1)
		default:
			p, err := readProof(test)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", shownFile, i+1, err)
			}
			tests[what] = append(tests[what], p)
		}
	}
	return tests, nil
}

func readProof(text string) (p proof, err error) {
	m := proofText.FindStringSubmatch(text)
	if m == nil {
		return p, fmt.Errorf("%q: want TIER [VARIANT] PACKAGE TEST [>= N]", text)
	}
	p = proof{text: text, full: m[1] != "", tier: m[2], variant: m[3], pkg: m[4]}
	if !slices.Contains(tierNames(), p.tier) {
		return p, fmt.Errorf("%q: no tier is named %s", text, p.tier)
	}
	p.least, _ = strconv.Atoi(m[6])
	p.test, err = regexp.Compile("^(" + m[5] + ")$")
	return p, err
}

// about reports whether a result is one of the tests that p names.
func (p proof) about(r Result) bool {
	variant, pkg := "", r.Package
	if i := strings.LastIndex(pkg, " "); i >= 0 { // a variant may have blanks: "-N -l"
		variant, pkg = pkg[:i], pkg[i+1:]
	}
	pkg = strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	if strings.Contains(r.Test, "/") && !strings.Contains(p.test.String(), "/") {
		return false
	}
	if p.variant != variant && (variant == nativeVariant || variant == nativeRows) { // it has fewer verbs
		return false
	}
	return r.Tier == p.tier && pkg == p.pkg && p.test.MatchString(r.Test) &&
		(p.variant == "" || p.variant == variant || strings.HasPrefix(variant, p.variant+"."))
}

// check returns what is wrong with the tests that p names, "" if they show what is claimed.
func (p proof) check(results []Result) string {
	about := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return !p.about(r) })
	n := counts(about)
	switch {
	case n[Fail] > 0:
		return fmt.Sprintf("%d failed", n[Fail])
	case len(about) == 0:
		return "did not run"
	case n[Pass] < p.least:
		return fmt.Sprintf("%d passed, %d skipped", n[Pass], n[Skip])
	case p.least == 0 && n[Skip] > 0:
		skip := about[slices.IndexFunc(about, func(r Result) bool { return r.Status == Skip })]
		return "skipped: " + skip.Name() + ": " + reason(skip.Output)
	}
	return ""
}

// unshown returns the claims that the results do not show. Of a row only the tests of tiers that ran are checked.
func unshown(claims []claim, tiers []string, full bool, results []Result) (wrong []string) {
	for _, c := range claims {
		for _, p := range c.shown {
			if !slices.Contains(tiers, p.tier) || p.full && !full {
				continue
			}
			if _, third := table.Thirds[p.pkg]; third && !full && p.least > 0 {
				p.least = max(1, p.least/4) // a short run has a third of them
			}
			if w := p.check(results); w != "" {
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s: `%s` %s", supportFile, c.line, c.what, p.text, w))
			}
		}
	}
	return wrong
}

// support holds docs/support.md to the results of whole tiers, and reports whether they show what it says.
func (r *runner) support(w io.Writer, tiers []string, results []Result) bool {
	if r.run != "" || r.pkg != "" || r.figures || r.ratios || r.only != "" {
		return true // parts of tiers
	}
	claims, err := supported(r.root)
	if err != nil {
		fmt.Fprintln(w, err)
		return false
	}
	wrong := unshown(claims, tiers, os.Getenv(fullEnv) != "", results)
	if len(wrong) > 0 {
		fmt.Fprintf(w, "\nclaims that no test of this run shows:\n  %s\n", strings.Join(wrong, "\n  "))
	}
	return len(wrong) == 0
}

// supported reads the claims of a repository.
func supported(root string) ([]claim, error) {
	page, err := os.ReadFile(filepath.Join(root, supportFile))
	if err != nil {
		return nil, err
	}
	shown, err := os.ReadFile(filepath.Join(root, shownFile))
	if err != nil {
		return nil, err
	}
	return readClaims(string(page), string(shown))
}
