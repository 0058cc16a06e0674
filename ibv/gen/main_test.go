package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/gotext"
)

// The file that is there is what is generated.
func TestGenerated(t *testing.T) {
	if err := gotext.Stale("..", 1, generate); err != nil {
		t.Error(err)
	}
}

// Each kind that is more than a plain send or write has a check, and a directive names a step.
func TestRefusals(t *testing.T) {
	for name, src := range map[string]string{
		"no function with //kind:check Op": "package ibv\n",
		"no such step":                     "package ibv\n\n//kind:chek OpRead\nfunc f() {}\n",
		"no opcode":                        "package ibv\n\n//kind:check\nfunc f() {}\n",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "kind_x.go"), []byte(src), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := generate(dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}
