package rs

import (
	"errors"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
)

func TestParseStream(t *testing.T) {
	for args, want := range map[string]string{
		"-I 0":         "-I 0: want 1 to",
		"-C 0":         "-C 0: want 1 to",
		"-S 0":         "-S 0: want 1 to",
		"-B -1":        "-B -1: want 0 to",
		"-T forever":   "want one of async, blocking, nonblocking, verify",
		"--timeout 0s": "--timeout 0s: want more than 0",
		"-s h there":   `"there": no arguments`,
	} {
		var usage *cm.UsageError
		if _, err := ParseStream("rstream", strings.Fields(args)); !errors.As(err, &usage) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("rstream %s: %v, want %q", args, err, want)
		}
	}
	o, err := ParseStream("rstream", strings.Fields("-T b -T verify -S 5 -s host"))
	if err != nil || o.Wait != Blocking || !o.Verify || o.Size != 5 || o.Server != "host" {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestCount(t *testing.T) {
	var sent, received Count
	b := make([]byte, 700)
	for range 3 {
		sent.Fill(b)
		if err := received.Check(b); err != nil {
			t.Fatal(err)
		}
	}
	sent.Fill(b)
	b[300]++
	var wrong *CountError
	if err := received.Check(b); !errors.As(err, &wrong) || wrong.Offset != 300 || wrong.Got != wrong.Want+1 {
		t.Errorf("byte 300 was changed: %v", err)
	}
}
