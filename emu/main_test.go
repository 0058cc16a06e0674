//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/control"
)

// What needs no program and no emulator goes to standard output.
func TestWithoutProgram(t *testing.T) {
	t.Setenv(control.Env, "")
	for line, want := range map[string]string{
		"--version":      "emu of pureverbs ",
		"--list":         "mlx5_0",
		"--list-rules":   "wqe-index",
		"--help":         "Exit status",
		"-h":             "Usage: emu [flags] -- program args…",
		"control":        "emu control port DEVICE PORT up|down",
		"control help":   "emu control stats",
		"control --help": "take a device away",
	} {
		var out, diag bytes.Buffer
		code, err := run(strings.Fields(line), &out, &diag)
		if code != 0 || err != nil || diag.Len() > 0 || !strings.Contains(out.String(), want) {
			t.Errorf("emu %s: exit code %d, %v, stderr %q, stdout %q, want %q", line, code, err, &diag, &out, want)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	t.Setenv(control.Env, "")
	for line, want := range map[string]string{
		"":                           "no program to run",
		"--nosuch":                   "unknown flag",
		"--device a:b -- true":       "want up to 63 letters",
		"--device a,model=b -- true": `model "b" is none of`,
		"--limit a -- true":          "want NAME=NUMBER",
		"--fault a -- true":          "unknown kind",
		"--net=a -- true":            "want own, host or auto",
		"--links a -- true":          "want one of dummy",
		"--memlock a -- true":        "--memlock",
		"control port mlx5_0 1 down": "EMU_CONTROL is not set",
		"control nosuch":             "EMU_CONTROL is not set",
	} {
		var out, diag bytes.Buffer
		code, err := run(strings.Fields(line), &out, &diag)
		if code == 0 || err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("emu %s: exit code %d, %v, stdout %q, want %q", line, code, err, &out, want)
		}
		if strings.HasPrefix(line, "control") != (code == 1) || code != 1 && code != exitUsage {
			t.Errorf("emu %s: exit code %d", line, code)
		}
	}
}
