package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
)

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"-C 0":           "-C 0: want 1 to",
		"-S 15":          "-S 15: want 16 to 2024",
		"-S 2025":        "-S 2025: want 16 to 2024",
		"-T blocking":    "want one of async, echo, nonblocking",
		"--timeout -1s":  "--timeout -1s: want more than 0",
		"-s h elsewhere": `"elsewhere": no arguments`,
	} {
		var usage *cm.UsageError
		if err := run(t.Context(), strings.Fields(args), io.Discard); !errors.As(err, &usage) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("udpong %s: %v, want %q", args, err, want)
		}
	}
}
