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

// supportFile says what is supported. Its tables name tests, which have to have run.
const supportFile = "docs/support.md"

// claim is a row of a table whose last column is "shown by".
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

var (
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	proofText = regexp.MustCompile(`^(full )?(\S+) (?:(\S+) )?(\S+) (\S+)(?: >= ([1-9]\d*))?$`)
)

// readClaims returns the claims of a page. A row's second column begins with its state: "tested" has to name tests, and
// "not tested" must not.
func readClaims(page string) (claims []claim, err error) {
	in := false
	for i, line := range strings.Split(page, "\n") {
		cells, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !ok {
			in = false
			continue
		}
		// An escaped bar separates no cells.
		row := strings.Split(strings.ReplaceAll(strings.TrimSuffix(cells, "|"), `\|`, "\x00"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(strings.ReplaceAll(row[i], "\x00", "|"))
		}
		last := row[len(row)-1]
		switch {
		case last == "shown by":
			in = true
			continue
		case !in || last != "" && strings.Trim(last, "-:") == "":
			continue
		case len(row) < 3:
			return nil, fmt.Errorf("%s:%d: want what, state, tests", supportFile, i+1)
		}
		c := claim{line: i + 1, what: row[0]}
		for _, m := range codeSpan.FindAllStringSubmatch(last, -1) {
			p, err := readProof(m[1])
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", supportFile, i+1, err)
			}
			c.shown = append(c.shown, p)
		}
		if tested := !strings.HasPrefix(row[1], "not tested"); tested != (len(c.shown) > 0) {
			return nil, fmt.Errorf("%s:%d: %q with %d tests", supportFile, i+1, row[1], len(c.shown))
		}
		claims = append(claims, c)
	}
	if len(claims) == 0 {
		return nil, fmt.Errorf("%s: no table with a column %q", supportFile, "shown by")
	}
	return claims, nil
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
	var claims []claim
	page, err := os.ReadFile(filepath.Join(r.root, supportFile))
	if err == nil {
		claims, err = readClaims(string(page))
	}
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
