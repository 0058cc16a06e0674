//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKeep has go test's part played: a test binary outside, which scripts/keep runs in its package's folder.
func TestKeep(t *testing.T) {
	root := t.TempDir()
	work, pkg, script := t.TempDir(), filepath.Join(root, "a", "b"), filepath.Join(root, "scripts", "keep")
	text, err := os.ReadFile("../../scripts/keep")
	if err := errors.Join(err, os.MkdirAll(pkg, 0o755), os.Mkdir(filepath.Dir(script), 0o755),
		os.WriteFile(script, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "b.test")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho ran $1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(pkg)
	var out bytes.Buffer
	code := watch([]string{"1h", script, work, binary, "-x"}, &out)
	if want := "ran -x\n"; code != 0 || out.String() != want {
		t.Errorf("code %d, %q; want 0, %q", code, out.String(), want)
	}
	again, err := exec.Command(filepath.Join(work, "a-b.test"), "kept").Output()
	if err != nil || string(again) != "ran kept\n" {
		t.Errorf("%q, %v", again, err)
	}
	if code := watch([]string{"1h", script, filepath.Join(root, "none"), binary}, &out); code != 2 {
		t.Errorf("into no folder: code %d, want 2", code)
	}
}

// concurrency is in a source that starts goroutines or calls C, and hostTest a test function for this machine.
var (
	concurrency = regexp.MustCompile(`(?m)^\s*go [\w.]+\(|\bgo func\(|\.Go\(func|RunParallel\(|` +
		`pureverbs/internal/(ccall|mmio|ops)"`)
	elsewhere = regexp.MustCompile(`^(TestRXE|TestSIW|TestEmu|TestFigures|TestMain$|Benchmark)`)
)

// seldom lists packages that the race detector sees in a full run only. Each is another program to compile and to link.
// The first six test the tests, the pages and the batch file, and are in no program that uses the library. What the
// others start is a goroutine or two, or in their tests alone. The last three have few tests for a machine without a
// device.
var seldom = []string{
	"test/bed", "test/docs", "test/examples", "test/preempt", "test/slurm", "test/tiers",
	"cmd/perf/internal/agent", "cmd/perf/internal/cm", "cmd/perf/internal/command", "cmd/perf/internal/doctor",
	"cmd/perf/internal/mesh",
	"cmd/perf/internal/selftest", "cmd/perf/internal/wire", "cmd/show_gids", "efadv", "emu/emutest",
	"emu/internal/control", "emu/internal/guest", "emu/internal/strict", "emu/internal/sysfs", "emu/internal/trace",
	"emu/internal/verbs",
	"examples/asyncwatch", "examples/pingpong", "examples/program", "examples/rping", "examples/tour",
	"hostfacts", "ibv/gen", "internal/bind", "internal/cuda",
	"internal/deadline", "internal/leak", "internal/mmio", "internal/sysfs", "loader", "mlx5dv", "rdmacm",
	"rdmacm/rsocket",
}

// TestConcurrent finds the packages with tests for this machine that start goroutines or call C: a short run of tier
// race has them, but for seldom.
func TestConcurrent(t *testing.T) {
	r := &runner{root: "../.."}
	if err := r.findTests(); err != nil {
		t.Fatal(err)
	}
	raced := table.Tiers["race"][0].Packages
	for dir, names := range r.tests {
		host := slices.ContainsFunc(names, func(n string) bool { return !elsewhere.MatchString(n) })
		if !host || r.nested(dir) {
			continue
		}
		files, err := filepath.Glob(filepath.Join(r.root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(files, func(f string) bool {
			src, err := os.ReadFile(f)
			return err == nil && concurrency.Match(src)
		})
		if listed := slices.Contains(raced, "./"+dir); listed != (found && !slices.Contains(seldom, dir)) {
			t.Errorf("%s: concurrent %v, in tier race of tiers.yaml %v", dir, found, listed)
		}
	}
	if len(r.tests) < 100 {
		t.Errorf("%d packages have tests", len(r.tests))
	}
}

// TestLintArch holds the packages that tier lint vets for arm64 to those that have files for it alone.
func TestLintArch(t *testing.T) {
	const format = "{{.ImportPath}} {{join .GoFiles \" \"}} {{join .SFiles \" \"}} {{join .TestGoFiles \" \"}} " +
		"{{join .XTestGoFiles \" \"}}"
	files := func(arch string) map[string][]string {
		c := exec.Command("go", "list", "-f", format, "./...")
		c.Dir, c.Env = "../..", append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0", "GOARCH="+arch)
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		list := map[string][]string{}
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			list[strings.TrimPrefix(f[0], module+"/")] = f[1:]
		}
		return list
	}
	amd64 := files("amd64")
	var want []string
	for dir, list := range files("arm64") {
		if slices.ContainsFunc(list, func(f string) bool { return !slices.Contains(amd64[dir], f) }) {
			want = append(want, "./"+dir)
		}
	}
	slices.Sort(want)
	checked := 0
	for _, s := range table.Tiers["lint"] {
		for _, c := range s.Checks {
			f := strings.Fields(c)
			if f[0] == "vet-arm64" || f[0] == "staticcheck-arm64" {
				checked++
				have := slices.DeleteFunc(f, func(a string) bool { return !strings.HasPrefix(a, "./") })
				if !slices.Equal(have, want) {
					t.Errorf("%s checks %v, want %v", f[0], have, want)
				}
			}
		}
	}
	if checked != 2 {
		t.Errorf("%d checks for arm64", checked)
	}
}
