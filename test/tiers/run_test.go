//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun_Fails runs tier unit on a small module, and spoils it in each way that must fail a run.
func TestRun_Fails(t *testing.T) {
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	source := func(body string) string {
		return "package rdma\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {" + body + "}\n"
	}
	shows := func(test string) string { return "Linux: [unit rdma " + test + "]\n" }
	keep, err := os.ReadFile(filepath.Join(repo, "scripts/keep"))
	if err != nil {
		t.Fatal(err)
	}
	write("scripts/keep", string(keep))
	if err := os.Chmod("scripts/keep", 0o755); err != nil {
		t.Fatal(err)
	}
	write("go.mod", "module "+module+"\n\ngo 1.25\n")
	write("test/allowed-skips", "unit TestB needs root\n")
	write(supportFile, "| what | state |\n|---|---|\n| Linux | tested |\n")
	const file, page = "rdma/a_test.go", shownFile
	for _, tt := range []struct {
		name, file, text string
		flags            []string
		want             string
	}{
		{"as it is", file, source(""), nil, "tier unit: 2 passed, 0 failed, 1 skipped"},
		{"a test fails", file, source(`t.Error("wrong")`), nil, "tier unit: 1 passed, 1 failed, 1 skipped"},
		{"a test panics", file, source(`panic("wrong")`), nil, "panic: wrong"},
		{"a skip is not listed", file, source(`t.Skip("needs root")`), nil, "TestA: a_test.go:5: needs root"},
		{"it does not compile", file, source(`wrong()`), nil, "undefined: wrong"},
		{"a test is silent", file, source(`select {}`), []string{"-quiet", "2s"}, "printed nothing for 2s"},
		{"a test takes too long", file, source(`select {}`), []string{"-timeout", "2s"}, "test timed out"},
		{"a test of the page is gone", page, shows("TestX"), nil, "`unit rdma TestX` did not run"},
		{"a test of the page skips", page, shows("TestB"), nil, "`unit rdma TestB` skipped"},
		{"no test", file, "package rdma\n", []string{"-pkg", "./rdma"}, "a tier ran no test"},
	} {
		write(file, source(""))
		write("rdma/b_test.go", strings.Replace(source(`t.Skip("needs root")`), "TestA", "TestB", 1)+
			"\nfunc TestC(t *testing.T) {}\n")
		write(page, shows("TestC")) // which is about no other row
		write(tt.file, tt.text)
		if tt.name == "no test" {
			write("rdma/b_test.go", "package rdma\n")
		}
		var out strings.Builder
		code := run(t.Context(), append(tt.flags, "unit"), &out, &out)
		if want := map[bool]int{true: 0, false: 1}[tt.name == "as it is"]; code != want {
			t.Errorf("%s: exit code %d, want %d", tt.name, code, want)
		}
		for _, want := range []string{tt.want, "where the time went", "passed, "} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, &out)
			}
		}
	}
}

// TestTypes checks that the tool of tier lint finds mistakes in bodies of functions, for another system, and in tests.
func TestTypes(t *testing.T) {
	tool, err := filepath.Abs("../../.build/tools/types")
	if err != nil {
		t.Fatal(err)
	}
	if missing(tool) {
		t.Skip("the tool is not built: scripts/setup go")
	}
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module m\n\ngo 1.25\n",
		"a.go":         "package m\n\nimport \"fmt\"\n\nfunc A() { fmt.Println(b) }\n",
		"b_linux.go":   "package m\n\nconst b = 1\n",
		"b_windows.go": "package m\n\nconst b = 1\n",
		"c_windows.go": "package m\n\nfunc c() int { return \"wrong\" }\n",
		"a_test.go":    "package m\n\nfunc d() { e() }\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		system string
		flags  []string
		want   string
	}{
		{"linux", nil, ""}, {"windows", nil, "c_windows.go:3:"}, {"darwin", nil, "undefined: b"},
		{"linux", []string{"-test"}, "undefined: e"},
	} {
		c := exec.Command(tool, tt.flags...)
		c.Dir, c.Env = root, append(os.Environ(), "GOOS="+tt.system, "PWD="+root)
		out, err := c.CombinedOutput()
		if (err == nil) != (tt.want == "") || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s %v: %v\n%s", tt.system, tt.flags, err, out)
		}
	}
	c := exec.Command(tool)
	c.Dir = t.TempDir()
	if out, err := c.CombinedOutput(); err == nil {
		t.Errorf("without packages it passes: %s", out)
	}
}
