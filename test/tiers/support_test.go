//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const somePage = `
| device | what | limit |
|---|---|---|
| other | table | 5 |

| device | state |
|---|---|
| SoftRoCE | tested |
| mlx5 | tested on both paths |
| Go 1.25 | tested |
| UCX | tested in a full run |
| a NIC | not tested |
`

const someShown = `# The tests.
SoftRoCE:
  - rxe ibv TestA
  - rxe loader TestMany.* >= 2

mlx5:
  - emu ibv Test(A|B)
  - emu direct ibv TestC/.*
Go 1.25: [releases go1.25 ibv TestA]
UCX: [full emu test/emu TestPrograms]
`

func shown(tier, pkg, test string, s Status) Result {
	return Result{tier, pkg, test, s, "    a_test.go:1: no device\n"}
}

// A short run has an eighth of the tests of some packages, which shows less.
func TestUnshown_Share(t *testing.T) {
	for text, short := range map[string]int{"emu direct rdma TestRXE.* >= 17": 2, "emu direct rdma TestRXE.* >= 3": 1,
		"emu direct loader TestRXE.* >= 2": 2} {
		claims := make([]proof, 1)
		if err := yaml.Unmarshal([]byte(text), &claims[0]); err != nil {
			t.Fatal(err)
		}
		p := claims[0]
		results := []Result{shown("emu", "direct "+module+"/"+p.pkg, "TestRXE_Skipped", Skip)}
		for n := range p.least {
			wrong := len(unshown(claims, []string{"emu"}, false, results)) > 0
			if full := unshown(claims, []string{"emu"}, true, results); wrong != (n < short) || len(full) == 0 {
				t.Errorf("%s: with %d tests a short run is wrong: %v, a full one: %v", text, n, wrong, full)
			}
			results = append(results, shown("emu", "direct "+module+"/"+p.pkg, fmt.Sprint("TestRXE_", n), Pass))
		}
		if full := unshown(claims, []string{"emu"}, true, results); len(full) > 0 {
			t.Error(full)
		}
	}
}

func TestUnshown(t *testing.T) {
	claims, err := readClaims(somePage, someShown)
	if err != nil || len(claims) != 6 {
		t.Fatalf("%d tests, %v", len(claims), err)
	}
	const (
		ibv  = "github.com/pureverbs/pureverbs/ibv"
		gone = "Go 1.25: `releases go1.25 ibv TestA` did not run"
	)
	all := []Result{
		shown("rxe", "ibv", "TestA", Pass), shown("rxe", "loader", "TestMany1", Pass),
		shown("rxe", "loader", "TestMany2", Pass),
		shown("rxe", "loader", "TestMany3", Skip), shown("emu", "ops "+ibv, "TestA", Pass),
		shown("emu", "direct "+ibv, "TestB", Pass), shown("emu", "direct "+ibv, "TestC/x", Pass),
		shown("emu", "ops "+ibv, "TestC/x", Skip), shown("releases", "go1.25.14 "+ibv, "TestA", Pass),
		shown("releases", "go1.26.11 "+ibv, "TestA", Skip),
		shown("emu", "github.com/pureverbs/pureverbs/test/emu", "TestPrograms", Skip),
		shown("rxe", "loader", "TestMany1/subtest", Pass), // counts for nothing
	}
	change := func(i int, s Status) []Result {
		changed := append([]Result(nil), all...)
		changed[i].Status = s
		return changed
	}
	without := func(i int) []Result { return append(append([]Result(nil), all[:i]...), all[i+1:]...) }
	tiers := []string{"releases", "emu", "rxe"}
	for _, c := range []struct {
		name    string
		results []Result
		tiers   []string
		full    bool
		want    []string
	}{
		{"all shown", all, tiers, false, nil},
		{"a test skipped", change(0, Skip), tiers, false, []string{"SoftRoCE: `rxe ibv TestA` skipped: ibv.TestA: " +
			"a_test.go:1: no device"}},
		{"a test is gone", without(0), tiers, false, []string{"SoftRoCE: `rxe ibv TestA` did not run"}},
		{"a test failed", change(0, Fail), tiers, false, []string{"SoftRoCE: `rxe ibv TestA` 1 failed"}},
		{"too few", change(1, Skip), tiers, false,
			[]string{"SoftRoCE: `rxe loader TestMany.* >= 2` 1 passed, 2 skipped"}},
		{"one variant skipped", change(4, Skip), tiers, false,
			[]string{"mlx5: `emu ibv Test(A|B)` skipped: ops " + ibv + ".TestA: a_test.go:1: no device"}},
		{"the variant that is named is gone", without(6), tiers, false,
			[]string{"mlx5: `emu direct ibv TestC/.*` did not run"}},
		{"another Go release alone", without(8), tiers, false, []string{gone}},
		{"one tier ran", nil, []string{"releases"}, false, []string{gone}},
		{"no tier of the page", nil, []string{"unit"}, false, nil},
		{"a full run", all, tiers, true, []string{"UCX: `full emu test/emu TestPrograms` skipped: " +
			"github.com/pureverbs/pureverbs/test/emu.TestPrograms: a_test.go:1: no device"}},
	} {
		got := unshown(claims, c.tiers, c.full, c.results)
		for i := range got {
			_, got[i], _ = strings.Cut(got[i], ": ") // the line
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestReadClaims_Bad(t *testing.T) {
	const head = "| what | state |\n|---|---|\n"
	for _, c := range []struct{ page, shown, want string }{
		{"| a | b |\n", "", "no table"},
		{head + "| a | tested |", "a: [vm ibv TestA]", "no tier is named vm"},
		{head + "| a | tested |", "", "with 0 tests"},
		{head + "| a | tested |", "a: [emu TestA]", "want TIER"},
		{head + "| a | tested |", "a: [emu ibv Test(]", "missing closing"},
		{head + "| a | not tested |", "a: [emu b TestA]", "with 1 tests"},
		{head + "| a | tested |", "a: [emu b T >= x]", "want TIER"},
		{head + "| a | tested | x |", "a: [emu b T]", "want what, state"},
		{head + "| a |", "a: [emu b T]", "want what, state"},
		{head + "| a | tested |", "a: [emu b T]\nb: [emu b T]", "has no row \"b\""},
		{head + "| a | tested |", "a: [emu b T]\na: [emu b T]", "already defined"},
		{head + "| a | tested |", "- emu b T", "cannot unmarshal"},
	} {
		if _, err := readClaims(c.page, c.shown); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %q: %v, want %q", c.page, c.shown, err, c.want)
		}
	}
}

// TestSupport looks for the tests of docs/support.md in the sources, so that a wrong name is found without the tier.
func TestSupport(t *testing.T) {
	const root = "../.."
	claims, err := supported(root)
	if os.IsNotExist(err) {
		t.Skip("the sources are not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{root: root}
	if err := r.findTests(); err != nil {
		t.Fatal(err)
	}
	for _, p := range claims {
		names := r.tests[p.pkg]
		if p.pkg == "lint" {
			for _, s := range table.Tiers[p.tier] {
				for _, check := range s.Checks {
					name, _, _ := strings.Cut(check, " ")
					names = append(names, name)
				}
			}
		}
		found := 0
		for _, name := range names {
			if p.top().MatchString(name) {
				found++
			}
		}
		if found < max(1, p.leastTop()) {
			t.Errorf("%s: `%s`: %d such tests in the sources", p.row, p.text, found)
		}
	}
}

// TestSupport_Partial shows that parts of tiers are not held to the page, and that a page that is gone is a failure.
func TestSupport_Partial(t *testing.T) {
	if !(&runner{root: t.TempDir(), run: "TestA"}).support(io.Discard, []string{"unit"}, nil) {
		t.Error("a part of a tier failed")
	}
	root := t.TempDir()
	whole := &runner{root: root}
	if whole.support(io.Discard, []string{"unit"}, nil) {
		t.Error("without a page the run passed")
	}
	for file, text := range map[string]string{supportFile: somePage, shownFile: someShown} {
		file = filepath.Join(root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700),
			os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if whole.support(&out, []string{"releases"}, nil) || !strings.Contains(out.String(), "releases go1.25 ibv TestA") {
		t.Errorf("a tier without its tests passed: %q", &out)
	}
	if !whole.support(io.Discard, []string{"releases"}, []Result{shown("releases", "go1.25.14 ibv", "TestA", Pass)}) {
		t.Error("a tier with its tests failed")
	}
}

// leastTop returns how many test functions a proof needs; how many subtests there are only a run shows.
func (p proof) leastTop() int {
	if strings.Contains(p.test.String(), "/") {
		return 1
	}
	return p.least
}

// top returns the part of a pattern that is about a test function.
func (p proof) top() *regexp.Regexp {
	name, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(p.test.String(), "^("), ")$"), "/")
	return regexp.MustCompile("^(?:" + name + ")$")
}
