package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestRun_Usage(t *testing.T) {
	for args, want := range map[string]string{
		"":                       `-m "": want a multicast address`,
		"-m 10.0.0.1":            `-m "10.0.0.1": want a multicast address`,
		"-m 239.1.2.3 -o":        "-o: want -s too",
		"-m 239.1.2.3 -b here":   "-b: ",
		"-m ff05::1 -C 0 -S 0":   "-C 0: want 1 to 16384\n-S 0: want 1 to",
		"-m 239.1.2.3 -C 16385":  "-C 16385: want 1 to 16384",
		"-m 239.1.2.3 elsewhere": `"elsewhere": no arguments`,
	} {
		flags.VisitAll(func(f *pflag.Flag) { _ = f.Value.Set(f.DefValue) }) // as a new process has them
		if err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mckey %s: %v, want %q", args, err, want)
		}
	}
}
