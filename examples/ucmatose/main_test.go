package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"-c 0":                "-c 0: want 1 to 65536",
		"-C -1":               "-C -1: want 0 to 16384",
		"-S 0":                "-S 0: want 1 to",
		"-C 16384 -S 1000000": "-C times -S 16384000000: want 0 to",
		"-t 256":              "-t 256: want -1 to 255",
		"-a 32":               "-a 32: want -1 to 31",
		"-s h there":          `"there": no arguments`,
	} {
		flags.VisitAll(func(f *pflag.Flag) { _ = f.Value.Set(f.DefValue) }) // as a new process has them
		if err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ucmatose %s: %v, want %q", args, err, want)
		}
	}
}
