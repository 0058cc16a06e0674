package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/gotext"
)

// TestGenerated fails if functions.txt changed, and the files did not.
func TestGenerated(t *testing.T) {
	if err := gotext.Stale("../../..", 4, generate); err != nil {
		t.Error(err)
	}
}

func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"\tOpen() error", "is no function's"},
		{"int open;\n\tOpen() error", "no prototype"},
		{"int (*open)(struct ibv_context *);\n\tOpen(ctx uintptr) error", "no slot open"},
		{"int open(void);\n\tOpen(ctx", "missing ','"},
		{"int open(void);\n\tOpen(fd int) error", "no parameter for fd"},
		{"int open(int fd, int mode);\n\tOpen(fd int) error", "nothing for int mode"},
	} {
		packages, err := parse("package p\n" + tt.text)
		for _, f := range packages["p"] {
			err = f.write(new(bytes.Buffer), "DistClose = 8")
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}
