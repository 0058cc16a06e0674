package admit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

const grace = 500 * time.Millisecond

// crowd are peers of a gate. A peer is its number.
type crowd struct {
	*Gate[int]
	began   []int
	refused []int
	under   map[int]*Handshake
	ctx     map[int]context.Context
	stop    context.CancelFunc
}

func newCrowd(handshakes, backlog, waiting int) *crowd {
	c := &crowd{under: make(map[int]*Handshake), ctx: make(map[int]context.Context)}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	type begun struct {
		ctx context.Context
		h   *Handshake
		p   int
	}
	var each = make(chan begun, 1000)
	c.Gate = New(ctx, Limits{Handshakes: handshakes, Backlog: backlog, Waiting: waiting, Grace: grace},
		func(ctx context.Context, h *Handshake, p int) { each <- begun{ctx, h, p} })
	go func() {
		for {
			select {
			case b := <-each:
				c.began = append(c.began, b.p)
				c.under[b.p], c.ctx[b.p] = b.h, b.ctx
			case <-ctx.Done():
				return
			}
		}
	}()
	return c
}

func (c *crowd) done(p int, ok bool) {
	h := c.under[p]
	delete(c.under, p)
	c.Done(h, ok)
	synctest.Wait()
}

func (c *crowd) add(from, to int) {
	for p := from; p < to; p++ {
		if q, over := c.Add(p); over {
			c.refused = append(c.refused, q)
		}
		synctest.Wait()
	}
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestGate_Newest: a peer begins next although others wait, and the one that waited longest is refused.
func TestGate_Newest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(2, 9, 3)
		defer c.stop()
		c.add(0, 6)
		want(t, "began", c.began, []int{0, 1})
		want(t, "refused", c.refused, []int{2})
		c.done(0, false)
		want(t, "began after one ended", c.began, []int{0, 1, 5})
	})
}

// TestGate_Evict: strangers that do not finish make room after their grace, not before, and only if somebody waits.
func TestGate_Evict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(3, 10, 10)
		defer c.stop()
		c.add(0, 3)
		time.Sleep(time.Hour)
		c.add(3, 4) // finds three that are old enough
		synctest.Wait()
		for p, evicted := range []bool{true, false, false} {
			want(t, fmt.Sprint(p, " is evicted"), errors.Is(context.Cause(c.ctx[p]), ErrEvicted), evicted)
		}
		want(t, "began", c.began, []int{0, 1, 2})
		c.done(0, false)
		want(t, "began", c.began, []int{0, 1, 2, 3})
		c.done(1, false)
		c.done(2, false)
		c.add(4, 6)
		c.add(6, 7)
		time.Sleep(grace - time.Millisecond)
		want(t, "ended within the grace", c.ctx[3].Err(), nil)
		time.Sleep(2 * time.Millisecond)
		want(t, "ended after it", context.Cause(c.ctx[3]), ErrEvicted)
		want(t, "another ended", c.ctx[4].Err(), nil)
	})
}

// TestGate_Backlog: connections that nobody accepts take the place of others, and are never ended.
func TestGate_Backlog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(3, 2, 10)
		defer c.stop()
		c.add(0, 2)
		c.done(0, true)
		c.done(1, true)
		c.add(2, 3)
		time.Sleep(time.Hour)
		want(t, "began", c.began, []int{0, 1})
		c.Taken()
		synctest.Wait()
		want(t, "began after Taken", c.began, []int{0, 1, 2})
	})
}

// TestGate_Close: nobody waits any longer, and nobody begins.
func TestGate_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(1, 5, 5)
		defer c.stop()
		c.add(0, 3)
		c.refused = c.Close()
		c.add(3, 4)
		want(t, "began", c.began, []int{0})
		want(t, "refused", len(c.refused), 3)
		c.done(0, true)
		c.Taken()
		time.Sleep(time.Hour)
		want(t, "began", c.began, []int{0})
	})
}

// TestGate_Random: of random peers, each begins or is refused exactly once unless it waits, the limits hold, and nobody
// is refused, evicted or waits without need.
func TestGate_Random(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			handshakes, backlog, most := 1+r.IntN(4), 1+r.IntN(6), r.IntN(6)
			c := newCrowd(handshakes, backlog, most)
			defer c.stop()
			next, ready := 0, 0
			began := make(map[int]time.Time)
			for step := range 300 {
				switch k := r.IntN(10); {
				case k < 4:
					c.add(next, next+1)
					next++
				case k < 6:
					for p := range c.under {
						ok := r.IntN(2) == 0
						c.done(p, ok)
						if ok {
							ready++
						}
						break
					}
				case k < 8:
					if ready > 0 {
						c.Taken()
						ready--
					}
				default:
					time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
				}
				synctest.Wait()
				seen := make(map[int]bool)
				for _, p := range append(append([]int{}, c.began...), c.refused...) {
					if seen[p] {
						t.Fatalf("seed %d, step %d: peer %d twice", seed, step, p)
					}
					seen[p] = true
				}
				waiting := next - len(seen)
				room := len(c.under) < handshakes && len(c.under)+ready < backlog
				switch {
				case len(c.under) > handshakes || len(c.under)+ready > backlog || waiting > most:
					t.Fatalf("seed %d, step %d: %d under way, %d ready, %d wait", seed, step, len(c.under), ready,
						waiting)
				case waiting > 0 && room:
					t.Fatalf("seed %d, step %d: %d wait while there is room", seed, step, waiting)
				case len(c.refused) > 0 && next <= min(most, handshakes):
					t.Fatalf("seed %d, step %d: refused without need", seed, step)
				}
				old := 0
				for p := range c.under {
					if _, known := began[p]; !known {
						began[p] = time.Now()
					}
					evicted := context.Cause(c.ctx[p]) != nil
					if evicted && time.Since(began[p]) < grace {
						t.Fatalf("seed %d, step %d: evicted within its grace", seed, step)
					}
					if !evicted && time.Since(began[p]) > grace {
						old++
					}
				}
				evicted := 0
				for p := range c.under {
					if context.Cause(c.ctx[p]) != nil {
						evicted++
					}
				}
				if old > 0 && evicted < waiting {
					t.Fatalf("seed %d, step %d: %d wait, %d old ones are not evicted", seed, step, waiting, old)
				}
			}
		})
	}
}
