package schedule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// over reports whether nothing runs and nothing is left.
func over(s *Schedule) bool {
	if s.running > 0 || s.next < s.end {
		return false
	}
	for i := range s.queues {
		if len(s.queues[i].pairs) > 0 {
			return false
		}
	}
	return true
}

// play runs a schedule to its end in a random order, with hosts that are lost on the way, and returns how often each
// pair ran and was left out.
func play(t *testing.T, s *Schedule, o Order, n int, lose []int, r *rand.Rand) (ran, skipped map[Pair]int) {
	t.Helper()
	ran, skipped = map[Pair]int{}, map[Pair]int{}
	var running []Pair
	busy, lost := make([]int, n), make([]bool, n)
	for {
		begin, skip := s.Next()
		for _, p := range begin {
			if ran[p]++; p.From == p.To || lost[p.From] || lost[p.To] {
				t.Fatalf("%s of %d: %v begins", o, n, p)
			}
			busy[p.From]++
			busy[p.To]++
			if most := o.Together(n); busy[p.From] > most || busy[p.To] > most {
				t.Fatalf("%s of %d: %v begins, but a host has %d tests at a time", o, n, p, most)
			}
		}
		for _, p := range skip {
			if skipped[p]++; !lost[p.From] && !lost[p.To] {
				t.Fatalf("%s of %d: %v is left out", o, n, p)
			}
		}
		running = append(running, begin...)
		if len(running) == 0 {
			if !over(s) {
				t.Fatalf("%s of %d: nothing runs, and it is not over", o, n)
			}
			return ran, skipped
		}
		if len(lose) > 0 && r.IntN(4) == 0 {
			s.Lose(lose[0])
			lost[lose[0]], lose = true, lose[1:]
		}
		i := r.IntN(len(running))
		s.Done(running[i])
		if o != Rounds && len(s.look) > 0 {
			t.Fatalf("%s of %d: %d hosts are kept to be looked at, which only a tournament does", o, n, len(s.look))
		}
		busy[running[i].From]--
		busy[running[i].To]--
		running = append(running[:i], running[i+1:]...)
	}
}

// TestAllPairs: each order that covers all pairs has each once, also with hosts that are lost, whoever is fast.
func TestAllPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 2; n <= 17; n++ {
		for _, o := range []Order{Rounds, Single, All, Incast, Outcast} {
			for _, lose := range [][]int{nil, {n / 2}, {n - 1, 0}, r.Perm(n)} {
				s := New(o, n, 0)
				if s.Left() != n*(n-1) {
					t.Errorf("%s of %d: %d pairs", o, n, s.Left())
				}
				ran, skipped := play(t, s, o, n, lose, r)
				for from := range n {
					for to := range n {
						p := Pair{from, to}
						if from != to && ran[p]+skipped[p] != 1 {
							t.Errorf("%s of %d without %v: %v ran %d times, was left out %d times", o, n, lose, p,
								ran[p], skipped[p])
						}
					}
				}
			}
		}
	}
}

// TestSample: with N rounds each host is in N different pairs, both ways; with an odd number it may rest once.
func TestSample(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{2, 3, 8, 9, 100, 101} {
		for _, rounds := range []int{1, 3, 7, 1000} {
			t.Run(fmt.Sprintf("%d/%d", n, rounds), func(t *testing.T) {
				ran, _ := play(t, New(Rounds, n, rounds), Rounds, n, nil, r)
				partners := make([]int, n)
				for p, times := range ran {
					if times != 1 || ran[Pair{p.To, p.From}] != 1 {
						t.Errorf("%v %d times, back %d times", p, times, ran[Pair{p.To, p.From}])
					}
					partners[p.From]++
				}
				want := min(rounds, n+n%2-1)
				for h, k := range partners {
					if k != want && (n%2 == 0 || k != want-1) {
						t.Errorf("host %d is in %d pairs, want %d", h, k, want)
					}
				}
			})
		}
	}
}

// TestPatterns: a ring and a bisection.
func TestPatterns(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := 2; n < 9; n++ {
		ran, _ := play(t, New(Ring, n, 0), Ring, n, nil, r)
		for i := range n {
			if len(ran) != n || ran[Pair{i, (i + 1) % n}] != 1 {
				t.Errorf("ring of %d: %v", n, ran)
			}
		}
		ran, _ = play(t, New(Bisection, n, 0), Bisection, n, nil, r)
		for p := range ran {
			if (p.From < n/2) == (p.To < n/2) {
				t.Errorf("bisection of %d: %v", n, p)
			}
		}
		if len(ran) != n/2*2 {
			t.Errorf("bisection of %d: %v", n, ran)
		}
	}
	ran, _ := play(t, List(4, []Pair{{0, 1}, {2, 3}, {1, 0}}), Single, 4, nil, r)
	if len(ran) != 3 {
		t.Errorf("list: %v", ran)
	}
}

// TestFurther: each host is in so many more pairs, both ways, and in none again before it has been in all.
func TestFurther(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, tt := range []struct{ n, done, more, most int }{{8, 2, 5, 1}, {8, 7, 7, 1}, {8, 6, 14, 2}, {9, 9, 9, 1},
		{2, 1, 6, 6}} {
		ran, _ := play(t, Further(tt.n, tt.done, tt.more), Rounds, tt.n, nil, r)
		sends := make([]int, tt.n)
		for p, times := range ran {
			if sends[p.From] += times; times > tt.most || ran[Pair{p.To, p.From}] != times {
				t.Errorf("%+v: %v %d times, back %d times", tt, p, times, ran[Pair{p.To, p.From}])
			}
		}
		for h, times := range sends {
			if times != tt.more && (tt.n%2 == 0 || times < tt.more-2) {
				t.Errorf("%+v: host %d is in %d pairs", tt, h, times)
			}
		}
	}
}

// TestFree: no host waits for the slowest pair of a round, but for its own next partner.
func TestFree(t *testing.T) {
	s := New(Rounds, 8, 0)
	done := 0
	begin, _ := s.Next()
	slow, running := begin[0], begin[1:]
	for len(running) > 0 {
		s.Done(running[0])
		done++
		begin, _ := s.Next()
		running = append(running[1:], begin...)
	}
	if done < 6 {
		t.Errorf("while %v runs, %d others ran, want more than one round of 3", slow, done)
	}
}

// TestSampleNear: from two rounds on all hosts are connected, and from three on no two are further apart than twice the
// logarithm of their number and 2. Each host is in at most one pair of a round, and no pair occurs twice.
func TestSampleNear(t *testing.T) {
	var sizes []int
	for n := 2; n <= 100; n++ {
		sizes = append(sizes, n)
	}
	r := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{64, 65, 200, 257, 500, 1000, 1001, 4096, 10000, 16384, 20000} {
		sizes = append(sizes, n, n+r.IntN(n/10))
	}
	for _, n := range sizes {
		limit := int(math.Floor(2*math.Log2(float64(n)) + 2))
		if far(n) != limit {
			t.Fatalf("far(%d) is %d, want %d", n, far(n), limit)
		}
		for _, rounds := range []int{2, 3, 4, 5, 6, 7, 8, 17} {
			if rounds >= n+n%2-1 {
				continue // all pairs
			}
			s := New(Rounds, n, rounds)
			near, twice := make([][]int, n), map[Pair]bool{}
			for step := range s.end {
				busy := make([]bool, n)
				for _, p := range s.of(step) {
					if busy[p.From] || busy[p.To] || twice[p] {
						t.Fatalf("%d hosts, %d rounds: %v is there twice, or a host is", n, rounds, p)
					}
					busy[p.From], busy[p.To], twice[p] = true, true, true
					near[p.From] = append(near[p.From], p.To)
				}
			}
			most := 0
			for from := range n { // of many hosts, some
				if n <= 300 || from%(n/30) == 0 {
					most = max(most, reach(near, from))
				}
			}
			if most >= n || rounds > 2 && most > limit {
				t.Errorf("%d hosts, %d rounds: two are %d apart, want at most %d", n, rounds, most, limit)
			}
		}
	}
}

// TestSampleRepeats: the choice is the same each time.
func TestSampleRepeats(t *testing.T) {
	for _, n := range []int{9, 64, 100, 1001} {
		if a, b := sample(n, 3), sample(n, 3); !reflect.DeepEqual(a, b) {
			t.Errorf("%d hosts: %v, then %v", n, a, b)
		}
	}
}
