//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestUsage_Table(t *testing.T) {
	var b strings.Builder
	used := map[string]*usage{"lint": {wall: 10 * time.Second, download: 2 * time.Second},
		"unit": {wall: 20 * time.Second, run: 5 * time.Second}}
	used["lint"].cpu.Add(int64(3 * time.Second))
	used["unit"].cpu.Add(int64(9 * time.Second))
	printUsage(&b, []string{"lint", "unit", "emu"}, used, []phase{{"apt", 5, 45.2}, {"tools", 0, 0.3}}, 35*time.Second)
	var have []string
	for _, line := range strings.Split(strings.TrimSpace(b.String()), "\n")[1:] {
		line, _, _ = strings.Cut(line, "%")
		have = append(have, strings.Join(strings.Fields(line)[:4], " "))
	}
	want := []string{"set-up: apt 40 40", "tier lint 10 2", "tier unit 20 0", "all 35 2 7"}
	if strings.Join(have, "\n") != strings.Join(want, "\n") {
		t.Errorf("have %q, want %q in\n%s", have, want, b.String())
	}
}

// TestUsage_Run lets watch run a program that computes, and reads how much.
func TestUsage_Run(t *testing.T) {
	file := filepath.Join(t.TempDir(), "usage")
	const busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
	for range 2 {
		args := []string{"-usage", file, "1h", "sh", "-c", "sh -c '" + busy + "'; true"}
		if code := watch(args, &strings.Builder{}); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
	c := exec.Command("sh", "-c", busy)
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	// Twice the same work, in a process below: the same order of magnitude, on whatever machine.
	if one, two := cpu(c), ranFor(file); two < one/3 || two > 20*one {
		t.Errorf("%v, and %v for twice the work", one, two)
	}
	if d := ranFor(filepath.Join(t.TempDir(), "none")); d != 0 {
		t.Errorf("%v of no file", d)
	}
}

func TestPhases(t *testing.T) {
	root := t.TempDir()
	if err := exec.Command("mkdir", filepath.Join(root, ".build")).Run(); err != nil {
		t.Fatal(err)
	}
	const times = "later 100.0 101.5\nno time\nearlier 40.25 100\n"
	if err := os.WriteFile(filepath.Join(root, setupTimes), []byte(times), 0o600); err != nil {
		t.Fatal(err)
	}
	list := readPhases(root)
	if len(list) != 2 || list[0].name != "earlier" || list[0].end-list[0].begin < 59 {
		t.Errorf("%v", list)
	}
}
