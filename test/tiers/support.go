//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"go.yaml.in/yaml/v3"
)

// supportFile says what is supported, and shownFile which tests show it. These have to have run.
const (
	supportFile = "docs/support.md"
	shownFile   = "test/tiers/support.yaml"
)

// proof names tests of a tier: "[full] TIER [VARIANT] PACKAGE TEST [>= N]". PACKAGE is a folder, TEST a regular
// expression for the whole name, which without a slash is that of no subtest. VARIANT is what the tier puts before the
// package, such as a data path or a Go release; without it the tests have to pass in each variant. With >= N so many
// have to pass, and others may skip; otherwise none may.
type proof struct {
	row, text     string // of supportFile, and of shownFile
	full          bool   // "full TIER …": only in a full run
	tier, variant string
	pkg           string
	test          *regexp.Regexp
	least         int
}

var proofText = regexp.MustCompile(`^(full )?(\S+) (?:(\S+) )?(\S+) (\S+)(?: >= ([1-9]\d*))?$`)

// readClaims returns the tests that shown has for the rows of a page's tables whose second column is "state". A row's
// second column begins with its state: "not tested" must have no tests, and any other must have some.
func readClaims(page, shown string) (claims []proof, err error) {
	tests := map[string][]proof{}
	if err := yaml.Unmarshal([]byte(shown), &tests); err != nil {
		return nil, fmt.Errorf("%s: %w", shownFile, err)
	}
	in := false
	for i, line := range strings.Split(page, "\n") {
		what, state, columns := strings.Cut(strings.Trim(line, "| "), " | ")
		in = in && strings.HasPrefix(line, "|")
		switch {
		case state == "state":
			in = true
			continue
		case !in || strings.Trim(line, "|-: ") == "":
			continue
		case !columns || strings.Contains(state, " | "):
			return nil, fmt.Errorf("%s:%d: want what, state", supportFile, i+1)
		}
		if tested := !strings.HasPrefix(state, "not tested"); tested != (len(tests[what]) > 0) {
			return nil, fmt.Errorf("%s:%d: %q with %d tests", supportFile, i+1, state, len(tests[what]))
		}
		for _, p := range tests[what] {
			p.row = fmt.Sprintf("%s:%d: %s", supportFile, i+1, what)
			claims = append(claims, p)
		}
		delete(tests, what)
	}
	for what := range tests {
		return nil, fmt.Errorf("%s: %s has no row %q", shownFile, supportFile, what)
	}
	if len(claims) == 0 {
		return nil, fmt.Errorf("%s: no table with a column %q", supportFile, "state")
	}
	return claims, nil
}

// UnmarshalText reads a proof.
func (p *proof) UnmarshalText(text []byte) (err error) {
	m := proofText.FindStringSubmatch(string(text))
	if m == nil {
		return fmt.Errorf("%q: want TIER [VARIANT] PACKAGE TEST [>= N]", text)
	}
	*p = proof{text: m[0], full: m[1] != "", tier: m[2], variant: m[3], pkg: m[4]}
	if tiers[p.tier] == nil {
		return fmt.Errorf("%q: no tier is named %s", text, p.tier)
	}
	p.least, _ = strconv.Atoi(m[6])
	p.test, err = regexp.Compile("^(" + m[5] + ")$")
	return err
}

// about reports whether a result is one of the tests that p names.
func (p proof) about(r Result) bool {
	// A variant may have blanks: "-N -l".
	at := strings.LastIndex(r.Package, " ") + 1
	variant, pkg := strings.TrimSuffix(r.Package[:at], " "), strings.TrimPrefix(r.Package[at:], module+"/")
	switch {
	case strings.Contains(r.Test, "/") && !strings.Contains(p.test.String(), "/"):
		return false
	case p.variant != variant && (variant == nativeVariant || variant == nativeRows): // it has fewer verbs
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
func unshown(claims []proof, tiers []string, full bool, results []Result) (wrong []string) {
	for _, p := range claims {
		if slices.Contains(tiers, p.tier) && (full || !p.full) {
			if _, shared := table.Shares[p.pkg]; shared && !full {
				p.least = (p.least + 2*shares - 1) / (2 * shares) // some skip, and not as many in each share
			}
			if w := p.check(results); w != "" {
				wrong = append(wrong, fmt.Sprintf("%s: `%s` %s", p.row, p.text, w))
			}
		}
	}
	return wrong
}

// support holds docs/support.md to the results of whole tiers, and reports whether they show what it says.
func (r *runner) support(w io.Writer, tiers []string, results []Result) bool {
	if r.run != "" || r.pkg != "" || r.only != "" {
		return true // parts of tiers
	}
	claims, err := supported(r.root)
	if err != nil {
		fmt.Fprintln(w, err)
		return false
	}
	wrong := unshown(claims, tiers, os.Getenv(testutil.FullEnv) != "", results)
	if len(wrong) > 0 {
		fmt.Fprintf(w, "\nclaims that no test of this run shows:\n  %s\n", strings.Join(wrong, "\n  "))
	}
	return len(wrong) == 0
}

// supported reads the claims of a repository.
func supported(root string) ([]proof, error) {
	page, err := os.ReadFile(filepath.Join(root, supportFile))
	shown, shownErr := os.ReadFile(filepath.Join(root, shownFile))
	if err := cmp.Or(err, shownErr); err != nil {
		return nil, err
	}
	return readClaims(string(page), string(shown))
}
