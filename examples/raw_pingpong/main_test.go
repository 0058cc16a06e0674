package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestRun_Usage(t *testing.T) {
	const ends = "-B e4:1d:2d:00:00:01 -E e4:1d:2d:00:00:02 "
	for args, want := range map[string]string{
		ends:                            "want one of --server and --client",
		ends + "--server --client":      "want one of --server and --client",
		"--server":                      `-B "": want an Ethernet address`,
		"--server -B 1:2 -E x":          "-E \"x\": want an Ethernet address",
		ends + "--client -n 0":          "-n 0: want 1 to",
		ends + "--client -s 13":         "-s 13: want 14 to 16384",
		ends + "--client elsewhere":     `"elsewhere": no arguments`,
		"--server -B 00:00:5e:00:53:01": `-E "": want an Ethernet address`,
	} {
		flags.VisitAll(func(f *pflag.Flag) { _ = f.Value.Set(f.DefValue) }) // as a new process has them
		if err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("raw_pingpong %s: %v, want %q", args, err, want)
		}
	}
}
