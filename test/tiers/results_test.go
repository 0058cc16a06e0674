//go:build linux

package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func events(t *testing.T, list ...event) io.Reader {
	t.Helper()
	var b strings.Builder
	for _, e := range list {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return strings.NewReader(b.String())
}

func ran(pkg, test, how string, output ...string) []event {
	list := []event{{Action: "run", Package: pkg, Test: test}}
	for _, o := range output {
		list = append(list, event{Action: "output", Package: pkg, Test: test, Output: o + "\n"})
	}
	if how != "" {
		list = append(list, event{Action: Status(how), Package: pkg, Test: test})
	}
	return list
}

func TestParser(t *testing.T) {
	tests := []struct {
		name   string
		events []event
		want   []Result
	}{
		{"one of each", slices.Concat(
			ran("p", "TestA", "pass", "    a_test.go:1: noise"),
			ran("p", "TestB", "fail", "    b_test.go:2: broken"),
			ran("p", "TestC", "skip", "    c_test.go:3: no device"),
			[]event{{Action: "fail", Package: "p"}},
		), []Result{
			{"unit", "p", "TestA", Pass, ""},
			{"unit", "p", "TestB", Fail, "    b_test.go:2: broken\n"},
			{"unit", "p", "TestC", Skip, "    c_test.go:3: no device\n"},
		}},
		{"died in mid-test", slices.Concat(
			ran("p", "TestA", "pass"),
			ran("p", "TestB", "", "SIGSEGV"),
			[]event{{Action: "fail", Package: "p"}},
		), []Result{
			{"unit", "p", "TestA", Pass, ""},
			{"unit", "p", "TestB", Fail, "SIGSEGV\n"},
		}},
		{"cut off after a failure", slices.Concat(
			ran("p", "TestA", "fail", "    a_test.go:1: bad"),
			ran("p", "TestB", "", "    b_test.go:2: hangs"),
			ran("p", "TestB/x", "", "    b_test.go:3: here"),
			[]event{{Action: "fail", Package: "p"}},
		), []Result{
			{"unit", "p", "TestA", Fail, "    a_test.go:1: bad\n"},
			{"unit", "p", "TestB", Fail, "    b_test.go:2: hangs\n"},
			{"unit", "p", "TestB/x", Fail, "    b_test.go:3: here\n"},
		}},
		{"a word after the end", slices.Concat(
			ran("p", "TestA", "fail", "    a_test.go:1: bad"),
			[]event{{Action: "output", Package: "p", Test: "TestA", Output: "FAIL\n"}, {Action: "fail", Package: "p"}},
		), []Result{{"unit", "p", "TestA", Fail, "    a_test.go:1: bad\n"}}},
		{"stream ends early", ran("p", "TestA", "", "half a word"), []Result{
			{"unit", "p", "TestA", Fail, "half a word\n"},
		}},
		{"exits before any test", []event{
			{Action: "output", Package: "p", Output: "exit status 3\n"},
			{Action: "fail", Package: "p"},
		}, []Result{{"unit", "p", "(package)", Fail, "exit status 3\n"}}},
		{"does not build", []event{
			{Action: "build-output", ImportPath: "p [p.test]", Output: "p.go:1: syntax error\n"},
			{Action: "build-fail", ImportPath: "p [p.test]"},
			{Action: "fail", Package: "p", FailedBuild: "p [p.test]"},
		}, []Result{{"unit", "p", "(package)", Fail, "p.go:1: syntax error\n"}}},
		{"no test files", []event{{Action: "skip", Package: "p"}}, nil},
		{"booted twice", slices.Concat(
			[]event{{Action: "start", Package: "p"}}, ran("p", "TestA", "fail", "bad"), ran("p", "TestB", "", "panic"),
			[]event{{Action: "start", Package: "p"}}, ran("p", "TestA", "pass"),
			[]event{{Action: "pass", Package: "p"}},
		), []Result{{"unit", "p", "TestA", Pass, ""}}},
		{"breaks the devices", slices.Concat(
			[]event{{Action: "start", Package: "p"}}, ran("p", "TestA", "pass"),
			[]event{{Action: "pass", Package: "p"}},
			[]event{{Action: "fail", Package: "p", Output: "broken"}},
		), []Result{{"unit", "p", "TestA", Pass, ""}, {"unit", "p", "(package)", Fail, "broken"}}},
		{"benchmark", []event{
			{Action: "run", Package: "p", Test: "BenchmarkX"},
			{Action: "output", Package: "p", Test: "BenchmarkX", Output: "BenchmarkX\n"},
			{Action: "output", Package: "p", Test: "BenchmarkX", Output: "BenchmarkX-2 \t       1\t       120 ns/op\n"},
			{Action: "pass", Package: "p"},
		}, []Result{{"unit", "p", "BenchmarkX", Pass, ""}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newParser("unit", "", nil, io.Discard)
			if _, err := io.Copy(p, iotest.OneByteReader(events(t, tt.events...))); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, p.finish()); diff != "" {
				t.Errorf("results (-want +have):\n%s", diff)
			}
		})
	}
}

func TestReport(t *testing.T) {
	list := filepath.Join(t.TempDir(), "allowed")
	if err := os.WriteFile(list, []byte("# comment\n\nunit TestNIC.* needs a NIC\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	allow, err := readAllowed(list)
	if err != nil {
		t.Fatal(err)
	}
	pass := Result{"unit", "p", "TestA", Pass, ""}
	skip := Result{"unit", "p", "TestNIC_X", Skip, "    x_test.go:1: needs a NIC\n"}
	tests := []struct {
		name    string
		results []Result
		ok      bool
		want    string
	}{
		{"all passed", []Result{pass}, true, "1 passed, 0 failed, 0 skipped\n"},
		{"allowed skip", []Result{pass, skip}, true, "1 passed, 0 failed, 1 skipped\n"},
		{"other reason", []Result{pass, {"unit", "p", "TestNIC_X", Skip, "no reason"}}, false,
			"tier unit: p.TestNIC_X: no reason\n"},
		{"other test", []Result{pass, {"unit", "p", "XTestNIC", Skip, "needs a NIC"}}, false,
			"tier unit: p.XTestNIC: needs a NIC\n"},
		{"other tier", []Result{pass, {"rxe", "p", "TestNIC_X", Skip, "needs a NIC"}}, false,
			"skips that test/allowed-skips does not list"},
		{"failed", []Result{pass, {"unit", "p", "TestB", Fail, "why\n"}}, false,
			"--- FAIL: tier unit: p.TestB\n    why\n"},
		{"failed parent", []Result{{"unit", "p", "TestB/x", Fail, "why\n"}, {"unit", "p", "TestB", Fail,
			"--- FAIL: TestB\n"}}, false, "    why\n\ntier unit: 0 passed, 2 failed"},
		{"nothing ran", nil, false, "a tier ran no test"},
		{"only skipped", []Result{skip}, false, "a tier ran no test"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			tiers := []string{"unit"}
			if ok := report(&b, tiers, tt.results, allow, map[string]*usage{"unit": {}}); ok != tt.ok {
				t.Errorf("report = %v, want %v:\n%s", ok, tt.ok, b.String())
			}
			if got := b.String() + counts(tt.results).String() + "\n"; !strings.Contains(got, tt.want) {
				t.Errorf("no %q in:\n%s", tt.want, got)
			}
		})
	}
}

func TestReadAllowed_Bad(t *testing.T) {
	for _, text := range []string{"unit TestX", "unit Test( why", "unit TestX (", "[ TestX why"} {
		name := filepath.Join(t.TempDir(), "allowed")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readAllowed(name); err == nil || !strings.Contains(err.Error(), ":1:") {
			t.Errorf("%q: error %v, want one that names line 1", text, err)
		}
	}
	if _, err := readAllowed("/nonexistent"); err == nil {
		t.Error("a list that is missing was accepted")
	}
}

// TestFiguresInTiers: the figures of a test that passes are printed, in a tier as in a run for figures alone.
func TestFiguresInTiers(t *testing.T) {
	const events = `{"Action":"run","Package":"p","Test":"TestX"}
{"Action":"output","Package":"p","Test":"TestX","Output":"    x_test.go:3: figure hosts 0 of_60\n"}
{"Action":"pass","Package":"p","Test":"TestX"}
{"Action":"pass","Package":"p"}
`
	for _, live := range []bool{false, true} {
		var note, all strings.Builder
		p := newParser("unit", "", nil, &note)
		if live {
			p.live = &all
		}
		if _, err := io.WriteString(p, events); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(note.String(), "figure hosts 0 of_60\n"); got == live {
			t.Errorf("live %v: %q", live, note.String())
		}
	}
}

func TestFigureLine(t *testing.T) {
	const text = "figure a 1.5 ns\r\n    x_test.go:3: figure b 0 allocs/op\nno figure here\nsee figure\n"
	got := figureLine.FindAllStringSubmatch(text, -1)
	if len(got) != 2 || got[0][1] != "figure a 1.5 ns" || got[1][1] != "figure b 0 allocs/op" {
		t.Errorf("have %q", got)
	}
}

func TestPackagesWith(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a_test.go":          "package a\n\nfunc TestRXE_X(t *testing.T) {}\n",
		"a/b/b_test.go":        "package b\n\nfunc TestRXEFigures(t *testing.T) {}\n",
		"c/c_test.go":          "package c\n\n// TestRXE_X is elsewhere.\nfunc TestOther(t *testing.T) {}\n",
		"testdata/d/d_test.go": "package d\n\nfunc TestRXE_X(t *testing.T) {}\n",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ prefix, only, want string }{
		{"TestRXE", "", "a a/b"},
		{"TestRXEFigures", "", "a/b"},
		{"TestRXE", "./a", "a"},
		{"TestRXE", "./a/...", "a a/b"},
		{"TestRXE", "./c", ""},
	} {
		r := &runner{root: root, pkg: tt.only}
		if err := r.findTests(); err != nil {
			t.Fatal(err)
		}
		dirs := r.folders(suite{With: tt.prefix})
		if have := strings.Join(dirs, " "); have != tt.want {
			t.Errorf("%s in %q: have %q, want %q", tt.prefix, tt.only, have, tt.want)
		}
	}
}

// TestGuestScript runs the script with programs in place of the guest's.
func TestGuestScript(t *testing.T) {
	r := &runner{quiet: time.Minute, timeout: time.Hour}
	s := suite{Run: "^TestRXE_It's", Skip: "^TestRXEFigures", Flags: []string{"-bench=X"}}
	a, b := s, s
	a.dir, b.dir = "a", "b/c"
	script := r.guestScript([]suite{a, b})
	library, err := os.ReadFile("../../scripts/guest-test")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, text := range map[string]string{"rdma-net": "exit 1", "setsid": "",
		"test2json": `echo "$at $@" >&2; echo '{"Action":"pass","Package":"'$3'","Test":"T"}'; ` +
			`echo '{"Action":"pass","Package":"'$3'"}'`} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// In place of its own functions, which end all processes and look for the guest's folders.
	text := string(library) + "reap() { :; }\ncd() { export at=$1; }\n" + strings.TrimPrefix(script, ". guest-test\n")
	if _, run, ok := strings.Cut(string(library), "\nrun() {"); !ok || strings.Contains(run, "kill") ||
		!strings.HasPrefix(script, ". guest-test\n") {
		t.Fatalf("it would end this machine's processes:\n%s%s", library, script)
	}
	c := exec.Command("/bin/sh", "-c", text)
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	p := newParser("rxe", "", nil, io.Discard)
	var ran strings.Builder
	c.Stdout, c.Stderr = p, &ran
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/payload/src/b/c -t -p b/c setsid tiers watch 1m0s /payload/test/b-c.test -test.v",
		" -test.run=^TestRXE_It's ", " -test.timeout=1h0m0s ", "tiers watch 1m0s /payload/test/a.test ",
		" -test.bench=X ", " -test.skip=^TestRXEFigures\n"} {
		if !strings.Contains(ran.String(), want) {
			t.Errorf("no %q in:\n%s", want, &ran)
		}
	}
	const broken = "the package left the devices broken"
	want := []Result{{"rxe", "a", "T", Pass, ""}, {"rxe", "a", "(package)", Fail, broken},
		{"rxe", "b/c", "T", Pass, ""}, {"rxe", "b/c", "(package)", Fail, broken}}
	if d := cmp.Diff(want, p.finish()); d != "" {
		t.Error(d)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"nosuchtier"}, {"-nosuchflag"}} {
		if code := run(context.Background(), args, io.Discard, io.Discard); code != 2 {
			t.Errorf("%q: exit code %d, want 2", args, code)
		}
	}
}

func TestIndentLong(t *testing.T) {
	stack := strings.Repeat("goroutine 1 [running]:\n\ta/b/c_test.go:5 +0x1\n", 1000)
	got := indent("first\n" + stack + "    x_test.go:7: 3 completions are missing\n" + stack + "last\n")
	for _, want := range []string{"    first\n", "\n        x_test.go:7: 3 completions are missing\n", "\n    last\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not there", want)
		}
	}
	if len(got) > 24<<10 {
		t.Errorf("%d bytes are left", len(got))
	}
}
