package mesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// fabric acts as the tests of agents with several NICs.
type fabric struct {
	mu    sync.Mutex
	dark  map[string]bool                           // such as "n3 b": a message of it, or to it, is lost
	fails func(t agent.Task, me, peer string) error // may be nil
	cut   func(a, b string) bool                    // reports whether those between two NICs are; may be nil
	slow  map[string]float64                        // bandwidth of a NIC that sends
	waits map[string]string                         // the NIC that is the server, by its port
	ports int
	tests []string // of clients, in turn
	small int      // tests of the first pass
}

type card struct {
	*fabric
	host string
}

func (c card) Run(ctx context.Context, t agent.Task, listening func(int) error) (f agent.Figures, err error) {
	me := c.host + " " + t.NIC
	c.mu.Lock()
	if t.Server() {
		c.ports++
		port := c.ports
		c.waits[fmt.Sprint(port)] = me
		c.mu.Unlock()
		return f, listening(port)
	}
	peer := c.waits[fmt.Sprint(t.Port)]
	bad := c.dark[me] || c.dark[peer] || c.cut != nil && c.cut(me, peer)
	if t.Test.Iters == reachMessages {
		c.small++
	}
	c.tests = append(c.tests, me+" > "+peer)
	bits := 100e9
	if c.slow[me] > 0 {
		bits = c.slow[me]
	}
	c.mu.Unlock()
	takes := 10 * time.Millisecond
	if bad {
		takes = t.Test.Silence
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return f, ctx.Err()
	}
	if c.fails != nil {
		err = c.fails(t, me, peer)
	}
	if bad {
		err = errors.New("no completion")
	}
	if err != nil {
		return f, err
	}
	if t.Test.Metric == wire.Bandwidth {
		return agent.Figures{Bits: bits}, nil
	}
	return agent.Figures{P50: 2000, P99: 3000, Max: 4000}, nil
}

func newFabric() *fabric {
	return &fabric{dark: map[string]bool{}, slow: map[string]float64{}, waits: map[string]string{}}
}

// mesh runs a mesh of hosts n0, n1 and so on with these NICs.
func (f *fabric) mesh(t *testing.T, c Config, hosts [][]agent.NIC) (*Result, time.Duration) {
	t.Helper()
	c.Expect, c.Timeout = len(hosts), 30*time.Second
	p := newParty(t, c)
	for i, list := range hosts {
		w := worker(fmt.Sprint("n", i), roster.Place{Rank: i, Of: len(hosts)}, card{f, fmt.Sprint("n", i)})
		w.NICs = list
		p.join(t.Context(), w, nil)
	}
	began := time.Now()
	res, err := Run(t.Context(), p.c)
	spent := time.Since(began)
	if err != nil || len(res.LostHosts) > 0 {
		t.Errorf("%v, lost %v", err, res.LostHosts)
	}
	p.hall.Close()
	p.wg.Wait()
	return res, spent
}

// cards returns NICs by their names. One with a link layer is written as name/layer, one whose link is down as !name.
func cards(names ...string) (list []agent.NIC) {
	for _, n := range names {
		name, link, _ := strings.Cut(n, "/")
		nic := agent.NIC{Name: strings.TrimPrefix(name, "!"), Link: link, Spare: true}
		if nic.Name != name {
			nic.Problem = "port is DOWN"
		}
		list = append(list, nic)
	}
	return list
}

func same(n int, list []agent.NIC) (hosts [][]agent.NIC) {
	for range n {
		hosts = append(hosts, list)
	}
	return hosts
}

// measured returns the pairs of NICs with figures, and the errors of the others.
func measured(r *Result) (good []string, bad map[string]string) {
	bad = map[string]string{}
	for i := range r.Pairs {
		from, to := r.Pairs[i].Ends()
		if p := &r.Pairs[i]; p.Error == "" && p.Bits > 0 && p.P50 > 0 {
			good = append(good, from+" > "+to)
		} else {
			bad[from+" > "+to] = p.Error
		}
	}
	slices.Sort(good)
	return good, bad
}

// TestRails: NICs of one name are measured with each other, or each with each. Without a common name the order decides.
// A NIC that only one host has is named.
func TestRails(t *testing.T) {
	c := config(t)
	for _, tt := range []struct {
		name  string
		rails Rails
		hosts [][]agent.NIC
		pairs []string // of n0 > n1
		all   int
		unmet []HostNIC
		bad   string // part of each error of the others
	}{
		{"one", SameRail, same(3, cards("a")), []string{"n0 > n1"}, 6, nil, ""},
		{"unnamed", SameRail, same(3, nil), []string{"n0 > n1"}, 6, nil, ""},
		{"two", SameRail, same(3, cards("a", "b")), []string{"n0 a > n1 a", "n0 b > n1 b"}, 12, nil, ""},
		{"each", AllRails, same(2, cards("a", "b")),
			[]string{"n0 a > n1 a", "n0 a > n1 b", "n0 b > n1 a", "n0 b > n1 b"}, 8, nil, ""},
		{"without one", SameRail, [][]agent.NIC{cards("a", "b", "c"), cards("a", "c"), cards("a", "c")},
			[]string{"n0 a > n1 a", "n0 c > n1 c"}, 12, []HostNIC{{"n0", "b"}}, ""},
		{"other names", SameRail, [][]agent.NIC{cards("a", "b"), cards("x", "y", "z")},
			[]string{"n0 a > n1 x", "n0 b > n1 y"}, 4, []HostNIC{{"n1", "z"}}, ""},
		{"unused port", SameRail, same(2, cards("a", "!b", "c")), []string{"n0 a > n1 a", "n0 c > n1 c"}, 4, nil, ""},
		{"two fabrics", SameRail, [][]agent.NIC{cards("a/InfiniBand", "b/Ethernet"), cards("a/Ethernet", "b/Ethernet")},
			[]string{"n0 b > n1 b"}, 4, nil, "is InfiniBand"},
		{"two fabrics, each", AllRails, [][]agent.NIC{cards("a/InfiniBand", "b/Ethernet"),
			cards("x/Ethernet", "y/InfiniBand")}, []string{"n0 a > n1 y", "n0 b > n1 x"}, 4, nil, ""},
		{"no common fabric", AllRails, [][]agent.NIC{cards("a/InfiniBand"), cards("a/Ethernet", "b/Ethernet")},
			nil, 2, []HostNIC{{"n1", "b"}}, "the two never meet"},
		{"one host of another fabric", SameRail, append(same(4, cards("a/Ethernet")), cards("a/InfiniBand")),
			[]string{"n0 > n1"}, 20, nil, "the two never meet"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := c
			c.Rails, c.Reach = tt.rails, 3*time.Second
			f := newFabric()
			res, _ := f.mesh(t, c, tt.hosts)
			good, bad := measured(res)
			var got []string
			for _, p := range good {
				if strings.HasPrefix(p, "n0") && strings.Contains(p, "> n1") {
					got = append(got, p)
				}
			}
			if !slices.Equal(got, tt.pairs) || len(res.Pairs) != tt.all || !slices.Equal(res.UnmetNICs, tt.unmet) {
				t.Errorf("%s: %q of %d, want %q of %d; unmet %v, want %v", tt.name, got, len(res.Pairs), tt.pairs,
					tt.all, res.UnmetNICs, tt.unmet)
			}
			for pair, why := range bad {
				if tt.bad == "" || !strings.Contains(why, tt.bad) {
					t.Errorf("%s: %s: %q, want %q", tt.name, pair, why, tt.bad)
				}
			}
			if len(res.DarkNICs) > 0 {
				t.Errorf("%s: dark %v", tt.name, res.DarkNICs)
			}
		})
	}
}

// TestUnpaired: NICs that have equal names by accident leave others without a partner. They are named, also if other
// hosts have such NICs. A host that just has fewer NICs is none of this kind.
func TestUnpaired(t *testing.T) {
	c := config(t)
	for _, tt := range []struct {
		name  string
		rails Rails
		hosts [][]agent.NIC
		want  string
	}{
		{"the same", SameRail, same(3, cards("a", "b")), "[]"},
		{"fewer", SameRail, [][]agent.NIC{cards("a", "b"), cards("a", "b"), cards("a")}, "[]"},
		{"accident", SameRail, [][]agent.NIC{cards("a", "b"), cards("a", "b"), cards("b", "c"), cards("b", "c")},
			"[{{n0 a} 2} {{n1 a} 2} {{n2 c} 2} {{n3 c} 2}]"},
		{"each with each", AllRails, [][]agent.NIC{cards("a", "b"), cards("a", "b"), cards("b", "c")}, "[]"},
		{"other names", SameRail, [][]agent.NIC{cards("a", "b"), cards("x", "y")}, "[]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := c
			c.Rails = tt.rails
			res, _ := newFabric().mesh(t, c, tt.hosts)
			type unpaired struct {
				HostNIC
				Hosts int
			}
			var got []unpaired
			for _, u := range res.UnpairedNICs {
				got = append(got, unpaired(u))
			}
			if text := fmt.Sprintf("%v", got); text != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
			}
			var b bytes.Buffer
			res.Text(&b, false)
			if strings.Contains(b.String(), "n2 c was not measured with 2 hosts") != (tt.name == "accident") {
				t.Errorf("%s:\n%s", tt.name, &b)
			}
		})
	}
}

// TestMeasured: the text says which NIC was measured where each host has one.
func TestMeasured(t *testing.T) {
	c := config(t)
	for want, hosts := range map[string][][]agent.NIC{
		"NIC of each host: a\n":            same(3, cards("a")),
		"NIC of n[0,2]: a\nNIC of n1: b\n": {cards("a"), cards("b"), cards("a")},
	} {
		synctest.Test(t, func(t *testing.T) {
			res, _ := newFabric().mesh(t, c, hosts)
			var b bytes.Buffer
			res.Text(&b, false)
			if !strings.HasPrefix(b.String(), want) {
				t.Errorf("want %q first:\n%s", want, &b)
			}
		})
	}
}

// TestUnmet: a host that is in no pair, because its partner rests or the mesh was told to end, says nothing of the NICs
// of others.
func TestUnmet(t *testing.T) {
	c := config(t)
	for _, end := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := c
			c.Expect, c.Order, c.Reach = 5, "bisection", time.Second
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			c.Begun = func(pass string, _, _ int) {
				if end && pass == "" {
					stop()
				}
			}
			f, p := newFabric(), newParty(t, c)
			for i := range c.Expect {
				name := fmt.Sprint("n", i)
				w := worker(name, roster.Place{Rank: i, Of: c.Expect}, card{f, name})
				w.NICs = cards("a", "b")
				p.join(t.Context(), w, nil)
			}
			res, _ := Run(ctx, p.c)
			if want := map[bool]int{false: 8, true: 0}[end]; len(res.Pairs) != want || len(res.UnmetNICs) > 0 {
				t.Errorf("%d pairs, want %d; unmet %v", len(res.Pairs), want, res.UnmetNICs)
			}
			p.hall.Close()
			p.wg.Wait()
		})
	}
}

// TestDark: a NIC whose messages are all lost is named once, in seconds and not after the limit of each of its tests;
// its host is bad, and nothing else is. What cannot be told apart is measured as always.
func TestDark(t *testing.T) {
	c := config(t)
	for _, tt := range []struct {
		name  string
		hosts int
		nics  []agent.NIC
		dark  []string
		reach time.Duration
		want  []DarkNIC
		most  time.Duration
		bad   int // pairs without figures
	}{
		{"none", 8, cards("a", "b"), nil, 3 * time.Second, nil, 10 * time.Second, 0},
		{"one", 8, cards("a", "b"), []string{"n3 b"}, 3 * time.Second, []DarkNIC{{Host: "n3", NIC: "b"}},
			20 * time.Second, 14},
		{"the only one", 8, nil, []string{"n3 "}, 3 * time.Second, []DarkNIC{{Host: "n3"}}, 20 * time.Second, 14},
		{"two of one rail", 8, cards("a", "b"), []string{"n3 b", "n5 b"}, 3 * time.Second,
			[]DarkNIC{{Host: "n3", NIC: "b"}, {Host: "n5", NIC: "b"}}, 20 * time.Second, 26},
		{"all of a host", 8, cards("a", "b"), []string{"n3 a", "n3 b"}, 3 * time.Second,
			[]DarkNIC{{Host: "n3", NIC: "a"}, {Host: "n3", NIC: "b"}}, 35 * time.Second, 28},
		{"of three", 3, nil, []string{"n2 "}, 3 * time.Second, []DarkNIC{{Host: "n2"}}, 10 * time.Second, 4},
		{"of two nobody knows which", 2, cards("a", "b"), []string{"n1 b"}, 3 * time.Second, nil, 3 * time.Minute, 2},
		{"without the first pass", 8, cards("a", "b"), []string{"n3 b"}, 0, []DarkNIC{{Host: "n3", NIC: "b"}},
			4 * time.Minute, 14},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := c
			c.Reach = tt.reach
			var told []DarkNIC
			c.Dark = func(d DarkNIC) { told = append(told, DarkNIC{Host: d.Host, NIC: d.NIC}) }
			f := newFabric()
			for _, n := range tt.dark {
				f.dark[n] = true
			}
			res, spent := f.mesh(t, c, same(tt.hosts, tt.nics))
			slices.SortFunc(told, func(a, b DarkNIC) int { return strings.Compare(a.Host+a.NIC, b.Host+b.NIC) })
			if !slices.Equal(told, tt.want) || len(res.DarkNICs) != len(tt.want) {
				t.Errorf("%s: dark %v, want %v; %v", tt.name, told, tt.want, res.DarkNICs)
			}
			if spent > tt.most {
				t.Errorf("%s: it took %v, want at most %v", tt.name, spent, tt.most)
			}
			if good, bad := measured(res); len(bad) != tt.bad || len(good)+len(bad) != len(res.Pairs) {
				t.Errorf("%s: %d pairs without figures, want %d: %v", tt.name, len(bad), tt.bad, bad)
			}
			hosts := map[string]bool{}
			for _, d := range tt.want {
				hosts[d.Host] = true
			}
			if _, bad := res.Sort(); len(bad) != len(hosts) {
				t.Errorf("%s: bad hosts %q", tt.name, bad)
			}
			var text strings.Builder
			res.Text(&text, false)
			for _, d := range tt.want {
				if want := endName(d.Host, d.NIC) + " reaches nobody: "; strings.Count(text.String(), want) != 1 {
					t.Errorf("%s: not once %q in\n%s", tt.name, want, &text)
				}
			}
		})
	}
}

// TestDark_Later: a NIC that goes dark in the middle is named, too, and costs few of its pairs the limit of a test.
func TestDark_Later(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		c.Reach = 3 * time.Second
		f := newFabric()
		pairs := 0
		c.Done = func(list []PairResult) {
			if len(list) > 0 && list[0].Bits > 0 {
				if pairs++; pairs == 8 {
					f.mu.Lock()
					f.dark["n3 b"] = true
					f.mu.Unlock()
				}
			}
		}
		res, spent := f.mesh(t, c, same(10, cards("a", "b")))
		d := res.DarkNICs
		if len(d) != 1 || d[0].NIC != "b" || d[0].Host != "n3" || spent > 4*time.Minute {
			t.Errorf("dark %v, after %v", res.DarkNICs, spent)
		}
	})
}

// TestNICVerdicts: a slow NIC is named, a host if all of its NICs are slow, each once.
func TestNICVerdicts(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		c.Outliers, c.Confirm = Outliers{Deviations: 5, Share: 0.1}, true
		f := newFabric()
		f.slow["n3 b"], f.slow["n5 a"], f.slow["n5 b"], f.slow["n5 c"] = 40e9, 30e9, 20e9, 30e9
		res, _ := f.mesh(t, c, same(8, cards("a", "b", "c")))
		var got []string
		for _, s := range res.SlowHosts {
			got = append(got, endName(s.Host, s.NIC)+" "+s.Part)
			if s.Confirmed == nil || !*s.Confirmed || s.Value > 40e9 || s.Median != 100e9 {
				t.Errorf("%+v", s)
			}
		}
		if want := []string{"n3 b sends", "n5 sends"}; !slices.Equal(got, want) {
			t.Errorf("slow: %q, want %q", got, want)
		}
		for i := range res.Again {
			if p := &res.Again[i]; !(p.From == "n5" || p.To == "n5" || p.From == "n3" && p.FromNIC == "b" ||
				p.To == "n3" && p.ToNIC == "b") {
				t.Errorf("measured again: %+v", p)
			}
		}
		var text strings.Builder
		res.Text(&text, false)
		for _, want := range []string{"slow NIC n3 b, where it sends: median 40 Gb/s, that of the NICs is 100; " +
			"alone 40, good ones 100: confirmed\n", "slow host n5, where it sends: median 30 Gb/s",
			"28 slow figures of pairs belong to slow hosts\n",
			", of the worst pair of NICs:\n", "  b: median 100 Gb/s, worst 20, n5 b > n0 b\n"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %q in\n%s", want, &text)
			}
		}
	})
}

// TestNICs_Hostile: agents whose NICs make no sense are left out with the reason, and the others are measured.
func TestNICs_Hostile(t *testing.T) {
	c := config(t)
	var many []agent.NIC
	for i := range 10000 {
		many = append(many, agent.NIC{Name: fmt.Sprint("mlx5_", i)})
	}
	strange := []struct {
		list []agent.NIC
		want string
	}{
		{many, "it has more than 64 NICs, which is the limit"},
		{cards("a", "a"), "it has two NICs named a"},
		{cards("a", ""), "one has no name"},
		{cards("a\x1b[2J"), `it has a NIC named "a\x1b[2J"`},
		{cards("a b"), `it has a NIC named "a b"`},
		{cards(strings.Repeat("a", 1000)), "it has a NIC named "},
		{[]agent.NIC{{Name: "a", Link: strings.Repeat("x", 1000)}}, "it says too much about its NIC a"},
		{[]agent.NIC{{Name: "a", Rate: -1}}, "its NIC a has a link of -1 bit/s"},
		{[]agent.NIC{{Name: "a", Rate: 1e300}}, "its NIC a has a link of 1e+300 bit/s"},
	}
	synctest.Test(t, func(t *testing.T) {
		c, f := c, newFabric()
		c.Expect = len(strange) + 2
		p := newParty(t, c)
		for i := range c.Expect {
			name := fmt.Sprint("n", i)
			w := worker(name, roster.Place{Rank: i, Of: c.Expect}, card{f, name})
			if w.NICs = []agent.NIC{}; i < len(strange) { // none is one without a name
				w.NICs = strange[i].list
			}
			p.join(t.Context(), w, nil)
		}
		res, err := Run(t.Context(), p.c)
		if good, _ := measured(res); err != nil || len(good) != 2 || len(res.LostHosts) != len(strange) {
			t.Errorf("%v, %q are measured, lost %v", err, good, res.LostHosts)
		}
		for i, s := range strange {
			name := fmt.Sprint("n", i)
			if !slices.ContainsFunc(res.LostHosts, func(l LostHost) bool {
				return l.Host == name && l.Kind == LeftOut && strings.Contains(l.Error, s.want)
			}) {
				t.Errorf("%s is not left out with %q: %.2000v", name, s.want, res.LostHosts)
			}
		}
		p.hall.Close()
		p.wg.Wait()
	})
}

// TestTextOfManyNICs: the result of 200 hosts with eight NICs each is short, and names the worst NICs.
func TestTextOfManyNICs(t *testing.T) {
	r := &Result{many: true}
	for i := range 200 {
		r.Hosts = append(r.Hosts, fmt.Sprintf("n%d", i))
	}
	for from := range 200 {
		for k := range 3 {
			for nic := range 8 {
				to, name := (from+1+k)%200, fmt.Sprintf("mlx5_%d", nic)
				p := PairResult{Direction: Direction{r.Hosts[from], r.Hosts[to], name, name}, from: from, to: to,
					fromNIC: nic, toNIC: nic, many: true, Bits: 90e9 + 1e7*float64((from*7+to*13+nic)%100), P50: 1000}
				if from == 17 && nic == 3 || from == 40 {
					p.Bits = 1e9
				}
				r.Pairs = append(r.Pairs, p)
			}
		}
	}
	for i := range 30 {
		r.DarkNICs = append(r.DarkNICs, DarkNIC{Host: fmt.Sprint("n", i), NIC: "mlx5_7", Error: "no message arrives"})
		r.UnmetNICs = append(r.UnmetNICs, HostNIC{fmt.Sprint("n", i), "mlx5_8"})
	}
	r.judge(Outliers{Deviations: 5, Share: 0.1})
	var b strings.Builder
	r.Text(&b, false)
	for _, want := range []string{"Bandwidth in Gb/s of 4800 pairs of 200 hosts: worst 1,",
		"  n17 mlx5_3 > n18 mlx5_3\n",
		"  mlx5_3: median 90.", "slow NIC n17 mlx5_3, where it sends", "slow host n40, where it sends",
		"n0 mlx5_7 reaches nobody: no message arrives\n", "10 more NICs reach nobody",
		"20 more NICs were not measured"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	if n := strings.Count(b.String(), "\n"); n > 90 {
		t.Errorf("%d lines", n)
	}
	if _, bad := r.Sort(); len(bad) != 31 {
		t.Errorf("bad: %q", bad)
	}
}
