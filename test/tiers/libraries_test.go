//go:build linux

package main

import (
	"slices"
	"testing"
)

// TestCells checks that each run has a cell, and that runs with different numbers have all that a short run may have.
func TestCells(t *testing.T) {
	all := cells()
	if want := len(table.Libraries) * len(table.Debians) * 2; len(all) != want {
		t.Fatalf("%d cells, want %d", len(all), want)
	}
	name := func(c suite) string { return c.Variant + " " + c.Dirs[0] }
	names := func(list []suite) (out []string) {
		for _, c := range list {
			out = append(out, name(c))
		}
		return out
	}
	seen := map[string]bool{}
	for turn := range uint64(len(all)) {
		some := someCells(turn, shortCost)
		if len(some) == 0 || !slices.Equal(names(some), names(someCells(turn, shortCost))) {
			t.Errorf("turn %d: %v", turn, names(some))
		}
		sum := 0
		for _, c := range some {
			seen[name(c)] = true
			sum += c.Cost
		}
		if sum > shortCost {
			t.Errorf("turn %d: %v cost %d", turn, names(some), sum)
		}
	}
	for _, c := range all {
		if seen[name(c)] != (c.Cost <= shortCost) {
			t.Errorf("%v, which costs %d, runs: %v", name(c), c.Cost, seen[name(c)])
		}
	}
}
