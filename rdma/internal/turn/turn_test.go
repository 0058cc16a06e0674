package turn

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func newTurn(most int) *Turn {
	t := new(Turn)
	t.Init(most)
	return t
}

// idle checks that no goroutine has the turn or waits for it.
func (u *Turn) idle(t *testing.T) {
	t.Helper()
	if n := u.users.Load(); n != 0 || len(u.next) != 0 {
		t.Fatalf("%d users and %d tokens, want none", n, len(u.next))
	}
}

// TestTurn_Order: goroutines that wait have the turn in the order in which they came, without those that gave up.
func TestTurn_Order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newTurn(1)
		u.Take()
		if u.TryEnter() {
			t.Error("the turn was free")
		}
		if err := u.Enter(Bound{Now: true}); err != ErrWouldWait {
			t.Errorf("%v, want %v", err, ErrWouldWait)
		}
		var got []int
		for i := range 6 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour-time.Duration(i%2)*time.Minute)
			defer cancel()
			go func() {
				if err := u.Enter(Bound{Ctx: ctx}); err == nil {
					got = append(got, i)
					u.Leave()
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Hour - time.Second)
		u.Leave()
		synctest.Wait()
		if want := []int{0, 2, 4}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		u.idle(t)
	})
}

// TestTurn_Handed ends the bound of a goroutine while it is handed the turn.
func TestTurn_Handed(t *testing.T) {
	for others := range 2 {
		for range 500 {
			u := newTurn(1)
			u.Take()
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for i := range 1 + others {
				var b Bound
				if i == 0 {
					b.Ctx = ctx
				}
				all.Go(func() {
					if u.Enter(b) == nil {
						u.Leave()
					}
				})
			}
			for u.users.Load() < int32(2+others) {
				time.Sleep(time.Microsecond)
			}
			cancel()
			u.Leave()
			all.Wait()
			u.idle(t)
		}
	}
}

// TestTurn_Random: goroutines take turns, and some give up. If one at a time may have a turn, the race detector also
// sees whether that holds.
func TestTurn_Random(t *testing.T) {
	for _, most := range []int32{1, 3} {
		u := newTurn(int(most))
		var inside atomic.Int32
		var highest int32 // without a lock if most is 1
		var mu sync.Mutex
		var all sync.WaitGroup
		for seed := range uint64(8) {
			all.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(most)))
				for range 2000 {
					d := time.Duration(rnd.IntN(50)) * time.Microsecond
					ctx, cancel := context.WithTimeout(context.Background(), d)
					b := Bound{Ctx: ctx, Now: rnd.IntN(8) == 0}
					if rnd.IntN(2) == 0 {
						b.Ctx = nil
					}
					if u.Enter(b) == nil {
						if most > 1 {
							mu.Lock()
						}
						highest = max(highest, inside.Add(1))
						if most > 1 {
							mu.Unlock()
						}
						if rnd.IntN(4) == 0 {
							time.Sleep(time.Microsecond)
						}
						inside.Add(-1)
						u.Leave()
					}
					cancel()
				}
			})
		}
		all.Wait()
		u.idle(t)
		if highest != most {
			t.Errorf("%d had a turn at the same time, want %d", highest, most)
		}
	}
}

func TestTurnAllocs(t *testing.T) {
	u := newTurn(1)
	b := Bound{Ctx: t.Context()}
	if n := testing.AllocsPerRun(100, func() {
		if u.Enter(b) == nil {
			u.Leave()
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkTurn(b *testing.B) {
	u := newTurn(1)
	bound := Bound{Ctx: b.Context()}
	b.ReportAllocs()
	for b.Loop() {
		if u.Enter(bound) == nil {
			u.Leave()
		}
	}
}
