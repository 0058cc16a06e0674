package mesh

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
)

func TestAllEnded(t *testing.T) {
	absent := LostHost{Host: "c", Kind: Absent, Error: "it did not come"}
	ended := func(name string) LostHost { return LostHost{Host: name, Kind: Lost, Error: errEnded.Error()} }
	silent := LostHost{Host: "b", Kind: Lost, Error: "no heartbeat for 6s"}
	nameless := LostHost{Host: unnamed, Kind: Absent, Error: "1 of 3 hosts did not come"}
	stranger := LostHost{Host: "a", Kind: LeftOut, Error: "it belongs to another run"}
	for _, tt := range []struct {
		name string
		came int
		lost []LostHost
		all  bool
		left int
	}{
		{"nobody", 3, nil, false, 0},
		{"one absent", 2, []LostHost{absent}, false, 1},
		{"one of two", 2, []LostHost{absent, ended("a")}, false, 2},
		{"both", 2, []LostHost{absent, ended("a"), ended("b")}, true, 1},
		{"one was silent", 2, []LostHost{absent, ended("a"), silent}, false, 3},
		{"one of two, and one has no name", 2, []LostHost{nameless, ended("a")}, false, 2},
		{"two of three, and one more is left out", 3, []LostHost{stranger, ended("a"), ended("b")}, false, 3},
	} {
		r := &Result{Hosts: []string{"a", "b", "c"}, LostHosts: tt.lost, came: tt.came}
		if slices.Contains(tt.lost, nameless) {
			r.Hosts = r.Hosts[:2]
		}
		if all := r.AllEnded(); all != tt.all || len(r.LostHosts) != tt.left {
			t.Errorf("%s: %v, %+v", tt.name, all, r.LostHosts)
		}
	}
}

// TestEndedInTurn: a launcher that ends the last of three agents half a second after the others ends the mesh with the
// first two. If the last one stays, the others are lost.
func TestEndedInTurn(t *testing.T) {
	c := config(t)
	for _, tt := range []struct {
		ends  []time.Duration // of agents, after the beginning
		all   bool
		named int
	}{
		{[]time.Duration{150 * time.Second, 150 * time.Second, 150*time.Second + settles/2}, true, 0},
		{[]time.Duration{150 * time.Second, 150 * time.Second, time.Hour}, false, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := c
			c.Expect = len(tt.ends)
			p := newParty(t, c)
			var kills []context.CancelFunc
			for i, after := range tt.ends {
				ctx, kill := context.WithCancel(t.Context())
				kills = append(kills, kill)
				p.join(ctx, worker(fmt.Sprint("n", i), roster.Nowhere, runner{takes: time.Minute}), nil)
				timer := time.AfterFunc(after, kill)
				defer timer.Stop()
			}
			res, err := Run(t.Context(), p.c)
			if all := res.AllEnded(); err != nil || all != tt.all || len(res.LostHosts) != tt.named {
				t.Errorf("%v: %v, all ended %v, lost %v", tt.ends, err, all, lostHosts(res))
			}
			for _, kill := range kills {
				kill()
			}
			p.wg.Wait()
		})
	}
}

// TestExplain_Reset: a killed agent that has not read all resets its connection.
func TestExplain_Reset(t *testing.T) {
	reset := fmt.Errorf("%w: %w", agent.ErrLeft, os.NewSyscallError("read", syscall.ECONNRESET))
	if err := explain(reset); err != errEnded {
		t.Error(err)
	}
	said := fmt.Errorf("%w: no memory", agent.ErrLeft)
	if err := explain(said); err == nil || err.Error() != said.Error() {
		t.Error(err)
	}
}
