package rdma

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"testing"
)

func TestRXE_Stream(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := streams(t, server, client)
	defer a.Close()
	defer b.Close()
	data := make([]byte, 3<<20)
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	done := make(chan error, 1)
	go func() {
		for rest := data; len(rest) > 0; {
			n := min(1+rnd.IntN(70000), len(rest))
			if rnd.IntN(2) == 0 {
				n = min(n, 1+rnd.IntN(40))
			}
			if _, err := a.Write(rest[:n]); err != nil {
				done <- err
				return
			}
			rest = rest[n:]
		}
		done <- a.CloseWrite()
	}()
	h := sha256.New()
	n, err := io.Copy(h, b)
	ok(t, err)
	ok(t, <-done)
	if want := sha256.Sum256(data); n != int64(len(data)) || !bytes.Equal(h.Sum(nil), want[:]) {
		t.Errorf("%d bytes with another hash, want %d", n, len(data))
	}
}
