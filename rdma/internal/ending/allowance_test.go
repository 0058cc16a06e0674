package ending

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// peer is one that takes the rest of what was sent after a time, and something each gap before; never is longer than
// any.
type peer struct{ ago, gap, takes time.Duration }

// wait is a call of Close.
func (p peer) wait(a *Allowance, linger time.Duration) (delivered bool) {
	began := time.Now()
	taken := func() uint64 { return uint64(time.Since(began) / p.gap) }
	w, most := a.Begin(linger, p.ago, 0)
	for most > 0 && !delivered {
		left := p.takes - time.Since(began)
		delivered = left <= most
		time.Sleep(min(left, most))
		most = w.More(taken())
	}
	w.End(taken(), delivered)
	return delivered
}

const never = time.Hour

// after is a peer that takes all at once.
func after(takes time.Duration) peer { return peer{never, never, takes} }

// TestAllowance closes connections one after the other.
func TestAllowance(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name      string
		peer      func(i int) peer
		between   time.Duration
		most      time.Duration // in all
		delivered int           // at least, of 1,000
	}{
		{"peers that take nothing", func(int) peer { return after(never) }, 0, linger + time.Second, 0},
		{"slow ones", func(int) peer { return after(20 * ms) }, 0, 20 * time.Second, 1000},
		{"one of two takes nothing", func(i int) peer { return after(time.Duration(i%2) * never) }, 0,
			linger + time.Second, 500},
		{"a few take nothing", func(i int) peer {
			if i%200 == 0 {
				return after(never)
			}
			return after(10 * ms)
		}, 0, linger + time.Second + 10*time.Second, 995},
		{"with a pause", func(int) peer { return after(never) }, time.Millisecond, linger + 3*time.Second, 0},
		{"a few take all, and have taken nothing for long", func(i int) peer {
			if i%10 == 9 {
				return after(5 * ms)
			}
			return after(never)
		}, 0, linger + 15*time.Second, 100},
		{"a few take something all the time", func(i int) peer {
			if i%200 == 199 {
				return peer{ago: 10 * ms, gap: 100 * ms, takes: linger * 9 / 10}
			}
			return after(never)
		}, 0, 6*linger + time.Second, 5},
		{"one takes something after each second", func(i int) peer {
			if i == 500 {
				return peer{ago: 10 * ms, gap: time.Second, takes: linger - ms}
			}
			return after(never)
		}, 0, 2*linger + time.Second, 1},
		{"all have taken something lately, and take nothing any more",
			func(int) peer { return peer{linger / 2, never, never} },
			0, 1000 * linger, 0},
		{"now and then", func(int) peer { return after(never) }, 4 * linger, 1000 * 5 * linger, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a Allowance
				began, delivered := time.Now(), 0
				for i := range 1000 {
					if c.peer(i).wait(&a, linger) {
						delivered++
					}
					time.Sleep(c.between)
				}
				if took := time.Since(began); took > c.most || delivered < c.delivered {
					t.Errorf("%v, and %d delivered; want at most %v, and %d or more", took, delivered, c.most,
						c.delivered)
				}
			})
		})
	}
}

// TestAllowanceFirst lets the first wait for all of the time, and again when it has grown.
func TestAllowanceFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Allowance
		for round := range 3 {
			w, most := a.Begin(linger, never, 0)
			if most != linger {
				t.Errorf("round %d: %v, want %v", round, most, linger)
			}
			time.Sleep(linger)
			w.End(0, false)
			w, most = a.Begin(linger, never, 0)
			if most > linger/20 || most <= 0 {
				t.Errorf("round %d: %v right after it", round, most)
			}
			w.End(1, false)
			time.Sleep(growth * (linger + 500*time.Millisecond))
		}
	})
}

// TestAllowanceRandom has goroutines close at once, each with its own linger. No call waits longer than that.
func TestAllowanceRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Allowance
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for range 50 {
					l := time.Duration(1 + rand.Int64N(int64(time.Minute)))
					began := time.Now()
					peer{rand.N(2 * l), 1 + rand.N(2*l), rand.N(2 * l)}.wait(&a, l)
					if took := time.Since(began); took > l {
						t.Errorf("%v, with a linger of %v", took, l)
					}
					time.Sleep(rand.N(time.Second))
				}
			})
		}
		all.Wait()
		if a.waiting != 0 || a.used < 0 || a.used > 1 || a.spent < 0 || a.spent > patienceMost {
			t.Errorf("at the end %d wait, %v is used, %v spent", a.waiting, a.used, a.spent)
		}
	})
}
