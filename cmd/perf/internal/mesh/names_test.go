package mesh

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
)

// TestSort: the lists have names of nodes that schedulers know: of several agents on one node, one that is bad is
// enough; an agent that claims the name of a good host is none. A host is good only if all its NICs were measured.
func TestSort(t *testing.T) {
	no := false
	names := []string{"n1", "n2", "n2#2", "n3", "n3#7", "n4", "n5", "n6", "rank 9", "m1", "m2", "m3", "m4", "m5", "m6",
		"m7"}
	r := &Result{Hosts: names,
		LostHosts: []LostHost{{Host: "n1#2", Kind: LeftOut, stray: true}, {Host: "x;y", Kind: LeftOut, stray: true},
			{Host: "n2#2", Kind: Absent}, {Host: "rank 9", Kind: Absent}, {Host: unnamed, Kind: Absent}},
		SlowHosts: []SlowHost{{Host: "n3"}, {Host: "n4", Again: Again{Confirmed: &no}}, {Host: "n2#2"}},
		UnmetNICs: []HostNIC{{"m6", "c"}}}
	r.StalledHosts = []StalledHost{{Host: "n6"}}
	for range names {
		r.nics, r.HostNICs = append(r.nics, 2), append(r.HostNICs, []string{"a", "b"})
	}
	add := func(from, to string, p PairResult) {
		p.From, p.To, p.from, p.to = from, to, slices.Index(names, from), slices.Index(names, to)
		for p.fromNIC = range 2 {
			if p.toNIC = p.fromNIC; from == "m5" || to == "m5" { // one NIC of it was in no test
				p.fromNIC, p.toNIC = 1, 1
			}
			r.Pairs = append(r.Pairs, p)
		}
	}
	for _, h := range names {
		good := PairResult{Bits: 1, P50: 1}
		switch {
		case h == "m3" || h == "m7": // in no pair that ran
		case h == "n1":
		case h == "m4":
			add(h, "n1", good) // and not back
		default:
			add(h, "n1", good)
			add("n1", h, good)
		}
	}
	add("m1", "m2", PairResult{Error: "no completion"})                // nobody knows which
	add("n5", "n3", PairResult{Error: "no completion"})                // that one is bad
	add("m3", "n1", PairResult{Error: "interrupted", Skipped: true})   // nothing is wrong with n1
	add("n1", "m3", PairResult{Error: "a is InfiniBand", aside: true}) // nor here
	good, bad := r.Sort()
	if !slices.Equal(good, []string{"n1", "n5"}) || !slices.Equal(bad, []string{"n2", "n3", "n6"}) {
		t.Errorf("good %q, bad %q", good, bad)
	}
	got := map[string]string{}
	for _, u := range r.Unknown {
		got[u.Host] = u.Why
	}
	for host, want := range map[string]string{"n4": "not confirmed", "m1": "its pair with m2 fails: no completion",
		"m2": "its pair with m1 fails: no completion", "m3": "a was not measured", "m4": "a was not measured in both",
		"m5": "a was not measured", "m6": "c was not measured: no host", "m7": "a was not measured"} {
		if !strings.HasPrefix(got[host], want) && !strings.HasSuffix(got[host], want) {
			t.Errorf("%s: %q, want %q", host, got[host], want)
		}
		delete(got, host)
	}
	if len(got) > 0 {
		t.Errorf("also unknown: %v", got)
	}
	r.planned = 5 // rounds, and the mesh was interrupted in the first
	if good, _ := r.Sort(); len(good) > 1 {
		t.Errorf("after one of five rounds %q are good", good)
	}
}

// TestStray: agents that are refused, and claim to be hosts of the mesh, have names of their own in the result,
// whoever came first.
func TestStray(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		c.Launcher = roster.Place{Rank: -1, Nodes: "n[1-3]", Job: "7.0"}
		p := newParty(t, c)
		for i, w := range []*agent.Worker{
			worker("n2", roster.Place{Rank: 1, Of: 3, Job: "8.0"}, runner{}), // of another job, and first
			worker("n1", roster.Place{Rank: 0, Of: 3}, runner{}), worker("n1", roster.Place{Rank: 0, Of: 3}, runner{}),
			worker("n1", roster.Place{Rank: 0, Of: 3}, runner{}), worker("n2", roster.Place{Rank: 1, Of: 3}, runner{}),
			worker("y", roster.Place{Rank: 1, Of: 3}, runner{}), worker("n3", roster.Place{Rank: 2, Of: 3}, runner{})} {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				p.join(t.Context(), w, nil)
			}()
		}
		res, err := Run(t.Context(), p.c)
		want := []string{"left out n1#2", "left out n1#3", "left out n2#2", "left out y"}
		if got := lostHosts(res); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %q, want %q", err, got, want)
		}
		if good, bad := res.Sort(); !slices.Equal(good, []string{"n1", "n2", "n3"}) || len(bad) > 0 {
			t.Errorf("good %q, bad %q", good, bad)
		}
		if res.Failed() > 0 || len(res.Pairs) != 6 {
			t.Errorf("%d of %d pairs failed", res.Failed(), len(res.Pairs))
		}
		time.Sleep(time.Second)
		p.wg.Wait()
	})
}

// leaver is the connection of an agent that ends when it has introduced itself.
type leaver struct{ net.Conn }

func (l *leaver) Write(b []byte) (int, error) {
	n, err := l.Conn.Write(b)
	if b[0] == 23 && len(b) > 60 { // a record of data, longer than the proof of the token
		l.Conn.Close()
	}
	return n, err
}

// TestGone: an agent that came, and went before it could be told that it belongs to the mesh, is lost, not left out.
func TestGone(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		c.Expect = 3
		p := newParty(t, c)
		for i := range 3 {
			w := worker(fmt.Sprint("n", i), roster.Nowhere, runner{takes: time.Second})
			if i < 2 {
				p.join(t.Context(), w, nil)
				continue
			}
			p.wg.Go(func() { agent.Attend(context.Background(), &leaver{p.hall.dial()}, p.c.Token, w) })
		}
		res, err := Run(t.Context(), p.c)
		if got := lostHosts(res); err != nil || !slices.Equal(got, []string{"lost n2"}) {
			t.Errorf("%v, %q", err, got)
		}
		if !strings.Contains(res.Absences(), "1 hosts were lost") || res.AllEnded() || res.came != 3 {
			t.Errorf("%s, %d came", res.Absences(), res.came)
		}
		p.wg.Wait()
	})
}

// hole is the connection of an agent whose long packets get lost.
type hole struct{ net.Conn }

func (h *hole) Write(b []byte) (int, error) {
	if b[0] == 23 && len(b) > 60 { // a record of data, longer than the proof of the token
		return len(b), nil
	}
	return h.Conn.Write(b)
}

// TestBlackHole: of an agent that proved its token, and whose introduction got lost, the step that it reached is known.
func TestBlackHole(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		c.Expect = 3
		p := newParty(t, c)
		for i := range 2 {
			p.join(t.Context(), worker(fmt.Sprint("n", i), roster.Nowhere, runner{takes: time.Second}), nil)
		}
		p.wg.Go(func() {
			agent.Attend(t.Context(), &hole{p.hall.dial()}, p.c.Token, worker("n2", roster.Nowhere, runner{}))
		})
		res, err := Run(t.Context(), p.c)
		if err != nil || len(res.LostHosts) != 1 ||
			!strings.Contains(res.LostHosts[0].Error, "and proved its token, and then nothing more came") ||
			!strings.Contains(res.LostHosts[0].Error, "MTU") {
			t.Errorf("%v, %v", err, res.LostHosts)
		}
		p.wg.Wait()
	})
}
