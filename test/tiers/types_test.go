package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckTypes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.org/m\n\ngo 1.25.0\n")
	write("m.go", "package m\n\nimport \"os\"\n\nfunc Name() (string, error) { return os.Hostname() }\n")
	write("m_test.go", "package m_test\n\nimport (\n\t\"testing\"\n\n\t\"example.org/m\"\n)\n\n"+
		"func TestName(t *testing.T) { m.Name() }\n")
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	check := func(system string, want int, text string) {
		t.Helper()
		t.Setenv("GOOS", system)
		var out bytes.Buffer
		if have := checkTypes([]string{"-test"}, &out); have != want || !strings.Contains(out.String(), text) {
			t.Errorf("%s: %d, %q; want %d and %q", system, have, out.String(), want, text)
		}
	}
	check("windows", 0, "")
	write("m_windows.go", "package m\n\nvar n int = \"a string\"\n")
	check("windows", 1, "m_windows.go:3:13: cannot use")
	check("darwin", 0, "")
	write("x_darwin_test.go", "package m_test\n\nvar _ = m.Name\n")
	check("darwin", 1, "undefined: m")
	write("m_freebsd.go", "package m\n\nimport \"no/such\"\n")
	check("freebsd", 1, "no/such")
}
