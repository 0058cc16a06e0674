package lease

import (
	"errors"
	"maps"
	"math/rand/v2"
	"testing"
	"time"
)

// TestLedger lends and takes back at random, and compares the counts with those of a list.
func TestLedger(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		most, count := rnd.Int64N(100), 1+rnd.IntN(6)
		l := NewLedger(most, count)
		type entry struct {
			n      int64
			ending bool
		}
		var model []entry
		sum := func(all bool) (n int, bytes int64) {
			for _, e := range model {
				if all || !e.ending {
					n, bytes = n+1, bytes+e.n
				}
			}
			return n, bytes
		}
		fits := func(n int64, all bool) bool {
			have, bytes := sum(all)
			return have < count && bytes+n <= most
		}
		for range 300 {
			n := rnd.Int64N(40)
			i := -1
			if len(model) > 0 {
				i = rnd.IntN(len(model))
			}
			switch rnd.IntN(3) {
			case 0:
				ending := false
				for _, e := range model {
					ending = ending || e.ending
				}
				soon, now := l.Soon(n), fits(n, true)
				if (soon != nil) != (ending && fits(n, false)) {
					t.Fatalf("seed %d: a lease of %d of %v: Soon returns %v", seed, n, model, soon)
				}
				if limit := l.Add(n); (limit == None) != now {
					t.Fatalf("seed %d: a lease of %d of %v: %v", seed, n, model, limit)
				}
				if now {
					model = append(model, entry{n: n})
				}
			case 1:
				if i >= 0 && !model[i].ending {
					model[i].ending = true
					l.End(model[i].n)
				}
			case 2:
				if i >= 0 && model[i].ending {
					soon := l.Soon(0)
					l.Ended(model[i].n)
					model = append(model[:i], model[i+1:]...)
					if soon != nil {
						<-soon
					}
				}
			}
			if have, bytes := sum(true); l.Open.N != have || l.Open.Bytes != bytes {
				t.Fatalf("seed %d: %d leases of %d bytes, want %v", seed, l.Open.N, l.Open.Bytes, model)
			}
		}
	}
	if none := NewLedger(-1, 5); none.Add(1) != Bytes {
		t.Error("an owner that lends nothing has lent")
	}
}

// TestDesk: at most RequestsMost requests have no reply; one goroutine at a time handles them, in order; the place of
// one is free when its reply is about to be sent.
func TestDesk(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	var d Desk[int]
	var queued, handled, next int // of the model: waiting for the goroutine, taken and without reply
	busy := false
	for range 20_000 {
		switch rnd.IntN(4) {
		case 0:
			came := d.Come(next + queued)
			if came != (queued+handled < RequestsMost) {
				t.Fatalf("seed %d: a request beside %d: %v", seed, queued+handled, came)
			}
			if came {
				queued++
			}
		case 1:
			if got := d.Start(); got != (!busy && queued > 0) {
				t.Fatalf("seed %d: Start returns %v", seed, got)
			} else if got {
				busy = true
			}
		case 2:
			if !busy {
				break
			}
			goOn := rnd.IntN(10) > 0
			r, ok := d.Next(goOn)
			if ok != (goOn && queued > 0) || ok && r != next {
				t.Fatalf("seed %d: Next returns %d, %v; want %d", seed, r, ok, next)
			}
			if busy = ok; ok {
				queued, handled, next = queued-1, handled+1, next+1
			}
		case 3:
			if handled > 0 {
				d.Reply()
				handled--
			}
		}
		if d.Open != queued+handled {
			t.Fatalf("seed %d: %d requests, want %d", seed, d.Open, queued+handled)
		}
	}
}

func TestAsks(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	var s Asks[int]
	model := make(map[uint16]int)
	for i := range 3 << 16 { // numbers wrap
		if len(model) < RequestsMost && rnd.IntN(2) == 0 {
			n := s.Add(i)
			if _, taken := model[n]; taken || n == 0 {
				t.Fatalf("seed %d: number %d is taken", seed, n)
			}
			model[n] = i
		}
		for n, want := range model {
			if rnd.IntN(RequestsMost) > 0 {
				break
			}
			if !s.Has(uint32(n)) || s.Has(uint32(n)+1<<16) || s.Take(n) != want || s.Has(uint32(n)) {
				t.Fatalf("seed %d: request %d", seed, n)
			}
			delete(model, n)
		}
	}
	left := make(map[int]bool)
	s.Clear(func(i int) { left[i] = true })
	want := make(map[int]bool)
	for _, i := range model {
		want[i] = true
	}
	if !maps.Equal(left, want) || s.Has(uint32(s.last)) {
		t.Errorf("seed %d: left %v, want %v", seed, left, want)
	}
}

var errA, errB = errors.New("a"), errors.New("b")

func TestTerm(t *testing.T) {
	now := time.Unix(1000, 0)
	var s Term
	if s.Expired(now) || s.Revoke(errA) || s.End() {
		t.Error("a lease that has not begun ends")
	}
	s.Begin(now.Add(time.Second))
	if s.Expired(now.Add(time.Second-1)) || !s.Expired(now.Add(time.Second)) {
		t.Error("it does not expire at its end")
	}
	for i := range 3 { // one EXTEND has the newest end
		if tell := s.Extend(now.Add(time.Duration(2+i) * time.Second)); tell != (i == 0) {
			t.Errorf("extension %d: tell %v", i, tell)
		}
	}
	if left := s.Told(now.Add(time.Second)); left != 3*time.Second {
		t.Errorf("%v are told", left)
	}
	if !s.Extend(now.Add(time.Second)) || s.Told(now.Add(2*time.Second)) != time.Millisecond {
		t.Error("an EXTEND that is sent late")
	}
	if !s.Revoke(errA) || s.Revoke(errB) || s.State != Revoking || s.Cause != errA || s.Expired(now.Add(time.Hour)) {
		t.Errorf("revoked: %+v", s)
	}
	if !s.End() || s.End() || s.State != Ending {
		t.Errorf("ended: %+v", s)
	}
}

// TestUse ends regions among operations: each is returned once, after the last operation.
func TestUse(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		var u Use
		under, returned := 0, 0
		for range 30 {
			switch rnd.IntN(4) {
			case 0:
				if u.Cause == nil {
					u.Begin()
					under++
				}
			case 1:
				if under > 0 {
					under--
					if u.Done() {
						returned++
					}
				}
			case 2:
				if u.End(errA) && u.Done() {
					returned++
				}
			case 3:
				if u.Cause != nil && u.End(errB) {
					t.Fatalf("seed %d: a region ends twice", seed)
				}
			}
			if want := u.Cause != nil && under == 0; returned > 1 || (returned == 1) != want {
				t.Fatalf("seed %d: returned %d times with %d under way, ended %v", seed, returned, under, u.Cause)
			}
		}
	}
}
