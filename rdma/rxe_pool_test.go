package rdma

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// poolEngine makes an engine for its pool alone.
func poolEngine(t *testing.T, memory int64) *Engine {
	t.Helper()
	e, err := NewEngine(testutil.NeedRXE(t).Dev[0], &EngineOptions{Memory: memory})
	ok(t, err)
	t.Cleanup(func() { ok(t, e.Close()) })
	return e
}

func panics(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "rdma: ") {
			t.Errorf("%s: the panic is %q", what, text)
		}
	}()
	f()
}

func TestRXE_Pool(t *testing.T) {
	e := poolEngine(t, 64<<20)
	p := e.Pool()
	var list []*Buffer
	for _, n := range []int{0, 1, 256, 257, 4096, 4097, 1 << 20, 4 << 20, 4<<20 + 1, 5_000_000} {
		for range 2 {
			b, err := p.Get(n)
			ok(t, err)
			if len(b.Bytes()) != n || cap(b.Bytes()) != n {
				t.Fatalf("Get(%d): a buffer of %d bytes, with room for %d", n, len(b.Bytes()), cap(b.Bytes()))
			}
			if sge := b.get().SGE(0, n); sge.Addr%64 != 0 {
				t.Errorf("the payload of %d bytes is at %#x, want a multiple of 64", n, sge.Addr)
			}
			list = append(list, b)
		}
	}
	for i, b := range list { // no byte is in two buffers
		fill(b.Bytes(), byte(i))
	}
	for i, b := range list {
		for at, v := range b.Bytes() {
			if v != byte(i) {
				t.Fatalf("byte %d of buffer %d is %d", at, i, v)
			}
		}
	}
	if s := e.Stats(); s.Buffers != len(list) || s.Memory < 20<<20 {
		t.Errorf("%+v, want %d buffers", s, len(list))
	}
	b := list[4]
	b.Truncate(7)
	if len(b.Bytes()) != 7 {
		t.Errorf("%d bytes after Truncate(7)", len(b.Bytes()))
	}
	panics(t, "Truncate beyond the end", func() { b.Truncate(257) })
	panics(t, "Truncate below 0", func() { b.Truncate(-1) })
	var busy *ibv.BusyError
	if err := e.Close(); !errors.As(err, &busy) || !strings.Contains(err.Error(), "20 buffers") {
		t.Errorf("Close with buffers: %v", err)
	}
	in := b.get()
	in.Pin()
	for _, b := range list {
		b.Release()
	}
	panics(t, "Bytes after Release", func() { b.Bytes() })
	panics(t, "Truncate after Release", func() { b.Truncate(0) })
	panics(t, "Release after Release", b.Release)
	if s := e.Stats(); s.Buffers != 1 {
		t.Errorf("%d buffers, want the one that is pinned", s.Buffers)
	}
	for range 100 {
		other, err := p.Get(256)
		ok(t, err)
		if other.get() == in {
			t.Fatal("a pinned buffer is given out")
		}
		defer other.Release()
	}
	in.Unpin()
	again, err := p.Get(200)
	ok(t, err)
	if again.get() != in {
		t.Error("Get does not return what was given back last")
	}
	again.Release()
	var arg *ibv.ArgError
	if _, err := p.Get(-1); !errors.As(err, &arg) {
		t.Errorf("Get(-1): %v", err)
	}
	if _, err := p.GetWait(t.Context(), -1); !errors.As(err, &arg) {
		t.Errorf("GetWait(-1): %v", err)
	}
	if _, err := p.Register(nil); !errors.As(err, &arg) {
		t.Errorf("Register(nil): %v", err)
	}
	mine := make([]byte, 10_000)
	r, err := p.Register(mine)
	ok(t, err)
	if &r.Bytes()[0] != &mine[0] || len(r.Bytes()) != len(mine) {
		t.Error("a registered buffer has other memory")
	}
	r.Release()
	if n := testing.AllocsPerRun(100, func() {
		b, _ := p.Get(4096)
		b.Release()
	}); n != 0 {
		t.Errorf("Get and Release: %v allocations", n)
	}
}

func fill(p []byte, v byte) {
	for i := range p {
		p[i] = v
	}
}

// TestRXE_PoolMemory spends the engine's memory. The error says so. Memory that is given back becomes available for
// buffers of any size, for which a goroutine waits, and for blocks.
func TestRXE_PoolMemory(t *testing.T) {
	needLogic(t)
	e := poolEngine(t, 32<<20)
	p := e.Pool()
	spend := func(size int) (list []*Buffer) {
		t.Helper()
		for {
			b, err := p.Get(size)
			var limit *ibv.LimitError
			switch {
			case err == nil:
				list = append(list, b)
				continue
			case !errors.Is(err, ErrNoMemory), !errors.As(err, &limit),
				!strings.Contains(err.Error(), "EngineOptions.Memory"):
				t.Errorf("the memory is spent: %v", err)
			}
			if got := e.Stats().Memory; got > 32<<20 || len(list)*size < 20<<20 {
				t.Errorf("%d bytes are registered, %d of them buffers of %d bytes", got, len(list)*size, size)
			}
			return list
		}
	}
	for _, size := range []int{256, 100_000, 4 << 20, 6 << 20} {
		list := spend(size)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 2)
		wait := func(ctx context.Context, n int) {
			b, err := p.GetWait(ctx, n)
			if err == nil {
				b.Release()
			}
			got <- err
		}
		go wait(ctx, 12<<20)
		testutil.Eventually(t, "GetWait waits", func() bool { return p.p.Wanted() })
		cancel()
		if err := <-got; err != context.Canceled {
			t.Errorf("GetWait: %v, want its context's error", err)
		}
		go wait(timeout(t), 12<<20)
		for _, b := range list { // slabs of the size are freed when their last buffer is
			b.Release()
		}
		ok(t, <-got)
	}
	for _, n := range []int{33 << 20, 31 << 20} { // blocks have the first 4 MiB
		if _, err := p.GetWait(t.Context(), n); !errors.Is(err, ErrNoMemory) {
			t.Errorf("GetWait for more than there can be: %v", err)
		}
	}
	small := spend(256)
	for _, b := range small {
		b.Release()
	}
	blocks := takeBlocks(t, e.e.Shards[0]) // the pool gives way to them
	if most := 32 << 20 / e.e.Shards[0].Stride; len(blocks) < most*3/4 {
		t.Errorf("%d blocks, want some %d", len(blocks), most)
	}
	for _, b := range blocks {
		e.e.Shards[0].Blocks.Give(b)
	}
}

// TestRXE_PoolHammer takes and gives back buffers of all sizes on many goroutines.
func TestRXE_PoolHammer(t *testing.T) {
	needLogic(t)
	e := poolEngine(t, 24<<20)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			var mine []*Buffer
			for range 300 {
				if len(mine) > 0 && rnd.IntN(2) == 0 {
					at := rnd.IntN(len(mine))
					for _, v := range mine[at].Bytes() {
						if v != byte(g) {
							t.Errorf("a buffer of goroutine %d has %d", g, v)
							return
						}
					}
					mine[at].Release()
					mine = slices.Delete(mine, at, at+1)
					continue
				}
				b, err := e.Pool().Get(1 << rnd.IntN(21))
				if errors.Is(err, ErrNoMemory) {
					continue
				}
				ok(t, err)
				fill(b.Bytes(), byte(g))
				mine = append(mine, b)
			}
			for _, b := range mine {
				b.Release()
			}
		})
	}
	wg.Wait()
	if s := e.Stats(); s.Buffers != 0 || s.Memory > 24<<20 {
		t.Errorf("at the end: %+v", s)
	}
	ok(t, e.Close())
	if _, err := e.Pool().Get(1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Get after Close: %v", err)
	}
	if _, err := e.Pool().Register(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Register after Close: %v", err)
	}
}
