package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// over reports whether nothing runs and nothing is left.
func over(s *Schedule) bool {
	if s.running > 0 || s.next < len(s.steps) {
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
