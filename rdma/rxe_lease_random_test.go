package rdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_RandomLeases runs random operations of many leases in both directions, among messages, and compares each with
// a model of the memory. Leases end in every way; afterwards their memory must stay as it is.
func TestRXE_RandomLeases(t *testing.T) {
	server, client := keyEngines(t, EngineOptions{Memory: 64 << 20}, KeysMR, KeysWindow)
	leases, most := 24, 60
	switch {
	case testutil.Full():
		leases, most = 2000, 200
	case !testutil.NeedRXE(t).Emulated:
		leases, most = 4, 10
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	o := &LeaseOptions{Grace: testutil.Patience}
	a, b := leaseConns(t, server, client, o, o)
	const abreast = 4
	var apps, receivers sync.WaitGroup
	for k, way := range [][2]*Conn{{a, b}, {b, a}} {
		receivers.Go(func() { notes(t, way[0]) })
		for i := range abreast {
			apps.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(k*abreast+i)))
				for range leases / abreast / 2 {
					leaseModel(t, seed, way[0], way[1], rnd, most)
				}
			})
		}
		apps.Go(func() { // messages of several frames
			for i := range most {
				p := bytes.Repeat([]byte{byte(i)}, 1+i*997%100_000)
				if err := way[1].SendImm(timeout(t), uint32(i), p); err != nil {
					t.Errorf("seed %d: message %d: %v", seed, i, err)
					return
				}
			}
		})
	}
	apps.Wait()
	ok(t, a.CloseWrite())
	ok(t, b.CloseWrite())
	receivers.Wait()
	ok(t, a.Close())
	ok(t, b.Close())
}

// notes receives messages and notifications until the peer has sent all: those of each sender come in order.
func notes(t *testing.T, c *Conn) {
	next := make(map[string]uint32)
	for {
		m, err := c.Recv(timeout(t))
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Errorf("receiving: %v", err)
			return
		}
		imm, _ := m.Imm()
		from, p := "messages", m.Bytes()
		if bytes.HasPrefix(p, []byte("lease ")) {
			from = string(p)
		} else if want := bytes.Repeat([]byte{byte(imm)}, 1+int(imm)*997%100_000); !bytes.Equal(p, want) {
			t.Errorf("message %d has %d bytes, %d, want %d", imm, len(p), p[0], len(want))
		}
		if imm != next[from] {
			t.Errorf("%s: number %d, want %d", from, imm, next[from])
		}
		next[from] = imm + 1
		m.Release()
	}
}

var leaseNames struct {
	sync.Mutex
	n int
}

// leaseModel lends memory, does up to most random operations with it, and ends the lease.
func leaseModel(t *testing.T, seed uint64, owner, holder *Conn, rnd *rand.Rand, most int) {
	ctx := timeout(t)
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("seed %d: %s", seed, fmt.Sprintf(format, args...))
	}
	n := 8 * (1 + rnd.IntN([]int{4, 1000, 40_000}[rnd.IntN(3)]))
	mem, err := owner.Engine().Pool().Get(n)
	if err != nil {
		fail("%v", err)
		return
	}
	defer mem.Release()
	local, err := holder.Engine().Pool().Get(n)
	if err != nil {
		fail("%v", err)
		return
	}
	defer func() { local.Release() }()
	model := scrambleBy(mem, rnd)
	unknown := false // a write was cut off
	d := time.Duration(0)
	if rnd.IntN(4) == 0 {
		d = time.Duration(10+rnd.IntN(50)) * time.Millisecond
	}
	leaseNames.Lock() // so that the region is this lease's
	s, err := owner.Lend(ctx, mem, everything(owner.Engine()), d)
	if err != nil {
		leaseNames.Unlock()
		fail("lend: %v", err)
		return
	}
	leaseNames.n++
	name := fmt.Sprintf("lease %d", leaseNames.n)
	live, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.Done():
		case <-live.Done():
		}
		cancel()
	}()
	r, err := holder.Borrow(live)
	leaseNames.Unlock()
	if err != nil && d == 0 {
		fail("borrow: %v", err)
	}
	over := func(err error) bool {
		return errors.Is(err, ErrRevoked) || errors.Is(err, ErrExpired) || errors.Is(err, ErrReturned)
	}
	ops, noted := rnd.IntN(most), uint32(0)
	revoked := make(chan error, 1)
	revokeAt := -1
	if rnd.IntN(3) == 0 {
		revokeAt = rnd.IntN(ops + 1)
	}
	for i := 0; err == nil && i < ops; i++ {
		if i == revokeAt {
			go func() { revoked <- s.Revoke(ctx) }()
		}
		off := rnd.IntN(n)
		size := 1 + rnd.IntN(n-off)
		kind := rnd.IntN(6)
		if kind == 3 && !hasAtomics(owner.Engine()) {
			kind = 2
		}
		switch kind {
		case 0, 1:
			new := scrambleBy(local, rnd)
			tr := r.Transfer()
			tr.Write(local, off, off+size, int64(off))
			if note := rnd.IntN(3) == 0; note {
				tr.NotifyImm(noted, []byte(name))
				if err = tr.Do(ctx); err == nil {
					noted++
				}
			} else {
				err = tr.Do(ctx)
			}
			if err == nil {
				copy(model[off:off+size], new[off:])
			}
			unknown = unknown || err != nil
		case 2:
			clear(local.Bytes())
			tr := r.Transfer()
			for at := off; at < off+size; {
				end := min(off+size, at+1+rnd.IntN(size))
				tr.Read(local, at, end, int64(at))
				at = end
			}
			if err = tr.Do(ctx); err == nil && !bytes.Equal(local.Bytes()[off:off+size], model[off:off+size]) {
				fail("%s: %d bytes at %d differ from the model", name, size, off)
			}
		case 3:
			at := off &^ 7
			old, add := binary.NativeEndian.Uint64(model[at:]), rnd.Uint64()
			var was uint64
			was, err = r.FetchAdd(ctx, int64(at), add)
			if err == nil && was != old {
				fail("%s: %#x was at %d, want %#x", name, was, at, old)
			}
			binary.NativeEndian.PutUint64(model[at:], old+add)
			unknown = unknown || err != nil
		case 4: // one whose context ends
			short, stop := context.WithTimeout(ctx, time.Duration(rnd.IntN(200))*time.Microsecond)
			local.Truncate(n)
			if err = r.Read(short, local, 0); errors.Is(err, context.DeadlineExceeded) {
				local.Release() // it may still be written
				if local, err = holder.Engine().Pool().Get(n); err != nil {
					fail("%v", err)
				}
			}
			stop()
		case 5:
			if e := s.Extend(ctx, d); e != nil && !over(e) {
				fail("extend: %v", e)
			}
		}
		if err != nil && !over(err) {
			fail("%s: %v", name, err)
		}
	}
	if r != nil && revokeAt != ops {
		if err := r.Return(ctx); err != nil {
			fail("return: %v", err)
		}
	} else if r != nil {
		go func() { revoked <- s.Revoke(ctx) }()
	}
	if _, err := s.Wait(ctx); err != nil && !over(err) {
		fail("wait: %v", err)
	}
	if !unknown && !bytes.Equal(mem.Bytes(), model) {
		fail("%s: the memory differs from the model at the end", name)
	}
	was := bytes.Clone(mem.Bytes())
	time.Sleep(time.Duration(rnd.IntN(1000)) * time.Microsecond)
	if !bytes.Equal(mem.Bytes(), was) {
		fail("%s: the memory has changed after the end", name)
	}
}

// scrambleBy fills a buffer with random bytes, and returns a copy.
func scrambleBy(b *Buffer, rnd *rand.Rand) []byte {
	p := b.Bytes()
	for i := 0; i+8 <= len(p); i += 8 {
		binary.NativeEndian.PutUint64(p[i:], rnd.Uint64())
	}
	return bytes.Clone(p)
}
