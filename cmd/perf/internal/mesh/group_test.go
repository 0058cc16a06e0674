package mesh

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// cluster describes the NICs of a mesh: what each does alone, as a share of 400 Gb/s, and the rate of its link.
type cluster struct {
	hosts, nics int
	does, rate  func(host, nic int) float64
	noise       fabricNoise
	rounds      int
}

// measure returns the figures of the rails of all pairs, or of so many rounds. A pair does what the worse NIC does.
func (c cluster) measure(seed uint64) *Result {
	r := rand.New(rand.NewPCG(seed, 5))
	if c.rounds == 0 {
		c.rounds = c.hosts + c.hosts%2 - 1
	}
	res := tournament(c.hosts, c.rounds, func(int, int) (float64, float64) { return 1, 1 })
	pairs := res.Pairs
	res.Pairs, res.many, res.rates = nil, c.nics > 1, map[end]float64{}
	for _, p := range pairs {
		for i := range c.nics {
			x := min(c.does(p.from, i), c.does(p.to, i))
			p.fromNIC, p.toNIC, p.many = i, i, c.nics > 1
			p.FromNIC, p.ToNIC = fmt.Sprint("mlx5_", i), fmt.Sprint("mlx5_", i)
			p.Bits, p.P50 = 400e9*x*c.noise.at(r), 2000*(1+0.5*(1-x))/fabricNoise{noise: c.noise.noise}.at(r)
			res.Pairs = append(res.Pairs, p)
			if c.rate != nil {
				res.rates[p.end(0)], res.rates[p.end(1)] = c.rate(p.from, i), c.rate(p.to, i)
			}
		}
	}
	return res
}

// TestGroups: only equal NICs are compared: of one rail and rate, or of a group that the figures show. A few slow ones
// are no group.
func TestGroups(t *testing.T) {
	// of returns what hosts do: those from an index on the given share, others all.
	of := func(from int, share float64) func(int, int) float64 {
		return func(host, _ int) float64 {
			if host >= from {
				return share
			}
			return 1
		}
	}
	with := func(f func(int, int) float64, host, nic int, share float64) func(int, int) float64 {
		return func(h, n int) float64 {
			if h == host && n == nic {
				return share
			}
			return f(h, n)
		}
	}
	gbits := func(f func(int, int) float64) func(int, int) float64 {
		return func(h, n int) float64 { return 400e9 * f(h, n) }
	}
	storage := func(_, nic int) float64 {
		if nic >= 8 {
			return 0.25
		}
		return 1
	}
	one := fabricNoise{noise: 0.01}
	for _, tt := range []struct {
		name   string
		c      cluster
		want   []string // names of slow NICs or hosts
		groups int      // by bandwidth
	}{
		{"all equal", cluster{hosts: 16, nics: 1, does: of(16, 1)}, nil, 1},
		{"four old", cluster{hosts: 16, nics: 1, does: of(12, 0.5)}, nil, 2},
		{"four old, their rate is known", cluster{hosts: 16, nics: 1, does: of(12, 0.5), rate: gbits(of(12, 0.5))},
			nil, 2},
		{"four old, three rounds", cluster{hosts: 16, nics: 1, does: of(12, 0.5), rounds: 3}, nil, 2},
		{"half is old", cluster{hosts: 16, nics: 1, does: of(8, 0.5)}, nil, 2},
		{"most are old", cluster{hosts: 16, nics: 1, does: of(6, 0.5)}, nil, 2},
		{"three ages", cluster{hosts: 24, nics: 1, does: func(h, _ int) float64 {
			return []float64{1, 0.5, 0.25}[h/8]
		}}, nil, 3},
		{"a slow one among the old", cluster{hosts: 16, nics: 1, does: with(of(12, 0.5), 13, 0, 0.3)},
			[]string{"n13"}, 2},
		{"a slow one among the others", cluster{hosts: 16, nics: 1, does: with(of(12, 0.5), 3, 0, 0.7)},
			[]string{"n3"}, 2},
		{"one slow", cluster{hosts: 16, nics: 1, does: with(of(16, 1), 3, 0, 0.5)}, []string{"n3"}, 1},
		{"one slow of three", cluster{hosts: 3, nics: 1, does: with(of(3, 1), 1, 0, 0.5)}, []string{"n1"}, 1},
		{"one slow of four", cluster{hosts: 4, nics: 1, does: with(of(4, 1), 1, 0, 0.5)}, []string{"n1"}, 1},
		{"one slow of two", cluster{hosts: 2, nics: 1, does: with(of(2, 1), 1, 0, 0.5)}, nil, 1},
		{"two slow", cluster{hosts: 16, nics: 1, does: of(14, 0.5)}, []string{"n14", "n15"}, 1},
		{"four slow in many ways", cluster{hosts: 16, nics: 1, does: func(h, _ int) float64 {
			return max(0, []float64{0.3, 0.45, 0.6, 0.75, 1}[min(h, 4)])
		}}, []string{"n0", "n1", "n2", "n3"}, 1},
		{"a link that came up with half its rate", cluster{hosts: 16, nics: 1, does: with(of(16, 1), 3, 0, 0.5),
			rate: gbits(with(of(16, 1), 3, 0, 0.5))}, []string{"n3"}, 1},
		{"storage NICs", cluster{hosts: 16, nics: 10, does: storage}, nil, 10},
		{"storage NICs, one slow", cluster{hosts: 16, nics: 10, does: with(storage, 3, 8, 0.1)},
			[]string{"n3 mlx5_8"}, 10},
		{"storage NICs, another one", cluster{hosts: 16, nics: 10, does: with(storage, 3, 1, 0.25)},
			[]string{"n3 mlx5_1"}, 10},
		{"storage NICs of two hosts", cluster{hosts: 2, nics: 10, does: storage}, nil, 2},
		{"storage NICs of two hosts, their rates are known", cluster{hosts: 2, nics: 10, does: storage,
			rate: gbits(storage)}, nil, 2},
		{"old hosts with storage NICs", cluster{hosts: 16, nics: 10, does: func(h, n int) float64 {
			return storage(h, n) * of(12, 0.5)(h, n)
		}}, nil, 20},
		{"slow paths", cluster{hosts: 500, nics: 1, does: of(500, 1), noise: fabricNoise{noise: 0.01, half: 0.2},
			rounds: 3}, nil, 1},
	} {
		if tt.c.noise.noise == 0 {
			tt.c.noise = one
		}
		r := tt.c.measure(1)
		r.judge(Outliers{Deviations: 5, Share: 0.1})
		var got []string
		for _, s := range r.SlowHosts {
			if n := endName(s.Host, s.NIC); !slices.Contains(got, n) && s.Figure == Figures[0].Key {
				got = append(got, n)
			}
		}
		slices.Sort(got)
		slices.Sort(tt.want)
		if tt.c.nics == 1 {
			for i := range got {
				got[i], _, _ = strings.Cut(got[i], " ")
			}
		}
		groups := 0
		for _, g := range r.Groups {
			if groups += lists.When(g.Figure == Figures[0].Key, 1); g.Shows == 0 && g.NICs > 4 && tt.c.rounds == 0 &&
				tt.c.hosts > 2 {
				t.Errorf("%s: nothing shows in %+v", tt.name, g)
			}
		}
		if !slices.Equal(got, tt.want) || groups != tt.groups {
			t.Errorf("%s: slow %q, want %q; %d groups, want %d: %+v", tt.name, got, tt.want, groups, tt.groups,
				r.Groups)
		}
	}
}

// TestRates: the rates that agents report reach the verdict, and the text says what the mesh could find.
func TestRates(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		c.Outliers = Outliers{Deviations: 5, Share: 0.1}
		f := newFabric()
		hosts := same(8, cards("a", "b"))
		for i := range hosts {
			hosts[i] = slices.Clone(hosts[i])
			if hosts[i][0].Rate, hosts[i][1].Rate = 400e9, 100e9; i >= 5 { // old, and fewer than a figure would show
				hosts[i][0].Rate = 200e9
				f.slow[fmt.Sprint("n", i, " a")] = 50e9
			}
		}
		f.slow["n1 b"] = 60e9
		res, _ := f.mesh(t, c, hosts)
		if len(res.SlowHosts) != 1 || res.SlowHosts[0].NIC != "b" || res.SlowHosts[0].Host != "n1" {
			t.Errorf("slow %+v", res.SlowHosts)
		}
		rates := map[float64]int{}
		for _, g := range res.Groups {
			rates[g.Rate] += g.NICs
		}
		if rates[400e9] != 2*5 || rates[200e9] != 2*3 || rates[100e9] != 2*8 {
			t.Errorf("groups %+v", res.Groups)
		}
		if good, bad := res.Sort(); len(good) != 7 || !slices.Equal(bad, []string{"n1"}) {
			t.Errorf("good %q, bad %q", good, bad)
		}
	})
}

// noisy acts as tests whose figures scatter.
type noisy struct {
	fabricNoise
	mu  *sync.Mutex
	r   *rand.Rand
	own float64 // what the NIC has less
	nic string  // which one; empty: all
}

func (n noisy) Run(_ context.Context, t agent.Task, listening func(int) error) (f agent.Figures, err error) {
	if t.Server() {
		return f, listening(4711)
	}
	time.Sleep(10 * time.Millisecond)
	n.mu.Lock()
	defer n.mu.Unlock()
	x := n.at(n.r)
	if n.nic == "" || n.nic == t.NIC {
		x *= 1 - n.own
	}
	if t.Test.Metric == wire.Bandwidth {
		f.Bits = 400e9 * x
	} else {
		f.P50 = 2000 / x
		f.P99, f.Max = f.P50, f.P50
	}
	return f, nil
}

// TestAlarmsOfAgents: of 500 NICs of 125 hosts, by agents and with --confirm, the one with 12 % less is named and
// confirmed, and no other one is.
func TestAlarmsOfAgents(t *testing.T) {
	c := config(t)
	runs := 1
	if testutil.Full() {
		runs = 20
	}
	for run := range runs {
		synctest.Test(t, func(t *testing.T) {
			c := c
			const hosts = 125
			c.Expect, c.Rounds, c.Confirm, c.Outliers = hosts, 3, true, Outliers{5, 0.1}
			p := newParty(t, c)
			mu, r := &sync.Mutex{}, rand.New(rand.NewPCG(uint64(run), 2))
			for i := range hosts {
				name := fmt.Sprint("n", i)
				w := worker(name, roster.Place{Rank: i, Of: hosts}, noisy{fabricNoise{noise: 0.01}, mu, r,
					0.12 * float64(lists.When(i == 77, 1)), "c"})
				w.NICs = cards("a", "b", "c", "d")
				p.join(t.Context(), w, nil)
			}
			res, err := Run(t.Context(), p.c)
			p.hall.Close()
			p.wg.Wait()
			for _, s := range res.SlowHosts {
				if s.Host != "n77" || s.NIC != "c" || s.Part != parts[0] && s.Figure == Figures[0].Key ||
					!s.Holds() {
					t.Errorf("slow %+v", s)
				}
			}
			good, bad := res.Sort()
			if err != nil || len(good) != hosts-1 || !slices.Equal(bad, []string{"n77"}) {
				t.Errorf("%v, %d good, bad %q, unknown %v", err, len(good), bad, res.Unknown)
			}
		})
	}
}

// TestUntil: rounds follow until so small a loss would show, and no longer. If the NICs themselves differ by more, it
// ends, and the result says what would show.
func TestUntil(t *testing.T) {
	c := config(t)
	for _, tt := range []struct {
		name   string
		rounds int
		differ float64 // NICs, by so much at most
		until  float64
		reach  bool
	}{
		{"from three rounds", 3, 0, 0.12, true},
		{"from all", 0, 0, 0.05, true},
		{"at once", 0, 0, 0.5, true},
		{"never", 3, 0.2, 0.1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := c
			const hosts = 24
			c.Expect, c.Rounds, c.Until, c.Outliers = hosts, tt.rounds, tt.until, Outliers{5, tt.until / 2}
			p := newParty(t, c)
			mu, r := &sync.Mutex{}, rand.New(rand.NewPCG(1, 2))
			for i := range hosts {
				p.join(t.Context(), worker(fmt.Sprint("n", i), roster.Place{Rank: i, Of: hosts},
					noisy{fabricNoise{noise: 0.03}, mu, r, tt.differ * float64(i) / hosts, ""}), nil)
			}
			passes := 0
			p.c.Begun = func(string, int, int) { passes++ }
			res, err := Run(t.Context(), p.c)
			p.hall.Close()
			p.wg.Wait()
			worst := 0.0
			for _, g := range res.Groups {
				worst = max(worst, g.Shows)
			}
			first := tt.rounds
			if first == 0 {
				first = hosts - 1
			}
			if err != nil || tt.reach != (worst <= tt.until) || passes > 12 || len(res.SlowHosts) > 0 ||
				(tt.name == "at once") != (len(res.Pairs) == first*hosts) || len(res.Pairs) > 100*first*hosts {
				t.Errorf("%s: %v, %d pairs in %d passes, a loss of %v shows, slow %v", tt.name, err, len(res.Pairs),
					passes, worst, res.SlowHosts)
			}
			var text strings.Builder
			res.Text(&text, false)
			want := fmt.Sprintf("Bandwidth: a loss of %.0f%% would have shown in 95%% of runs\n",
				math.Ceil(100*res.Groups[0].Shows))
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, &text)
			}
		})
	}
}
