package mesh

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
)

// gate stops and goes.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // nil: it is open
}

func (g *gate) pass() {
	g.mu.Lock()
	c := g.open
	g.mu.Unlock()
	if c != nil {
		<-c
	}
}

// stop closes the gate for a time.
func (g *gate) stop(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := make(chan struct{})
	g.open = c
	time.AfterFunc(d, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.open = nil
		close(c)
	})
}

// halting is the connection of an agent that stands still at times: nothing is lost, all is late.
type halting struct {
	net.Conn
	gate *gate
}

func (h halting) Write(b []byte) (int, error) { h.gate.pass(); return h.Conn.Write(b) }

func (h halting) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	h.gate.pass()
	return n, err
}

// TestStalled: a host that stands still for 3 s is named, at whichever moment between two heartbeats it begins, and
// none that is silent for less than the bound. If all are silent at once, it is the coordinator's network.
func TestStalled(t *testing.T) {
	c := config(t)
	for _, tt := range []struct {
		name  string
		stops map[int]time.Duration // after 5 s
		hosts int
		want  []string
	}{
		{"one", map[int]time.Duration{3: 3 * time.Second}, 6, []string{"n3"}},
		{"one of two", map[int]time.Duration{1: 3 * time.Second}, 2, []string{"n1"}},
		{"two", map[int]time.Duration{0: 3 * time.Second, 4: 2 * time.Second}, 6, []string{"n0", "n4"}},
		{"short", map[int]time.Duration{2: time.Second}, 6, nil},
		{"both", map[int]time.Duration{0: 3 * time.Second, 1: 2 * time.Second}, 2, nil},
		{"all", map[int]time.Duration{0: 3 * time.Second, 1: 3 * time.Second, 2: 3 * time.Second, 3: 2 * time.Second},
			4, nil},
	} {
		for phase := time.Duration(0); phase < time.Second; phase += 130 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				c := c
				c.Expect, c.Stall = tt.hosts, time.Second
				p := newParty(t, c)
				for i := range tt.hosts {
					g := &gate{}
					w := worker(fmt.Sprint("n", i), roster.Place{Rank: i, Of: tt.hosts}, runner{takes: 3 * time.Second})
					p.wg.Go(func() { agent.Attend(t.Context(), halting{p.hall.dial(), g}, p.c.Token, w) })
					if d := tt.stops[i]; d > 0 {
						time.AfterFunc(5*time.Second+phase, func() { g.stop(d) })
					}
				}
				res, err := Run(t.Context(), p.c)
				if err != nil || len(res.LostHosts) > 0 || res.Failed() > 0 {
					t.Fatalf("%s: %v, lost %v, %d failed", tt.name, err, res.LostHosts, res.Failed())
				}
				var got []string
				for _, h := range res.StalledHosts {
					got = append(got, h.Host)
					i := int(h.Host[1] - '0')
					if least := tt.stops[i].Seconds(); h.Silences != 1 || h.Seconds < least || h.Seconds > least+0.5 ||
						h.At < 4.4 || h.At > 6 {
						t.Errorf("%s, %v: %+v", tt.name, phase, h)
					}
				}
				if slices.Sort(got); !slices.Equal(got, tt.want) || res.Itself != 0 {
					t.Errorf("%s, %v: stalled %q, want %q; itself %v", tt.name, phase, got, tt.want, res.Itself)
				}
				if _, bad := res.Sort(); len(bad) != len(tt.want) {
					t.Errorf("%s: bad hosts %q", tt.name, bad)
				}
				var text strings.Builder
				res.Text(&text, false)
				if tt.name == "one" && !strings.Contains(text.String(), "stalled host n3: it stood still for 3.") {
					t.Errorf("no word of it in\n%s", &text)
				}
				p.wg.Wait()
			})
		}
	}
}

// TestStalled_AtTheEnd: a host that is silent when the last pair ends, as it is in no pair any more, is named once.
func TestStalled_AtTheEnd(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		c.Expect, c.Stall, c.Order = 3, time.Second, "single"
		p := newParty(t, c)
		var gates [3]gate
		for i := range 3 {
			r := runner{takes: 2 * time.Second, begun: func(task agent.Task) {
				if i == 2 && task.Server() { // its last part, as n1 measures with it last of all
					gates[0].stop(3 * time.Second)
				}
			}}
			w := worker(fmt.Sprint("n", i), roster.Place{Rank: i, Of: 3}, r)
			p.wg.Go(func() { agent.Attend(t.Context(), halting{p.hall.dial(), &gates[i]}, p.c.Token, w) })
		}
		res, err := Run(t.Context(), p.c)
		if err != nil || len(res.StalledHosts) != 1 || res.StalledHosts[0].Host != "n0" {
			t.Errorf("%v, stalled %+v, lost %v", err, res.StalledHosts, res.LostHosts)
		}
		p.wg.Wait()
	})
}

// TestWatch: while rdmaperf mesh itself stands still, it hears of nobody, and blames nobody for it.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watch
		stop := tick.Every(watchTick, w.look)
		time.Sleep(5 * time.Second)
		stop()
		began := time.Now()
		if d := w.during(agent.Silence{From: began.Add(-5 * time.Second), To: began}); d != 0 {
			t.Errorf("while it looks: %v", d)
		}
		time.Sleep(3 * time.Second) // nobody looks
		w.look()
		end := time.Now()
		for _, tt := range []struct {
			from, to, want time.Duration
		}{{-time.Second, 0, 0}, {0, 3 * time.Second, 3 * time.Second}, {-time.Second, time.Second, time.Second},
			{time.Second, 9 * time.Second, 2 * time.Second}} {
			s := agent.Silence{From: began.Add(tt.from), To: began.Add(tt.to)}
			if d := w.during(s); d != tt.want {
				t.Errorf("%v to %v: %v, want %v", tt.from, tt.to, d, tt.want)
			}
		}
		s := agent.Silence{From: began.Add(-200 * time.Millisecond), To: end.Add(200 * time.Millisecond)}
		longer := agent.Silence{From: s.From.Add(-2 * time.Second), To: s.To}
		for want, one := range map[int]agent.Silence{0: s, 1: longer} {
			heard := map[string][]agent.Silence{"a": {one}, "b": nil, "c": nil}
			if got := silent(heard, 1500*time.Millisecond, w.during); len(got) != want {
				t.Errorf("silent for %v, of which 3 s are its own: %v", one.Time(), got)
			}
		}
	})
}

// TestLeft: agents that give a coordinator up because it stood still are not blamed for it, those that went at another
// time are.
func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &coordinator{Config: Config{Beat: 2 * time.Second}, ctx: t.Context(), res: &Result{Started: time.Now()}}
		lost := func(name string) {
			h := c.member(Host{Name: name}, &agent.Remote{})
			h.lose(errEnded)
			h.lostAt = time.Now()
			p := PairResult{Direction: Direction{From: name, To: "x"}, Error: "host " + name + " is lost", at: h.lostAt}
			c.res.Pairs = append(c.res.Pairs, p)
		}
		still := func(d time.Duration) {
			c.own.last = time.Now()
			time.Sleep(d)
			c.own.look()
		}
		lost("before")
		still(3 * time.Second) // agents do not give up yet
		lost("short")
		time.Sleep(10 * time.Second)
		still(7 * time.Second)
		lost("left")
		time.Sleep(3 * time.Second)
		lost("later")
		c.settle()
		if got := lostHosts(c.res); !slices.Equal(got, []string{"lost before", "lost later", "lost short"}) {
			t.Errorf("%q", got)
		}
		if c.left == nil || !strings.Contains(c.left.Error(), "stood still for 7.0 s") {
			t.Errorf("%v", c.left)
		}
		for _, p := range c.res.Pairs {
			if p.Skipped != (p.From == "left") {
				t.Errorf("%+v", p)
			}
		}
	})
}

// TestStalledPairs: pairs whose slowest message took long are named, and the host that they have in common.
func TestStalledPairs(t *testing.T) {
	const long = 1.4e9
	every := func(from, to int) bool { return true }
	for _, tt := range []struct {
		name  string
		hosts int
		slow  func(from, to int) bool
		want  []string
	}{
		{"none", 8, func(_, _ int) bool { return false }, nil},
		{"one pair", 8, func(from, to int) bool { return from == 1 && to == 2 }, nil},
		{"one pair both ways", 8, func(from, to int) bool { return from+to == 3 && from > 0 && to > 0 }, nil},
		{"a host in three", 8, func(from, to int) bool { return from == 1 && to > 4 }, []string{"n1"}},
		{"a host in three of five", 8, func(from, to int) bool {
			return from == 1 && to > 4 || from == 2 && to > 5 && to < 8
		}, []string{"n1"}},
		{"a host in all", 8, func(from, to int) bool { return from == 3 || to == 3 }, []string{"n3"}},
		{"two hosts in all", 8, func(from, to int) bool { return from == 3 || to == 3 || from == 6 || to == 6 },
			[]string{"n3", "n6"}},
		{"one of three", 3, func(from, to int) bool { return from == 0 || to == 0 }, []string{"n0"}},
		{"all", 8, every, nil}, {"all of three", 3, every, nil}, {"both", 2, every, nil},
	} {
		r := &Result{Started: time.Now()}
		stalled := 0
		for from := range tt.hosts {
			r.Hosts = append(r.Hosts, fmt.Sprint("n", from))
			for to := range tt.hosts {
				if from == to {
					continue
				}
				p := PairResult{Direction: Direction{From: fmt.Sprint("n", from), To: fmt.Sprint("n", to)},
					from: from, to: to, Max: 1e6}
				if p.at = r.Started.Add(time.Minute); tt.slow(from, to) {
					p.Max = long
					stalled++
				}
				r.Pairs = append(r.Pairs, p)
			}
		}
		r.Pairs = append(r.Pairs, PairResult{Direction: Direction{From: "n0", To: "n1"}, Error: "failed"})
		r.stalledPairs(time.Second)
		var got []string
		for _, h := range r.StalledHosts {
			if got = append(got, h.Host); h.Seconds != 1.4 || h.At != 60 || h.Pairs < 3 || h.Silences != 0 {
				t.Errorf("%s: %+v", tt.name, h)
			}
		}
		if !slices.Equal(got, tt.want) || len(r.StalledPairs) != stalled {
			t.Errorf("%s: %q, want %q; %d pairs, want %d", tt.name, got, tt.want, len(r.StalledPairs), stalled)
		}
		var text strings.Builder
		r.stalled(&text)
		if tt.name == "a host in three" &&
			(!strings.Contains(text.String(), "stalled host n1: messages of 3 of its pairs took up to 1.4 s\n") ||
				!strings.Contains(text.String(), "stalled pair n1 > n6: a message took 1.4 s\n")) {
			t.Errorf("%s", &text)
		}
	}
}
