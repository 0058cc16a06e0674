package rdma

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// TestRXE_RandomTransfers sends random amounts in random pieces both ways at once, over connections that share the
// engines, with deadlines that pass in between, and compares the hashes.
func TestRXE_RandomTransfers(t *testing.T) {
	var servers, clients [2]*Engine // of small blocks and of large ones
	for i, opt := range []*EngineOptions{{Memory: 16 << 20}, {Memory: link.LargeLeast}} {
		servers[i], clients[i] = newEngines(t, opt)
	}
	r := testutil.NeedRXE(t)
	transfers := 40
	switch {
	case testutil.Full():
		transfers = 1000
	case !r.Emulated:
		transfers = 4
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range transfers {
		slots <- struct{}{}
		a, b := streams(t, servers[i%2], clients[i%2])
		wg.Go(func() {
			defer func() { <-slots }()
			rnd := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(i)<<8|n)) }
			var each sync.WaitGroup
			for k, way := range [][2]*Stream{{a, b}, {b, a}} {
				sent := make(chan hash.Hash, 1)
				each.Go(func() { sent <- send(t, way[0], rnd(uint64(2*k))) })
				each.Go(func() {
					got := receive(t, way[1], rnd(uint64(2*k+1)))
					if want := <-sent; !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
						t.Errorf("seed %d, transfer %d, way %d: the hash differs", seed, i, k)
					}
				})
			}
			each.Wait()
			ok(t, a.Close())
			ok(t, b.Close())
		})
	}
	wg.Wait()
}

func send(t *testing.T, s *Stream, rnd *rand.Rand) hash.Hash {
	h := sha256.New()
	buf := make([]byte, 200_000)
	for left := rnd.IntN(400_000); left > 0; {
		n := min(left, 1+rnd.IntN([]int{10, 100, 5000, 200_000}[rnd.IntN(4)]))
		for i := range n {
			buf[i] = byte(rnd.Uint32())
		}
		h.Write(buf[:n])
		left -= n
		for p := buf[:n]; len(p) > 0; {
			if rnd.IntN(4) == 0 {
				ok(t, s.SetWriteDeadline(time.Now().Add(time.Duration(rnd.IntN(3)-1)*time.Millisecond)))
			}
			c, err := s.Write(p)
			p = p[c:]
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("write: %v", err)
				return h
			}
			ok(t, s.SetWriteDeadline(time.Time{}))
		}
	}
	if err := s.CloseWrite(); err != nil {
		t.Errorf("close write: %v", err)
	}
	return h
}

func receive(t *testing.T, s *Stream, rnd *rand.Rand) hash.Hash {
	h := sha256.New()
	buf := make([]byte, 100_000)
	for {
		if rnd.IntN(4) == 0 {
			ok(t, s.SetReadDeadline(time.Now().Add(time.Duration(rnd.IntN(3)-1)*time.Millisecond)))
		}
		n, err := s.Read(buf[:1+rnd.IntN(len(buf))])
		h.Write(buf[:n])
		switch {
		case err == io.EOF:
			return h
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			t.Errorf("read: %v", err)
			return h
		}
		ok(t, s.SetReadDeadline(time.Time{}))
	}
}
