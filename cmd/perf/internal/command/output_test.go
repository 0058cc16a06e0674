package command

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSave: a plain file is replaced, what is none is written to and stays what it is.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"folder", "bare"} {
		if err := os.Mkdir(path(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.WriteFile(path("old"), []byte("the old text, which was longer"), 0o644),
		os.WriteFile(path("target"), nil, 0o644), os.Symlink("target", path("link")), os.Symlink("none", path("ahead")),
		os.Link(path("target"), path("bare/same")), syscall.Mkfifo(path("pipe"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	read := make(chan string, 1)
	go func() {
		b, _ := os.ReadFile(path("pipe"))
		read <- string(b)
	}()
	for _, tc := range []struct {
		name string
		kind fs.FileMode
		says string
	}{
		{"new", 0, ""}, {"old", 0, ""}, {"link", fs.ModeSymlink, ""}, {"ahead", fs.ModeSymlink, ""},
		{"pipe", fs.ModeNamedPipe, ""},
		{"folder", fs.ModeDir, "is a directory"}, {"missing/new", 0, "no such file"}, {"old/new", 0, "not a directory"},
	} {
		before, _ := filepath.Glob(path("*"))
		hidden, _ := filepath.Glob(path(".*"))
		err := writable(path(tc.name))
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: writable: %v, want %q", tc.name, err, tc.says)
		}
		if after, _ := filepath.Glob(path("*")); len(after) != len(before) && tc.name != "ahead" {
			t.Errorf("%s: writable left %q", tc.name, after)
		}
		err = save(path(tc.name), func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err })
		if tc.says != "" {
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
			}
			continue
		}
		info, errInfo := os.Lstat(path(tc.name))
		if err != nil || errInfo != nil || info.Mode().Type() != tc.kind {
			t.Errorf("%s: %v, %v, mode %v, want %v", tc.name, err, errInfo, info.Mode(), tc.kind)
			continue
		}
		text := ""
		if tc.kind == fs.ModeNamedPipe {
			text = <-read
		} else {
			b, _ := os.ReadFile(path(tc.name))
			text = string(b)
		}
		if text != "text" {
			t.Errorf("%s: %q", tc.name, text)
		}
		if after, _ := filepath.Glob(path(".*")); len(after) != len(hidden) {
			t.Errorf("%s: left %q", tc.name, after)
		}
	}
	if b, _ := os.ReadFile(path("bare/same")); string(b) != "text" {
		t.Errorf("a link was not followed: %q", b)
	}
}

// TestOutputFails: what cannot be written is no success, whatever the command.
func TestOutputFails(t *testing.T) {
	for _, args := range []string{"--help", "--version", "doctor", "doctor --json", "mesh --help", "selftest --help",
		"report -o - " + savedBW, "compare " + savedBW + " " + savedBW} {
		var diag bytes.Buffer
		rc := run(t.Context(), strings.Fields(args), full{}, &diag)
		if rc != exitFailure || strings.Count(diag.String(), "no space left on device") != 1 {
			t.Errorf("%s: exit code %d, %q", args, rc, diag.String())
		}
	}
	var stdout, diag bytes.Buffer
	rc := run(t.Context(), []string{"write", "bw", "--out-json-file", "/none/x.json"}, &stdout, &diag)
	if rc != exitFailure || stdout.Len() != 0 || strings.Count(diag.String(), "\n") != 1 ||
		!strings.Contains(diag.String(), "/none/x.json: no such file") {
		t.Errorf("a file that cannot be written: exit code %d, %q", rc, diag.String())
	}
}

// full is a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("write: no space left on device") }
