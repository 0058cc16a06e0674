//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"go.yaml.in/yaml/v3"
)

// TestApart checks the lists of tests that a short run leaves out in a variant: each pattern is one of a test, and each
// test runs in another variant.
func TestApart(t *testing.T) {
	t.Setenv(testutil.TurnEnv, "")
	r := &runner{root: "../..", tier: "emu"}
	if err := r.findTests(); err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(filepath.Join(r.root, "test/posts/wire/wire_linux_test.go"))
	if err != nil || !strings.Contains(string(src), `"-test.run=^TestRXE_Posts(Raw)?$"`) {
		t.Errorf("test/posts/wire does not run what test/posts leaves out: %v", err)
	}
	// out reports whether a variant leaves out a test, or subtests.
	out := func(s suite, dir, name, sub string) bool {
		return slices.ContainsFunc(s.Apart[dir], func(p string) bool {
			top, of, _ := strings.Cut(p, "/")
			return regexp.MustCompile("^("+top+")$").MatchString(name) && of == sub
		})
	}
	suites, seen := slices.DeleteFunc(r.suites(), func(s suite) bool {
		return s.Cost > 0 || s.Variant == nativeVariant // with other libraries, or with fewer verbs
	}), 0
	for _, s := range suites {
		for dir, patterns := range s.Apart {
			for _, p := range patterns {
				seen++
				top, sub, _ := strings.Cut(p, "/")
				found := 0
				for _, name := range r.tests[dir] {
					if !regexp.MustCompile("^(" + top + ")$").MatchString(name) {
						continue
					}
					found++
					other := slices.ContainsFunc(suites, func(o suite) bool {
						return o.With == s.With && slices.Contains(r.folders(o), dir) && !out(o, dir, name, sub)
					})
					if !other && !strings.HasPrefix(name, "TestRXE_Posts") {
						t.Errorf("%s: %s is left out of all variants", dir, name)
					}
				}
				if found == 0 {
					t.Errorf("%s %s: there is no test %s", dir, s.Variant, p)
				}
			}
			got := r.at(s, dir).Skip
			if strings.Count(got, "$|^")+1 < len(patterns) ||
				!strings.HasPrefix(got, "^TestRXEFigures|^TestRXERatios|^") {
				t.Errorf("%s %s: -skip is %q", dir, s.Variant, got)
			}
			named := &runner{run: "X"}
			if got := named.at(named.fill(s), dir); got.Skip != "^TestRXEFigures|^TestRXERatios" || got.Run != "X" {
				t.Errorf("%s %s: with -run %q is left out", dir, s.Variant, got.Skip)
			}
			if slices.Contains(patterns, "TestRXE_Stalled/700_.*stream") {
				if want := "^TestRXEFigures|^TestRXERatios|^TestRXE_Stalled$/^700_.*stream$"; got != want {
					t.Errorf("-skip is %q, want %q", got, want)
				}
			}
		}
	}
	if seen < 9 {
		t.Errorf("%d patterns", seen)
	}
	t.Setenv(testutil.FullEnv, "1")
	for _, s := range r.suites() {
		if got := r.at(s, "rdma").Skip; strings.Contains(got, "Stalled") {
			t.Errorf("in a full run %q is left out", got)
		}
	}
}

// TestTable_Rows checks that each row names what there is, and each kind of run has its own of a tier.
func TestTable_Rows(t *testing.T) {
	r := &runner{root: "../..", note: t.Output()}
	if err := r.findTests(); err != nil {
		t.Fatal(err)
	}
	dirs := slices.Concat(table.Long, table.Leaking, table.Second)
	for tier, suites := range table.Tiers {
		if tiers[tier] == nil {
			t.Errorf("no tier is named %s", tier)
		}
		for _, s := range suites {
			dirs = slices.Concat(dirs, s.Dirs, s.Not, s.Asked, slices.Collect(maps.Keys(s.Tests)))
			for _, p := range s.Packages {
				dirs = append(dirs, strings.TrimSuffix(strings.TrimPrefix(p, "./"), "/..."))
			}
			if !slices.Contains([]string{"", "full", "short", "figures", "ratios", nativeVariant, "setup"}, s.When) {
				t.Errorf("tier %s: when is %q", tier, s.When)
			}
		}
	}
	for _, d := range dirs {
		if d != "..." && missing(filepath.Join(r.root, d)) {
			t.Errorf("there is no folder %s", d)
		}
	}
	rows := func(own *runner) int {
		return len(slices.DeleteFunc(own.suites(), func(s suite) bool { return s.Cost > 0 }))
	}
	for _, tt := range []struct {
		own         runner
		short, full int
	}{
		{runner{tier: "unit"}, 1, 1}, {runner{tier: "unit", only: "figures"}, 1, 1}, {runner{tier: "race"}, 2, 3},
		{runner{tier: "releases"}, 4, 4}, {runner{tier: "emu"}, 5, 6}, {runner{tier: "emu", only: "ratios"}, 1, 1},
		{runner{tier: "emu", only: nativeVariant}, 1, 1},
		{runner{tier: "rxe"}, 1, 1}, {runner{tier: "rxe-arm64", arch: "arm64"}, 2, 2}, {runner{tier: "lint"}, 5, 10},
	} {
		t.Setenv(testutil.FullEnv, "")
		if n := rows(&tt.own); n != tt.short {
			t.Errorf("%s: %d suites in a short run, want %d", tt.own.tier, n, tt.short)
		}
		t.Setenv(testutil.FullEnv, "1")
		if n := rows(&tt.own); n != tt.full {
			t.Errorf("%s: %d suites in a full run, want %d", tt.own.tier, n, tt.full)
		}
	}
}

// TestShares: a suite has each test of a long package at one of eight commits, and always those that a row of
// docs/support.md names.
func TestShares(t *testing.T) {
	t.Setenv(testutil.FullEnv, "")
	r := &runner{root: "../..", tier: "emu"}
	if err := r.findTests(); err != nil {
		t.Fatal(err)
	}
	shown, err := os.ReadFile(filepath.Join(r.root, shownFile))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]proof{}
	if err := yaml.Unmarshal(shown, &rows); err != nil || len(rows) == 0 {
		t.Fatal(err)
	}
	for dir, always := range table.Shares {
		named := regexp.MustCompile("^(" + always + ")$")
		if always != "" && !slices.ContainsFunc(r.tests[dir], named.MatchString) {
			t.Errorf("%s: there is no test %s", dir, always)
		}
		ran := make(map[string]int)
		for turn := range shares {
			t.Setenv(testutil.TurnEnv, fmt.Sprint(turn))
			skip := regexp.MustCompile(r.at(suite{Share: 2}, dir).Skip)
			for _, name := range r.tests[dir] {
				if !skip.MatchString(name) {
					ran[name]++
				}
			}
		}
		for name, n := range ran {
			want := 1
			if named.MatchString(name) {
				want = shares
			}
			if n != want {
				t.Errorf("%s: %s runs %d times in %d turns, want %d", dir, name, n, shares, want)
			}
			for row, proofs := range rows {
				for _, p := range proofs {
					test := strings.TrimSuffix(strings.TrimPrefix(p.test.String(), "^("), ")$")
					top, _, _ := strings.Cut(test, "/")
					if want == 1 && (p.tier == "emu" || p.tier == "rxe") && !p.full && p.pkg == dir && p.least == 0 &&
						regexp.MustCompile("^("+top+")$").MatchString(name) {
						t.Errorf("%s needs %s of %s", row, name, dir)
					}
				}
			}
		}
		if len(ran) != len(slices.Compact(slices.Sorted(slices.Values(r.tests[dir])))) {
			t.Errorf("%s: %d of %d tests run", dir, len(ran), len(r.tests[dir]))
		}
	}
}
