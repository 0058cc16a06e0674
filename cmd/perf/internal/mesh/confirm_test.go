package mesh

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
)

// TestConfirmMany: of many slow pairs the worst are measured again, and the result has the number of the others.
func TestConfirmMany(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		const hosts, slow = 30, 125
		c.Expect, c.Confirm, c.Outliers = hosts, true, Outliers{Deviations: 5, Share: 0.1}
		p := newParty(t, c)
		// Of 870 pairs a seventh is slow, each host in few of them.
		order := rand.New(rand.NewPCG(1, 2)).Perm(hosts * hosts)
		rank := func(from, to int) int { return order[from*hosts+to] }
		all := 0
		for from := range hosts {
			p.join(t.Context(), worker(fmt.Sprint("n", from), roster.Place{Rank: from, Of: hosts},
				speed(func(task agent.Task) (float64, func()) {
					to := 0
					fmt.Sscanf(task.Host, "n%d", &to)
					if k := rank(from, to); k < slow {
						return 10e9 + float64(k)*1e8, func() {}
					}
					return 100e9, func() {}
				})), nil)
			for to := range hosts {
				if from != to && rank(from, to) < slow {
					all++
				}
			}
		}
		res, err := Run(t.Context(), p.c)
		if err != nil || len(res.SlowHosts) > 0 || len(res.SlowPairs) != all {
			t.Fatalf("%v, %d slow hosts, %d slow pairs, want %d", err, len(res.SlowHosts), len(res.SlowPairs), all)
		}
		if len(res.Again) != mostAgain || res.PairsNotAgain != all-mostAgain {
			t.Errorf("%d again, %d not, of %d", len(res.Again), res.PairsNotAgain, all)
		}
		var again, not float64 // the best of those, the worst of these
		for _, s := range res.SlowPairs {
			switch {
			case s.Confirmed == nil && (not == 0 || s.Value < not):
				not = s.Value
			case s.Confirmed != nil:
				if again = max(again, s.Value); !*s.Confirmed {
					t.Errorf("%+v", s)
				}
			}
		}
		if again >= not {
			t.Errorf("a pair of %g is measured again, and one of %g is not", again, not)
		}
		var text strings.Builder
		res.Text(&text, false)
		if want := fmt.Sprint("0 slow hosts and ", all-mostAgain, " slow pairs were not measured again"); !strings.
			Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
		p.wg.Wait()
	})
}

// TestConfirmLoad: while all hosts measure, a fabric gives each two thirds. A NIC that has 0.75 of the others has more
// alone than they had, and is confirmed: its controls ran alone, too, between its own pairs.
func TestConfirmLoad(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		const hosts = 12
		c.Expect, c.Confirm, c.Outliers = hosts, true, Outliers{Deviations: 5, Share: 0.1}
		p := newParty(t, c)
		var alone atomic.Bool
		for i := range hosts {
			p.join(t.Context(), worker(fmt.Sprint("n", i), roster.Nowhere, speed(func(agent.Task) (float64, func()) {
				bits := 400e9
				if !alone.Load() {
					bits /= 1.5
				}
				if i == 5 {
					bits *= 0.75
				}
				return bits, func() {}
			})), nil)
		}
		var order []bool // whether each is one of a suspect
		p.c.Begun = func(pass string, _, _ int) { alone.Store(pass == "confirm") }
		p.c.Done = func(list []PairResult) {
			if alone.Load() {
				order = append(order, list[0].From == "n5" || list[0].To == "n5")
			}
		}
		res, err := Run(t.Context(), p.c)
		p.wg.Wait()
		if err != nil || len(res.SlowHosts) != 1 || res.SlowHosts[0].Host != "n5" || !res.SlowHosts[0].Holds() ||
			res.SlowHosts[0].Confirmed == nil || res.SlowHosts[0].Again.Value != 300e9 ||
			res.SlowHosts[0].Control != 400e9 {
			t.Errorf("%v, slow %+v", err, res.SlowHosts)
		}
		if len(res.Again) != len(res.Controls) || len(order) != 2*len(res.Again) {
			t.Errorf("%d again, %d controls, %d tests", len(res.Again), len(res.Controls), len(order))
		}
		for i := range order {
			if order[i] != (i%2 == 0) {
				t.Fatalf("the controls are not between the suspects: %v", order)
			}
		}
		if good, bad := res.Sort(); len(good) != hosts-1 || len(bad) != 1 {
			t.Errorf("good %q, bad %q", good, bad)
		}
	})
}

// TestClearedPairs: the slow pairs of a host that is not slow alone do not count, those of one that is do.
func TestClearedPairs(t *testing.T) {
	yes, no := true, false
	r := &Result{
		SlowHosts: []SlowHost{{Host: "cleared", Again: Again{Confirmed: &no}},
			{Host: "slow", Again: Again{Confirmed: &yes}}},
		SlowPairs: []SlowPair{
			{Direction: Direction{From: "cleared", To: "a"}},
			{Direction: Direction{From: "a", To: "slow"}},
			{Direction: Direction{From: "cleared", To: "slow"}},
			{Direction: Direction{From: "a", To: "b"}, Again: Again{Confirmed: &no}},
			{Direction: Direction{From: "b", To: "a"}},
			{Direction: Direction{From: "cleared", To: "b"}, Again: Again{Confirmed: &yes}},
		},
	}
	if hosts, figures := r.Slow(); hosts != 1 || figures != 4 {
		t.Errorf("%d slow hosts and %d figures of pairs, want 1 and 4", hosts, figures)
	}
}
