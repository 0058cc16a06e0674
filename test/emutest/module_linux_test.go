//go:build amd64 && !race

package emutest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

const readme = "../../emu/README.md"

// module writes a module that uses emutest as emu/README.md shows, and returns its folder.
func module(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) []byte {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	code := regexp.MustCompile("(?s)\n```go\n(.*?)```\n").FindSubmatch(file(readme))
	if code == nil {
		t.Fatal("emu/README.md shows no Go code")
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"go.mod": fmt.Appendf(nil, "module example.com/user\n\ngo 1.25.0\n\n"+
			"require github.com/pureverbs/pureverbs v0.0.0\n\nreplace github.com/pureverbs/pureverbs => %s\n", root),
		"go.sum": file(filepath.Join(root, "go.sum")),
		"main.go": []byte("package main\n\nfunc main() {}\n\n" +
			"func double(n int) int { return 2 * n }\n"),
		"readme_test.go":          code[1],
		"cases_test.go":           file("testdata/cases_test.go.txt"),
		"options/options_test.go": file("testdata/options_test.go.txt"),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// command returns a command in a folder, outside of any emulator and without modules from the network.
func command(t *testing.T, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Dir = dir
	c.Env = slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "EMU_CONTROL=") || strings.HasPrefix(e, "EMUTEST_REQUIRE=")
	})
	c.Env = append(append(c.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOPROXY=off", "GOWORK=off",
		"CGO_ENABLED=0"), env...)
	c.WaitDelay = 10 * time.Second
	return c
}

// finish runs c and returns its exit code and what it printed.
func finish(t *testing.T, c *exec.Cmd) (int, string) {
	t.Helper()
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// nobody lets c run as an ordinary user, if the test runs as root.
func nobody(c *exec.Cmd) {
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
}

// TestEmutestGo runs go test in the module. Each row links the test again. A short run has the rows in which emutest
// decides how the test ends.
func TestEmutestGo(t *testing.T) {
	testutil.NeedEmu(t)
	dir := module(t)
	short := []string{"README", "failing and strict", "skip", "fault", "coverage"}
	for _, tt := range []struct {
		name  string
		flags []string
		code  int
		want  []string // regular expressions
	}{
		{"README", []string{"-v", "-run=TestOpen"}, 0, []string{`(?m)^--- PASS: TestOpen`, `(?m)^ok `}},
		{"quiet", []string{"-run=TestOpen"}, 0, []string{`^PASS\nok  \texample.com/user\t\S+\n$`}},
		{"failing", []string{"-run=TestOpen|TestCaseFail"}, 1, []string{`wrong on purpose: <nil>`,
			`(?m)^FAIL\texample`}},
		{"strict", []string{"-run=TestCaseLeak"}, 1, []string{`leak`, `(?m)^exit status 99$`, `(?m)^FAIL\texample`}},
		{"failing and strict", []string{"-run=TestCaseLeak|TestCaseFail"}, 1, []string{`wrong on purpose`, `leak`}},
		{"count", []string{"-v", "-count=3", "-run=TestOpen"}, 0, []string{`(?s)(--- PASS: TestOpen.*){3}`}},
		{"skip", []string{"-v", "-run=TestCaseSkip"}, 0, []string{`--- SKIP: TestCaseSkip`, `skipped on purpose`}},
		{"fault", []string{"-v", "-run=TestCaseFault"}, 0, []string{`--- PASS: TestCaseFault`}},
		{"timeout", []string{"-run=TestCaseHang", "-timeout=1s"}, 1,
			[]string{`panic: test timed out after 1s`, `TestCaseHang`, `(?m)^FAIL\texample`}},
		{"list", []string{"-list=TestCase"}, 0, []string{`TestCaseHang\n`, `(?m)^ok `}},
		{"benchmark", []string{"-run=^$", "-bench=.", "-benchtime=10x"}, 0, []string{`BenchmarkCase\S*\s+10\t`}},
		{"coverage", []string{"-run=TestOpen", "-coverprofile=cover.out"}, 0,
			[]string{`coverage: 0\.0% of statements`}},
		{"arguments", []string{"-run=TestCasePlain", "-args", "-nosuch"}, 1, []string{`flag provided but not defined`}},
	} {
		if !testutil.Full() && !slices.Contains(short, tt.name) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			c := command(t, dir, nil, append([]string{"go", "test", "-vet=off"}, tt.flags...)...)
			code, out := finish(t, c)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, w := range tt.want {
				if !regexp.MustCompile(w).MatchString(out) {
					t.Errorf("no match for %s", w)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
	profile, err := os.ReadFile(filepath.Join(dir, "cover.out"))
	if err != nil || !bytes.Contains(profile, []byte("example.com/user/main.go:5")) {
		t.Errorf("the profile has %q, %v", profile, err)
	}
}

// TestEmutestOptions runs tests of a package with all options, and with a bad one.
func TestEmutestOptions(t *testing.T) {
	testutil.NeedEmu(t)
	dir := module(t)
	for _, tt := range []struct {
		env, want string
		code      int
	}{
		{"CASE=", "--- PASS: TestOptions", 0},
		{"CASE=host", "--- PASS: TestOptions", 0},
		{"CASE=bad", `emutest: device c: model=nosuch`, 1},
	} {
		c := command(t, dir, []string{tt.env}, "go", "test", "-vet=off", "-count=1", "-v", "./options")
		if code, out := finish(t, c); code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", tt.env, code, tt.code, tt.want, out)
		}
		if tt.code != 0 {
			continue
		}
		trace, err := os.ReadFile(filepath.Join(dir, "options", "trace.json"))
		if err != nil || !bytes.Contains(trace, []byte(`"name":"alloc_pd"`)) {
			t.Errorf("%s: the trace is %.300q, %v", tt.env, trace, err)
		}
		for line := range bytes.Lines(trace) {
			if !json.Valid(line) {
				t.Errorf("%s: no JSON: %q", tt.env, line)
			}
		}
	}
}

// TestEmutestJSON checks that go test -json tells the tests apart.
func TestEmutestJSON(t *testing.T) {
	testutil.NeedEmu(t)
	c := command(t, module(t), nil, "go", "test", "-vet=off", "-json", "-run=TestOpen|TestCaseFail|TestCaseSkip")
	code, out := finish(t, c)
	got := map[string]string{}
	for line := range strings.Lines(out) {
		var e struct{ Action, Test string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			got[e.Test] = e.Action
		}
	}
	want := map[string]string{"TestOpen": "pass", "TestCaseFail": "fail", "TestCaseSkip": "skip", "": "fail"}
	if code != 1 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("exit code %d, %v, want %v\n%s", code, got, want, out)
	}
}

// compiled builds the module's test binary where everybody may run it.
func compiled(t *testing.T, flags ...string) string {
	t.Helper()
	dir := module(t)
	bin := filepath.Join(dir, "user.test")
	env := []string{}
	if slices.Contains(flags, "-race") {
		env = append(env, "CGO_ENABLED=1")
	}
	c := command(t, dir, env, append(append([]string{"go", "test", "-vet=off", "-c", "-o", bin}, flags...), ".")...)
	if code, out := finish(t, c); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// TestEmutestUsers runs the test binary as an ordinary user, below an emulator, and where there can be none.
func TestEmutestUsers(t *testing.T) {
	testutil.NeedEmu(t)
	bin := compiled(t)
	run := func(t *testing.T, want int, text string, as func(*exec.Cmd), env []string, args ...string) {
		t.Helper()
		c := command(t, "/", env, args...)
		if as != nil {
			as(c)
		}
		code, out := finish(t, c)
		if code != want || !strings.Contains(out, text) {
			t.Errorf("exit code %d, want %d and %q\n%s", code, want, text, out)
		}
	}
	t.Run("nobody", func(t *testing.T) {
		run(t, 0, "--- PASS: TestOpen", nobody, nil, bin, "-test.v", "-test.run=TestOpen")
		run(t, 99, "leak", nobody, nil, bin, "-test.run=TestCaseLeak")
		run(t, 1, "wrong on purpose", nobody, nil, bin, "-test.run=TestCaseFail")
		run(t, 0, "10.88.0.1", nobody, nil, bin, "-test.v", "-test.run=TestCaseAddress")
	})
	emu := filepath.Join(t.TempDir(), "emu")
	if out, err := exec.Command("go", "build", "-o", emu, "../../emu").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("below emu", func(t *testing.T) {
		run(t, 0, "--- PASS: TestCaseOutside", nil, nil, emu, "--", bin, "-test.v", "-test.run=TestCaseOutside")
	})
	// An emulator cannot run below another one. Without the variable emutest does not know that there is one.
	const why = "this process runs under another one"
	hidden := []string{emu, "--", "env", "-u", "EMU_CONTROL"}
	t.Run("cannot emulate", func(t *testing.T) {
		run(t, 0, "--- SKIP: TestOpen", nil, nil, append(hidden, bin, "-test.v", "-test.run=TestOpen")...)
		run(t, 0, why, nil, nil, append(hidden, bin, "-test.run=TestOpen")...)
		run(t, 0, "--- PASS: TestCasePlain", nil, nil, append(hidden, bin, "-test.v", "-test.run=TestCasePlain")...)
	})
	t.Run("required", func(t *testing.T) {
		run(t, 2, why, nil, []string{"EMUTEST_REQUIRE=1"}, append(hidden, bin, "-test.run=TestOpen")...)
		run(t, 0, "PASS", nil, []string{"EMUTEST_REQUIRE=1"}, bin, "-test.run=TestOpen")
	})
	// The launcher must not allocate much between its filter and the exec.
	t.Run("large environment", func(t *testing.T) {
		var env []string
		for i := range 10 {
			env = append(env, fmt.Sprintf("LARGE%d=%s", i, strings.Repeat("x", 100<<10)))
		}
		run(t, 0, "--- PASS: TestOpen", nil, env, bin, "-test.v", "-test.run=TestOpen")
	})
}

// TestEmuReadme runs the commands that emu/README.md shows, as printed.
func TestEmuReadme(t *testing.T) {
	testutil.NeedEmu(t)
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Try it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands := regexp.MustCompile(`(?m)^(emu .*)$`).FindAllStringSubmatch(section, -1)
	if len(commands) != 3 {
		t.Fatalf("%d commands", len(commands))
	}
	for _, p := range []string{"ibv_devinfo", "ib_write_bw"} {
		testutil.NeedProgram(t, p)
	}
	dir := t.TempDir()
	c := exec.Command("go", "build", "-o", dir+"/", "../../emu")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "program"), []byte("#!/bin/sh\necho it runs\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"hca_id:\tmlx5_0", "MsgRate", "it runs"} {
		for try := 1; ; try++ {
			c := command(t, dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, "sh", "-c", commands[i][1])
			code, out := finish(t, c)
			if code == 0 && strings.Contains(out, want) {
				break
			}
			if try == 5 {
				t.Errorf("%s: exit code %d, want %q\n%s", commands[i][1], code, want, out)
				break
			}
			t.Log("the client was there before the server: once more") // after sleep 1, on a busy machine
		}
	}
}

// TestEmutestRace runs the test binary with the race detector.
func TestEmutestRace(t *testing.T) {
	testutil.NeedEmu(t)
	if !testutil.Full() {
		t.Skip("full runs only, by make test-full: compiles with the race detector")
	}
	bin := compiled(t, "-race")
	for i := range 2 {
		c := command(t, "/", []string{"LARGE=" + strings.Repeat("x", i*100<<10)}, bin, "-test.v",
			"-test.run=TestOpen|TestCaseFault")
		if code, out := finish(t, c); code != 0 || strings.Count(out, "--- PASS: ") != 2 {
			t.Errorf("exit code %d\n%s", code, out)
		}
	}
}

// TestEmutestSignals interrupts the test binary as Ctrl-C and go test do. Nothing is left behind.
func TestEmutestSignals(t *testing.T) {
	testutil.NeedEmu(t)
	bin := compiled(t)
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGQUIT: 2,
		syscall.SIGKILL: -1} {
		t.Run(sig.String(), func(t *testing.T) {
			c := command(t, "/", nil, bin, "-test.run=TestCaseHang")
			in, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			c.Stdout, c.Stderr = w, w
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			lines := bufio.NewScanner(r)
			for lines.Scan() && lines.Text() != "hanging" {
			}
			if err := c.Process.Signal(sig); err != nil {
				t.Error(err)
			}
			var rest []string
			for lines.Scan() { // ends when no process has the pipe any more
				rest = append(rest, lines.Text())
			}
			_ = c.Wait()
			if code := c.ProcessState.ExitCode(); code != want {
				t.Errorf("exit code %d, want %d\n%s", code, want, strings.Join(rest, "\n"))
			}
		})
	}
}
