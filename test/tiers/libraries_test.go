//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCells checks that each run has a cell, and that runs with different numbers have all that a short run may have.
func TestCells(t *testing.T) {
	all := cells()
	if want := len(table.Libraries) * len(table.Debians) * 2; len(all) != want {
		t.Fatalf("%d cells, want %d", len(all), want)
	}
	seen := map[cell]bool{}
	for turn := range uint64(len(all)) {
		some := someCells(turn, shortCost)
		if len(some) == 0 || !slices.Equal(some, someCells(turn, shortCost)) {
			t.Errorf("turn %d: %v", turn, some)
		}
		sum := 0
		for _, c := range some {
			seen[c] = true
			sum += c.Cost
		}
		if sum > shortCost {
			t.Errorf("turn %d: %v cost %d", turn, some, sum)
		}
	}
	for _, c := range all {
		if seen[c] != (c.Cost <= shortCost) {
			t.Errorf("%v, which costs %d, runs: %v", c, c.Cost, seen[c])
		}
	}
}

// TestTable_Interrupted has the results of a run that was interrupted: the table stays as it was. Those of one that was
// not replace it.
func TestTable_Interrupted(t *testing.T) {
	r := &runner{root: t.TempDir(), note: io.Discard, use: new(usage)}
	file := filepath.Join(r.root, tableFile)
	git := func(args ...string) {
		c := exec.Command("git", args...)
		c.Dir = r.root
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "first")
	old := "\n| `ibv` | " + r.version("bookworm") + " (bookworm) | 7, 0, 0 | 7, 0, 0 | c1 |\n\n"
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(old), 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	results := []Result{{Tier: "emu", Package: "ops " + module + "/ibv", Test: "TestRXE_X", Status: Pass}}
	page := func() string {
		t.Helper()
		if err := r.writeTable(ctx, results); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	cancel()
	if got := page(); got != old {
		t.Errorf("interrupted:\n%s", got)
	}
	ctx = t.Context()
	if got := page(); got == old || !strings.Contains(got, "| `ibv` |") {
		t.Errorf("not interrupted:\n%s", got)
	}
}

// TestTable writes the table twice: a run changes its own cells alone.
func TestTable(t *testing.T) {
	version := func(release string) string {
		return map[string]string{"bookworm": "v44", "trixie": "v56", "sid": "v66"}[release]
	}
	of := func(pkg string, s ...Status) (list []Result) {
		for _, s := range s {
			list = append(list, Result{Tier: "emu", Package: pkg, Test: "TestRXE_X", Status: s})
		}
		return append(list, Result{Tier: "emu", Package: pkg, Test: "(run)", Status: Fail})
	}
	page := "above\n| `ibv` | v44 (bookworm) | not run | not run | - |\n" +
		"| `rdma` | v65 (sid) | 5, 0, 0 | 5, 0, 0 | c0 |\n| `rdma` | v56 (trixie) | 4, 0, 0 | 4, 0, 0 | c0 |\nbelow\n"
	page = updateTable(page, append(of("ops "+module+"/ibv", Pass, Pass, Skip),
		of("sid-direct "+module+"/rdma", Fail)...), version, "c1")
	page = updateTable(page, append(of("direct "+module+"/ibv", Pass),
		of("native "+module+"/ibv", Fail)...), version, "c2")
	want := "above\n| `ibv` | v44 (bookworm) | 2, 0, 1 | 1, 0, 0 | c2 |\n" +
		"| `rdma` | v66 (sid) | not run | 0, 1, 0 | c1 |\n| `rdma` | v56 (trixie) | 4, 0, 0 | 4, 0, 0 | c0 |\nbelow\n"
	if page != want {
		t.Errorf("got\n%s, want\n%s", page, want)
	}
}

// TestTable_Complete checks that the file has a row for each package and release.
func TestTable_Complete(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("../..", tableFile))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, m := range tableLine.FindAllStringSubmatch(string(page), -1) {
		rows[m[1]+" "+m[3]]++
	}
	for _, p := range table.Libraries {
		for _, release := range append([]string{"bookworm"}, table.Debians...) {
			if rows[p.Dir+" "+release] != 1 {
				t.Errorf("%s: %d rows of %s with %s, want 1", tableFile, rows[p.Dir+" "+release], p.Dir, release)
			}
		}
	}
	if want := len(table.Libraries) * (1 + len(table.Debians)); len(rows) != want {
		t.Errorf("%s: %d rows, want %d", tableFile, len(rows), want)
	}
}
