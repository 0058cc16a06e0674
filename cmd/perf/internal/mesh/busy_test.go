package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/starve"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// crowd acts as the tests of hosts. Those of n3 wait for CPUs.
type crowd struct {
	mu      sync.Mutex
	share   float64 // that n3 waits
	tries   int     // of each test of it, one after the other, that are disturbed
	fails   bool    // these tests fail, instead of being slow
	always  bool    // all others of n3 as well
	servers map[int]*crowded
	made    map[string]int // tries of each test
	tests   int
}

// crowded is one test.
type crowded struct {
	server string
	busy   bool
	over   chan struct{}
}

type inCrowd struct {
	*crowd
	host string
}

func (c *crowd) cpu(host string, busy bool) *starve.Waits {
	w := &starve.Waits{Elapsed: 1, RunDelay: 0.01}
	if busy && host == "n3" {
		w.RunDelay, w.Steal = 0.6*c.share, 0.4*c.share
	}
	return w
}

func (c inCrowd) Run(ctx context.Context, t agent.Task, listening func(int) error) (f agent.Figures, err error) {
	if t.Server() {
		c.mu.Lock()
		port, own := len(c.servers)+1, &crowded{server: c.host, over: make(chan struct{})}
		c.servers[port] = own
		c.mu.Unlock()
		if err := listening(port); err != nil {
			return f, err
		}
		select {
		case <-own.over:
		case <-ctx.Done():
			err = ctx.Err()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		f.CPU = c.cpu(c.host, own.busy)
		return f, err
	}
	c.mu.Lock()
	own := c.servers[t.Port]
	defer close(own.over)
	key := fmt.Sprint(c.host, own.server, t.Test.Metric, t.Test.Iters)
	c.made[key]++
	c.tests++
	ofIt := c.host == "n3" || own.server == "n3"
	own.busy = ofIt && c.made[key] <= c.tries
	bad := ofIt && (c.always || own.busy)
	f.CPU = c.cpu(c.host, own.busy)
	c.mu.Unlock()
	takes := 10 * time.Millisecond
	if bad && c.fails {
		takes, err = t.Test.Silence, errors.New("no completion")
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return f, ctx.Err()
	}
	switch {
	case err != nil:
	case t.Test.Metric == wire.Latency:
		f.P50, f.P99, f.Max = 2000, 3000, 4000
	case bad:
		f.Bits = 40e9
	default:
		f.Bits = 100e9
	}
	return f, err
}

// TestBusy: a test with an end that had to wait for CPUs is repeated up to three times. What it says then, by a failure
// or by a slow figure, is held against nobody; the host is neither good nor bad, and named.
func TestBusy(t *testing.T) {
	c := config(t)
	for _, tt := range []struct {
		name    string
		crowd   *crowd
		limit   float64
		unknown bool
		found   bool   // as slow, or dark
		lost    int    // pairs without figures
		error   string // of these
	}{
		{"slow, below the limit", &crowd{share: 0.09, tries: 1000, always: true}, 0.1, false, true, 0, ""},
		{"slow, above", &crowd{share: 0.11, tries: 1000, always: true}, 0.1, true, false, 0, ""},
		{"slow, and nobody looks", &crowd{share: 0.9, tries: 1000, always: true}, 0, false, true, 0, ""},
		{"slow, busy three times", &crowd{share: 0.5, tries: 3, always: true}, 0.1, false, true, 0, ""},
		{"slow while busy three times", &crowd{share: 0.5, tries: 3}, 0.1, false, false, 0, ""},
		{"slow while busy", &crowd{share: 0.5, tries: 1000}, 0.1, true, false, 0, ""},
		{"fails, below the limit", &crowd{share: 0.09, tries: 1000, fails: true, always: true}, 0.1, false, true, 14,
			"n3 reaches nobody"},
		{"fails, above", &crowd{share: 0.5, tries: 1000, fails: true, always: true}, 0.1, true, false, 14,
			"unknown: the CPUs of n3 were busy (run delay 30 %, steal 20 % of the time): "},
		{"fails, busy three times", &crowd{share: 0.5, tries: 3, fails: true, always: true}, 0.1, false, true, 14,
			"n3 reaches nobody"},
		{"fails while busy three times", &crowd{share: 0.5, tries: 3, fails: true}, 0.1, false, false, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, f := c, tt.crowd
				f.servers, f.made = map[int]*crowded{}, map[string]int{}
				c.Outliers, c.Reach, c.Timeout = Outliers{Deviations: 5, Share: 0.1}, 3*time.Second, 30*time.Second
				c.CPUWait, c.Expect = tt.limit, 8
				p := newParty(t, c)
				for i := range c.Expect {
					name := fmt.Sprint("n", i)
					p.join(t.Context(), worker(name, roster.Place{Rank: i, Of: c.Expect}, inCrowd{f, name}), nil)
				}
				res, err := Run(t.Context(), p.c)
				p.hall.Close()
				p.wg.Wait()
				if err != nil || len(res.LostHosts) > 0 {
					t.Errorf("%v, lost: %v", err, res.LostHosts)
				}
				if found := len(res.SlowHosts)+len(res.SlowPairs)+len(res.DarkNICs) > 0; found != tt.found {
					t.Errorf("slow: %v, %v, dark: %v; want some: %v", res.SlowHosts, res.SlowPairs, res.DarkNICs,
						tt.found)
				}
				if unknown := len(res.BusyHosts) == 1 && res.BusyHosts[0].Host == "n3"; unknown != tt.unknown ||
					len(res.BusyHosts) > 1 {
					t.Errorf("busy: %v, want n3: %v", res.BusyHosts, tt.unknown)
				}
				good, bad := res.Sort()
				want := 7
				if !tt.found && !tt.unknown {
					want++
				}
				if len(good) != want || len(bad) > 0 != tt.found {
					t.Errorf("good: %q, bad: %q", good, bad)
				}
				lost := 0
				for i := range res.Pairs {
					if p := &res.Pairs[i]; p.Error != "" {
						if lost++; !strings.Contains(p.Error, tt.error) {
							t.Errorf("%s > %s: %q, want %q", p.From, p.To, p.Error, tt.error)
						}
					} else if p.FromCPU == nil || p.ToCPU == nil || p.FromCPU.Elapsed != 1 {
						t.Errorf("%s > %s: CPUs %v, %v", p.From, p.To, p.FromCPU, p.ToCPU)
					}
				}
				if lost != tt.lost {
					t.Errorf("%d pairs have no figures, want %d", lost, tt.lost)
				}
				var text, object bytes.Buffer
				res.Text(&text, false)
				if err := res.JSON(&object); err != nil || !json.Valid(object.Bytes()) {
					t.Error(err)
				}
				for out, want := range map[string]string{
					text.String():   "nothing is known of host n3: its CPUs were busy in ",
					object.String(): `"busy_hosts": [`} {
					if strings.Contains(out, want) != tt.unknown {
						t.Errorf("%q: want it: %v, in\n%s", want, tt.unknown, out)
					}
				}
			})
		})
	}
}

// TestBusy_Everywhere: on hosts that are busy all the time, tests are repeated about once, and not each three times.
func TestBusy_Everywhere(t *testing.T) {
	r := repeats{}
	ran := 0
	for range 1000 {
		r.tests.Add(1)
		for try := range 1 + mostRepeats {
			if try > 0 && !r.allowed() {
				break
			}
			ran++
		}
	}
	if ran < 1900 || ran > 2100 {
		t.Errorf("%d tests ran instead of 1000", ran)
	}
}
