package pool

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// engine is a Host in memory.
type engine struct {
	adapter nic.Adapter
	pool    *Pool
	hurried int
}

const (
	testMemory = 16 << 20
	testSlab   = 1 << 20
)

func newEngine() *engine {
	e := &engine{adapter: nic.InMemory(inmem.New())}
	e.pool = New(e, Options{Memory: testMemory, Slab: testSlab, Budget: blocks.NewBudget(testMemory, testSlab)})
	return e
}

func (e *engine) Alloc(n int) (nic.Memory, error) { return e.adapter.Alloc(n, ibv.LocalWrite, nil) }

func (e *engine) Register(mem []byte) (nic.Memory, error) {
	return e.adapter.Register(mem, ibv.LocalWrite)
}

func (e *engine) Trim(wait bool) bool { return e.pool.Trim(wait) }
func (e *engine) Hurry()              { e.hurried++ }
func (e *engine) Kept() int64         { return testSlab }
func (e *engine) Name() string        { return "test" }

func (e *engine) Wait(b turn.Bound, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-b.Ctx.Done():
		return b.Ctx.Err()
	}
}

// TestPool gets and releases buffers of random sizes. No two overlap, the memory is never exceeded, and what nobody
// uses becomes available for other sizes.
func TestPool(t *testing.T) {
	e := newEngine()
	p := e.pool
	mine := map[*Handle]byte{}
	full, mark := 0, byte(0)
	for range 5000 {
		n := 1 << rand.IntN(23)
		n += rand.IntN(n)
		h, err := p.Get(n)
		if err == nil {
			b := h.Bytes()
			if len(b) != n || h.Get().Addr%blocks.Headroom != 0 {
				t.Fatalf("%d bytes at %#x, want %d", len(b), h.Get().Addr, n)
			}
			mark++
			b[0], b[n-1] = mark, mark
			mine[&h] = mark
		} else if full++; !errors.Is(err, ErrNoMemory) {
			t.Fatal(err)
		}
		for h, want := range mine {
			if err == nil || rand.IntN(8) == 0 {
				break // when nothing is left, some are released
			}
			b := h.Bytes()
			if b[0] != want || b[len(b)-1] != want {
				t.Fatalf("a buffer of %d bytes has %d and %d, want %d", len(b), b[0], b[len(b)-1], want)
			}
			h.Release()
			delete(mine, h)
		}
		if used := p.opt.Budget.Used(); used > testMemory || p.InUse() != len(mine) {
			t.Fatalf("%d bytes, %d buffers in use, want %d", used, p.InUse(), len(mine))
		}
	}
	if full == 0 || e.hurried != full {
		t.Errorf("the memory was spent %d times, and %d times the engine was asked for completions", full, e.hurried)
	}
	if n := p.Close(); n != len(mine) {
		t.Errorf("%d buffers are in use at the end, want %d", n, len(mine))
	}
	for h := range mine {
		h.Release()
	}
	p.Trim(true)
	if used := p.opt.Budget.Used(); used != 0 || p.Close() != 0 {
		t.Errorf("%d bytes are left", used)
	}
	if _, err := p.Get(1); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("Get after Close: %v", err)
	}
}

// TestPoolWait: GetWait waits for a Release or its context, and not for what can never be.
func TestPoolWait(t *testing.T) {
	e := newEngine()
	h, err := e.pool.Get(testMemory - 2*testSlab)
	if err != nil {
		t.Fatal(err)
	}
	var limit *ibv.LimitError
	if _, err := e.pool.GetWait(t.Context(), testMemory-blocks.Headroom); !errors.As(err, &limit) ||
		!errors.Is(err, ErrNoMemory) {
		t.Errorf("more than there can be: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error)
	for _, end := range []func(){cancel, h.Release} {
		go func() {
			other, err := e.pool.GetWait(ctx, 4*testSlab)
			if err == nil {
				other.Release()
			}
			got <- err
		}()
		for !e.pool.Wanted() {
			select {
			case err := <-got:
				t.Fatalf("GetWait does not wait: %v", err)
			default:
			}
		}
		end()
		if err := <-got; err != ctx.Err() {
			t.Errorf("GetWait: %v, want %v", err, ctx.Err())
		}
		ctx = t.Context()
	}
	if e.pool.InUse() != 0 || e.pool.Wanted() {
		t.Errorf("%d buffers are in use", e.pool.InUse())
	}
}

// TestPoolRegister: memory of the caller is used where it is, does not count, and is released with its buffer.
func TestPoolRegister(t *testing.T) {
	e := newEngine()
	mem := make([]byte, 100)
	h, err := e.pool.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	b := h.Get()
	if &h.Bytes()[0] != &mem[0] || len(h.Bytes()) != 100 || b.Headed() || e.pool.opt.Budget.Used() != 0 {
		t.Errorf("%d bytes, headed: %v, %d are used", len(h.Bytes()), b.Headed(), e.pool.opt.Budget.Used())
	}
	b.Pin()
	h.Release()
	if e.pool.InUse() != 1 {
		t.Error("the buffer is gone while the device uses it")
	}
	b.Unpin()
	if n := e.pool.Close(); n != 0 {
		t.Errorf("%d buffers are in use", n)
	}
}
