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
