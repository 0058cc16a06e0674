package ending

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// wait is a call of Close whose peer takes what was sent after a time; never is longer than any.
func wait(a *Allowance, linger, takes time.Duration) (delivered bool) {
	most := a.Begin(linger)
	waited := min(most, takes)
	time.Sleep(waited)
	a.End(linger, waited, takes > most)
	return takes <= most
}

const never = time.Hour

// TestAllowance closes connections one after the other.
func TestAllowance(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name      string
		takes     func(i int) time.Duration
		between   time.Duration
		most      time.Duration // in all
		delivered int           // at least, of 1,000
	}{
		{"peers that take nothing", func(int) time.Duration { return never }, 0, linger + time.Second, 0},
		{"slow ones", func(int) time.Duration { return 20 * ms }, 0, 20 * time.Second, 1000},
		{"one of two takes nothing", func(i int) time.Duration { return time.Duration(i%2) * never }, 0,
			linger + time.Second, 500},
		{"a few take nothing", func(i int) time.Duration {
			if i%200 == 0 {
				return never
			}
			return 10 * ms
		}, 0, linger + time.Second + 10*time.Second, 995},
		{"with a pause", func(int) time.Duration { return never }, time.Millisecond, linger + 3*time.Second, 0},
		{"now and then", func(int) time.Duration { return never }, 4 * linger, 1000 * 5 * linger, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a Allowance
				began, delivered := time.Now(), 0
				for i := range 1000 {
					if wait(&a, linger, c.takes(i)) {
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
			if most := a.Begin(linger); most != linger {
				t.Errorf("round %d: %v, want %v", round, most, linger)
			}
			time.Sleep(linger)
			a.End(linger, linger, true)
			if most := a.Begin(linger); most > linger/20 || most <= 0 {
				t.Errorf("round %d: %v right after it", round, most)
			}
			a.End(linger, 0, false)
			time.Sleep(growth * (linger + reserveMost))
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
					wait(&a, l, rand.N(2*l))
					if took := time.Since(began); took > l {
						t.Errorf("%v, with a linger of %v", took, l)
					}
					time.Sleep(rand.N(time.Second))
				}
			})
		}
		all.Wait()
		if a.waiting != 0 || a.used < 0 {
			t.Errorf("at the end %d wait, %v is used", a.waiting, a.used)
		}
	})
}
