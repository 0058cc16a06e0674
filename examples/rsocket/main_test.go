package main

import (
	"strings"
	"testing"
)

func TestParseStream(t *testing.T) {
	for args, want := range map[string]string{
		"-I 0":         "-I 0: want 1 to",
		"-C 0":         "-C 0: want 1 to",
		"-S 0":         "-S 0: want 1 to",
		"-B -1":        "-B -1: want 0 to",
		"--timeout 0s": "--timeout 0s: want more than 0",
		"-s h there":   `"there": no arguments`,
	} {
		if err := parse("rstream", strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rstream %s: %v, want %q", args, err, want)
		}
	}
	err := parse("rstream", strings.Fields("-T b -T verify -S 5 -s host"))
	if err != nil || !flags.test["blocking"] || !flags.test["verify"] || flags.size != 5 || flags.Server != "host" {
		t.Errorf("%+v, %v", flags, err)
	}
}

func TestParsePong(t *testing.T) {
	for args, want := range map[string]string{
		"-C 0":          "-C 0: want 1 to",
		"-S 15":         "-S 15: want 16 to 2024",
		"-S 2025":       "-S 2025: want 16 to 2024",
		"--timeout -1s": "--timeout -1s: want more than 0",
	} {
		if err := parse("udpong", strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("udpong %s: %v, want %q", args, err, want)
		}
	}
}

func TestCounter(t *testing.T) {
	var sent, received counter
	b := make([]byte, 700)
	for range 3 {
		sent.fill(b)
		if err := received.check(b); err != nil {
			t.Fatal(err)
		}
	}
	sent.fill(b)
	b[300]++
	if err := received.check(b); err == nil || !strings.HasPrefix(err.Error(), "byte 300 is ") {
		t.Errorf("byte 300 was changed: %v", err)
	}
}
