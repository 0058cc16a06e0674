package main

import (
	"errors"
	"testing"

	"github.com/pureverbs/pureverbs/examples/program"
)

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

func TestVerify(t *testing.T) {
	b := make([]byte, 300)
	fill(b, 5)
	if err := verify(b, 5); err != nil {
		t.Error(err)
	}
	var wrong *program.PayloadError
	for i := range b {
		b[i] ^= 1
		if err := verify(b, 5); !errors.As(err, &wrong) || wrong.Offset != i {
			t.Fatalf("byte %d: %v", i, err)
		}
		b[i] ^= 1
	}
	if err := verify(b, 6); !errors.As(err, &wrong) || wrong.Offset != len("rdma-ping-") {
		t.Errorf("another ping: %v", err)
	}
}
