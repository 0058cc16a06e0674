package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestApart checks the list of tests that a short run leaves out in a variant: each pattern is one of a test, and each
// test runs in another variant.
func TestApart(t *testing.T) {
	const root = "../.."
	r := &runner{root: root}
	elsewhere := map[string]string{"TestRXE_Posts": "test/posts/wire", "TestRXE_PostsRaw": "test/posts/wire"}
	src, err := os.ReadFile(filepath.Join(root, "test/posts/wire/wire_linux_test.go"))
	if err != nil || !strings.Contains(string(src), `"-test.run=^TestRXE_Posts(Raw)?$"`) {
		t.Errorf("test/posts/wire does not run what test/posts leaves out: %v", err)
	}
	for where, patterns := range apart {
		dir, variant, _ := strings.Cut(where, " ")
		names := testsOf(t, filepath.Join(root, dir))
		for _, p := range patterns {
			top, sub, _ := strings.Cut(p, "/")
			found := 0
			for _, name := range names {
				if !regexp.MustCompile("^" + top + "$").MatchString(name) {
					continue
				}
				found++
				other := map[string]string{"ops": "direct", "direct": "ops", "least-direct": "direct"}[variant]
				for _, o := range apart[dir+" "+other] {
					o, osub, _ := strings.Cut(o, "/")
					if regexp.MustCompile("^"+o+"$").MatchString(name) && osub == sub {
						t.Errorf("%s: %s and %s both leave out %s", dir, variant, other, p)
					}
				}
				if o := elsewhere[name]; o == "" && slices.Contains(onePath, dir) {
					t.Errorf("%s runs on one data path, which leaves out %s", dir, name)
				}
			}
			if found == 0 {
				t.Errorf("%s: there is no test %s", where, p)
			}
		}
		if got := r.skips(dir, variant); strings.Count(got, "$|")+1 != len(patterns) || !strings.HasSuffix(got, "$") {
			t.Errorf("%s: -skip is %q", where, got)
		}
		if s := (&runner{root: root, run: "X"}).skips(dir, variant); s != "" {
			t.Errorf("%s: with -run %q is left out", where, s)
		}
	}
	if got, want := r.skips("rdma", "direct"), "^TestRXE_Stalled$/^700_.*stream$"; got != want {
		t.Errorf("-skip is %q, want %q", got, want)
	}
	t.Setenv(fullEnv, "1")
	if s := r.skips("rdma", "ops"); s != "" {
		t.Errorf("in a full run %q is left out", s)
	}
}

// testsOf returns the names of the tests in a folder.
func testsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range hostTest.FindAllSubmatch(src, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}
