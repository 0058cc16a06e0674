package plan

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// good is a source that is released.
func good() Source {
	return Source{Version: "v0.1.0", Commit: "c0ffee", License: "Copyright 2026 The pureverbs Authors",
		Changelog: "# Changelog\n\n## Unreleased\n\n## 0.1.0\n\nThe first.\n\n## 0.0.9\n\nNothing.\n"}
}

func TestRefuse(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*Source)
		want string
	}{
		"good":           {func(*Source) {}, ""},
		"tagged here":    {func(s *Source) { s.Tagged = s.Commit }, ""},
		"with a date":    {func(s *Source) { s.Changelog = "## 0.1.0 (2026-12-01)\n\nThe first.\n" }, ""},
		"tagged before":  {func(s *Source) { s.Tagged = "beef" }, "tag v0.1.0 is at beef"},
		"no v":           {func(s *Source) { s.Version = "0.1.0" }, `version "0.1.0"`},
		"two numbers":    {func(s *Source) { s.Version = "v0.1" }, `version "v0.1"`},
		"a flag":         {func(s *Source) { s.Version = "--force" }, `version "--force"`},
		"not in the log": {func(s *Source) { s.Version = "v0.2.0" }, `no section "## 0.2.0"`},
		"only longer":    {func(s *Source) { s.Version = "v0.1.0-rc.1" }, `no section "## 0.1.0-rc.1"`},
		"nothing in it":  {func(s *Source) { s.Changelog = "## 0.1.0\n\n## 0.0.9\n\nNothing.\n" }, "no section"},
		"dirty":          {func(s *Source) { s.Changed = " M Makefile" }, "differs from its commit:\n M Makefile"},
		"nobody's": {func(s *Source) { s.License = "Copyright [yyyy] [name of copyright owner]" },
			"copyright holder"},
		"several reasons": {func(s *Source) { s.Changed, s.Tagged = "?? x", "beef" }, "?? x\ntag v0.1.0"},
	} {
		s := good()
		tc.edit(&s)
		err := s.Refuse()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestRead: what is refused is seen in a checkout.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.com"},
			args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	g := good()
	for name, text := range map[string]string{"CHANGELOG.md": g.Changelog, "LICENSE": g.License} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	git("tag", "v0.0.9")
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, ""},
		{func() { git("tag", "v0.1.0") }, ""},
		{func() { git("commit", "-q", "--allow-empty", "-m", "two") }, "tag v0.1.0 is at"},
		{func() { _ = os.WriteFile(filepath.Join(dir, "new"), nil, 0o600) }, "?? new"},
	} {
		step.do()
		s, err := Read(dir, "v0.1.0", os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Refuse()
		if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(),
			step.want)) {
			t.Errorf("%v, want %q", err, step.want)
		}
	}
}

// TestThis: this repository names a holder, and each program of the plan is in it.
func TestThis(t *testing.T) {
	s := good()
	s.License = read(t, "LICENSE")
	if err := s.Refuse(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(read(t, "NOTICE"), "The pureverbs Authors") {
		t.Error("NOTICE names no holder")
	}
	for _, b := range Builds {
		if !strings.Contains(read(t, b.Package+"/main.go"), "package main") || filepath.Base(b.Package) != b.Program {
			t.Errorf("%s is not the program %s", b.Package, b.Program)
		}
	}
	for _, list := range [][]Build{Installed(), Static()} {
		var names []string
		for _, b := range list {
			names = append(names, b.Program)
		}
		if !slices.Equal(names, []string{"rdmaperf", "show_gids", "emu"}) {
			t.Errorf("%v: want each program once", names)
		}
	}
}

func TestFiles(t *testing.T) {
	list := Files("v0.1.0")
	for _, want := range []string{"rdmaperf-v0.1.0-linux-arm64-native.tar.gz", "emu-v0.1.0-linux-amd64.tar.gz",
		"pureverbs_0.1.0-1_arm64.deb", "pureverbs-0.1.0-1.x86_64.rpm", "pureverbs-hw-v0.1.0-linux-arm64.tar.gz"} {
		if !slices.Contains(list, want) {
			t.Errorf("no %s in %v", want, list)
		}
	}
	slices.Sort(list)
	if n := len(slices.Compact(list)); n != 3+2*(len(Builds)+3) {
		t.Errorf("%d names: %v", n, list)
	}
	s := good()
	notes := Notes(s)
	for _, want := range []string{"The first.", "rdmaperf-v0.1.0-linux-ARCH-native.tar.gz",
		"pureverbs_0.1.0-1_ARCH.deb",
		"pureverbs-0.1.0-1.ARCH.rpm", "c0ffee", "without any library"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes have no %q:\n%s", want, notes)
		}
	}
	s.Changelog = "## 0.1.0\n\n[a](docs/a.md#b), [c](https://example.com/c), [d](#d)\n"
	linked := "[a](https://" + Module + "/blob/v0.1.0/docs/a.md#b), [c](https://example.com/c), [d](#d)"
	if got := Notes(s); !strings.Contains(got, linked) {
		t.Errorf("no %s in\n%s", linked, got)
	}
	if strings.Contains(notes, "Nothing.") {
		t.Errorf("the notes have more than one version:\n%s", notes)
	}
	for version, want := range map[string]string{
		"v0.1.0": "0.1.0", "v0.1.0-rc.1": "0.1.0~rc.1", "v0.1.0-rc-1": "0.1.0~rc~1", // which sort before v0.1.0
	} {
		if got := PackageVersion(version); got != want {
			t.Errorf("version %s of a package is %s, want %s", version, got, want)
		}
		for format, want := range map[string]string{
			"deb": "pureverbs_" + want + "-1_amd64.deb", "rpm": "pureverbs-" + want + "-1.x86_64.rpm",
		} {
			if got := PackageName(version, "amd64", format); got != want {
				t.Errorf("the %s of %s is %s, want %s", format, version, got, want)
			}
		}
	}
}

// TestLicenses: the licences that the programs' modules have are known, others are not.
func TestLicenses(t *testing.T) {
	bsd := "Redistribution and use in source and\nbinary forms, with or without modification"
	for text, want := range map[string]string{
		read(t, "LICENSE"):                  "Apache-2.0",
		bsd:                                 "BSD-2-Clause",
		bsd + " Neither the name of Google": "BSD-3-Clause",
		"Permission is hereby granted, free of charge, to\nTHE SOFTWARE IS PROVIDED \"AS IS\"": "MIT",
		"GNU GENERAL PUBLIC LICENSE " + bsd:                                                    "",
		"All rights reserved.":                                                                 "",
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"LICENSE.txt": text, "NOTICE": "of x", "main.go": "package x"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l := Linked{Path: "example.com/x", Version: "v1.0.0"}
		if err := l.ReadLicense(dir); (err == nil) != (want != "") || l.License != want {
			t.Errorf("%.60q: %s, %v, want %q", text, l.License, err, want)
		}
		if want == "" {
			continue
		}
		n := Notices([]Linked{l})
		for _, part := range []string{"example.com/x v1.0.0 (" + want + ")", strings.TrimSpace(text), "of x"} {
			if !strings.Contains(n, part) {
				t.Errorf("the notices have no %.60q:\n%s", part, n)
			}
		}
		if strings.Contains(n, "package x") {
			t.Error("the notices have a source")
		}
	}
}

const help = `Usage: tool [flags] [DEVICE...]

Lists things.

Flags:
  -d, --device devices     only these
      --watch interval[=1s]   print again; 'now'
      --trace FILE[="-"]   to a [file]: all
  -h, --help               print this help
                           of two lines

Columns: a b.
`

func TestHelp(t *testing.T) {
	h := ParseHelp(help)
	want := []Flag{{"d", "device", "devices", "only these"}, {"", "watch", "interval", "print again; 'now'"},
		{"", "trace", "FILE", "to a [file]: all"}, {"h", "help", "", "print this help of two lines"}}
	if !slices.Equal(h.Flags, want) {
		t.Errorf("flags %+v, want %+v", h.Flags, want)
	}
	if h.Before != "Usage: tool [flags] [DEVICE...]\n\nLists things." || h.After != "Columns: a b." {
		t.Errorf("before %q, after %q", h.Before, h.After)
	}
	man := h.Man(Build{Program: "tool", Summary: "list things"}, "v0.1.0")
	for _, want := range []string{`.TH tool 1 "" "pureverbs v0.1.0"`, `tool \- list things`, `\fB\-d, \-\-device\fR`} {
		if !strings.Contains(man, want) {
			t.Errorf("no %q in\n%s", want, man)
		}
	}
	scripts := h.Completions("tool")
	for name, want := range map[string]string{"bash/tool": "--device -d --watch --trace",
		"zsh/_tool":      `'--watch=[print again; '\''now'\'']`,
		"fish/tool.fish": `complete -c tool -l device -s d -r -d 'only these'`} {
		if !strings.Contains(scripts[name], want) {
			t.Errorf("%s: no %q in\n%s", name, want, scripts[name])
		}
	}
}
