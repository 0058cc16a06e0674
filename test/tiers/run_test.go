//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun_Fails runs tier unit on a small module, and spoils it in each way that must fail a run.
func TestRun_Fails(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
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
	claims := func(test string) string {
		return "| what | state | shown by |\n|---|---|---|\n| Linux | tested | `unit rdma " + test + "` |\n"
	}
	write("go.mod", "module "+module+"\n\ngo 1.25\n")
	write("test/allowed-skips", "unit TestB needs root\n")
	const file, page = "rdma/a_test.go", supportFile
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
		{"a test of the page is gone", page, claims("TestX"), nil, "`unit rdma TestX` did not run"},
		{"a test of the page skips", page, claims("TestB"), nil, "`unit rdma TestB` skipped"},
		{"no test", file, "package rdma\n", []string{"-pkg", "./rdma"}, "a tier ran no test"},
	} {
		write(file, source(""))
		write("rdma/b_test.go", strings.Replace(source(`t.Skip("needs root")`), "TestA", "TestB", 1)+
			"\nfunc TestC(t *testing.T) {}\n")
		write(page, claims("TestA"))
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
