package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/examples/program"
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
		flags.VisitAll(func(f *pflag.Flag) { _ = f.Value.Set(f.DefValue) }) // as a new process has them
		if err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rping %s: %v, want %q", args, err, want)
		}
	}
}

// What the stock rping has in its pings.
func TestFill(t *testing.T) {
	for n, want := range map[int]string{
		0:          "rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr\x00",
		2:          "rdma-ping-2: CDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrst\x00",
		57:         "rdma-ping-57: zABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnop\x00",
		58:         "rdma-ping-58: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopq\x00",
		2147483647: "rdma-ping-2147483647: \x00",
	} {
		b := make([]byte, len(want))
		fill(b, n)
		if string(b) != want {
			t.Errorf("ping %d is %q, want %q", n, b, want)
		}
	}
}

func TestCompare(t *testing.T) {
	compare := func(b []byte, n int) error { return program.Compare(b, func(want []byte) { fill(want, n) }) }
	b := make([]byte, 300)
	fill(b, 5)
	if err := compare(b, 5); err != nil {
		t.Error(err)
	}
	for i := range b {
		b[i] ^= 1
		want := fmt.Sprintf("byte %d is %#02x, want %#02x", i, b[i], b[i]^1)
		if err := compare(b, 5); err == nil || err.Error() != want {
			t.Fatalf("byte %d: %v, want %q", i, err, want)
		}
		b[i] ^= 1
	}
	if err := compare(b, 6); err == nil || err.Error() != "byte 10 is 0x35, want 0x36" {
		t.Errorf("another ping: %v", err)
	}
}
