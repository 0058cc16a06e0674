//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeep has go test's part played: a test binary outside, which watch is asked to run in its package's folder.
func TestKeep(t *testing.T) {
	root := t.TempDir()
	work, pkg := filepath.Join(root, ".build", "tiers-1"), filepath.Join(root, "a", "b")
	for _, d := range []string{work, pkg} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(t.TempDir(), "b.test")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho ran $1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(pkg)
	kept := filepath.Join(work, "a-b.test")
	for _, tt := range []struct{ quiet, want string }{{"0", ""}, {"1h", "ran -x\n"}} {
		_ = os.Remove(kept)
		var out bytes.Buffer
		if code := watch([]string{"-keep", work, tt.quiet, binary, "-x"}, &out); code != 0 || out.String() != tt.want {
			t.Errorf("%s: code %d, %q; want 0, %q", tt.quiet, code, out.String(), tt.want)
		}
		if out, err := exec.Command(kept, "kept").Output(); err != nil || string(out) != "ran kept\n" {
			t.Errorf("%s: %q, %v", tt.quiet, out, err)
		}
	}
	if code := watch([]string{"-keep", work, "0", "/bin/true"}, &bytes.Buffer{}); code != 2 {
		t.Errorf("no test binary: code %d, want 2", code)
	}
}

func TestConcurrent(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"plain/a_test.go":  "package plain\n\nfunc TestA(t *testing.T) {}\n",
		"go/a_test.go":     "package a\n\nfunc TestA(t *testing.T) { go func() {}() }\n",
		"lock/a_test.go":   "package lock\n\nfunc TestA(t *testing.T) {}\n",
		"lock/a.go":        "package lock\n\nimport \"sync\"\n\nfunc f(w *sync.WaitGroup) { w.Go(func() {}) }\n",
		"c/a.go":           "package c\n\nimport \"github.com/pureverbs/pureverbs/internal/ccall\"\n",
		"c/a_test.go":      "package c\n\nfunc TestA(t *testing.T) {}\n",
		"vm/a_test.go":     "package vm\n\nfunc TestRXE_A(t *testing.T) { go func() {}() }\n",
		"untested/a.go":    "package untested\n\nfunc f() {\n\tgo g()\n}\n",
		"named/a.go":       "package named\n\nfunc f() {\n\tgo g()\n}\n",
		"named/a_test.go":  "package named\n\nfunc TestA(t *testing.T) {}\n",
		"nested/go.mod":    "module nested\n",
		"nested/a_test.go": "package nested\n\nfunc TestA(t *testing.T) { go func() {}() }\n",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, err := concurrent(root)
	if have := strings.Join(list, " "); err != nil || have != "./c ./go ./lock ./named" {
		t.Errorf("%s, %v", have, err)
	}
}
