package main

import (
	"strings"
	"testing"
)

func TestRun_Usage(t *testing.T) {
	for args, want := range map[string]string{
		"":                            "want either -s or -c",
		"-s -c -a h":                  "want either -s or -c",
		"-c":                          "want -a with the address of the server",
		"-c -a h -P":                  "-P is for -s",
		"-s --timeout 0s":             "--timeout 0s: want more than 0",
		"-c -a h -S 22":               "-S 22: want 23 to 65535",
		"-c -a h -S 65536":            "-S 65536: want 23 to 65535",
		"-c -a h -C -1":               "-C -1: want 0 to",
		"-c -a 10.0.0.1 -I somewhere": "-I: ",
		"-s here":                     `"here": no arguments`,
	} {
		if _, err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rping %s: %v, want %q", args, err, want)
		}
	}
}
