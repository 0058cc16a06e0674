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
	if want := len(onLibraries) * len(debians) * 2; len(all) != want {
		t.Fatalf("%d cells, want %d", len(all), want)
	}
	seen, cost := map[cell]bool{}, map[string]int{}
	for _, p := range onLibraries {
		cost[p.dir] = p.cost
	}
	for turn := range uint64(len(all)) {
		some := someCells(turn, shortCost)
		if len(some) == 0 || !slices.Equal(some, someCells(turn, shortCost)) {
			t.Errorf("turn %d: %v", turn, some)
		}
		sum := 0
		for _, c := range some {
			seen[c] = true
			sum += cost[c.dir]
		}
		if sum > shortCost {
			t.Errorf("turn %d: %v cost %d", turn, some, sum)
		}
	}
	for _, c := range all {
		if seen[c] != (cost[c.dir] <= shortCost) {
			t.Errorf("%v, which costs %d, runs: %v", c, cost[c.dir], seen[c])
		}
	}
}

// TestTable_Interrupted has the results of a run that was interrupted: the table stays as it was. Those of one that was
// not replace it.
func TestTable_Interrupted(t *testing.T) {
	r := &runner{root: t.TempDir(), note: io.Discard}
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
	const old = tableBegin + "\n\n| `ibv` | v44 (bookworm) | 7, 0, 0 | 7, 0, 0 | c1 |\n\n" + tableEnd + "\n"
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(old), 0o600)); err != nil {
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
	versions := map[string]string{"bookworm": "v44 (bookworm)", "bullseye": "v33 (bullseye)",
		"trixie": "v56 (trixie)", "sid": "v65 (sid)"}
	of := func(pkg string, s ...Status) (list []Result) {
		for _, s := range s {
			list = append(list, Result{Tier: "emu", Package: pkg, Test: "TestRXE_X", Status: s})
		}
		return list
	}
	page, err := updateTable("above\n"+tableBegin+"\n"+tableEnd+"\nbelow\n",
		append(of("ops "+module+"/ibv", Pass, Pass, Skip), of("sid-direct "+module+"/rdma", Fail)...), versions, "c1")
	if err != nil {
		t.Fatal(err)
	}
	page, err = updateTable(page, of("direct "+module+"/ibv", Pass), versions, "c2")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"above\n", "\nbelow\n", "| `ibv` | v44 (bookworm) | 2, 0, 1 | 1, 0, 0 | c2 |\n",
		"| `rdma` | v65 (sid) | not run | 0, 1, 0 | c1 |\n",
		"| `rdma` | v56 (trixie) | not run | not run | - |\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if n := strings.Count(page, "\n| `"); n != 4*len(onLibraries) {
		t.Errorf("%d rows", n)
	}
	if _, err := updateTable("nothing", nil, versions, "c"); err == nil {
		t.Error("a page without the lines is accepted")
	}
}
