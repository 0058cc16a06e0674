//go:build linux

package main

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestUsage_Table(t *testing.T) {
	var b strings.Builder
	used := map[string]*usage{"lint": {wall: 10 * time.Second}, "unit": {wall: 20 * time.Second}}
	used["lint"].cpu.Add(int64(3 * time.Second))
	used["unit"].cpu.Add(int64(9 * time.Second))
	printUsage(&b, []string{"lint", "unit", "emu"}, used, "apt 40\nno time\ntools 0\n", 35*time.Second)
	var have []string
	for _, line := range strings.Split(strings.TrimSpace(b.String()), "\n")[1:] {
		line, _, _ = strings.Cut(line, "%")
		f := strings.Fields(line)
		have = append(have, strings.Join(f[:min(len(f), 4)], " "))
	}
	want := []string{"set-up: apt 40", "tier lint 10 3", "tier unit 20 9",
		fmt.Sprint("all 35 12 ", 1200/35/runtime.NumCPU())}
	if strings.Join(have, "\n") != strings.Join(want, "\n") {
		t.Errorf("have %q, want %q in\n%s", have, want, b.String())
	}
}
