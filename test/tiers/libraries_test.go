package main

import (
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
