package kube

import (
	"testing"
	"time"
)

// step is what happens to a claim at a time, and what follows.
type step struct {
	at   time.Duration
	does func(c *Claim, now time.Time)
	want Action
	wait time.Duration // of Sleep
}

func read(r Record) func(*Claim, time.Time) { return func(c *Claim, now time.Time) { c.Read(now, r) } }

func conflict(c *Claim, now time.Time) { c.Conflict(now) }

func fail(pause time.Duration) func(*Claim, time.Time) {
	return func(c *Claim, now time.Time) { c.Failed(now, pause) }
}

// wrote is a write that began some time ago.
func wrote(ago time.Duration) func(*Claim, time.Time) {
	return func(c *Claim, now time.Time) { c.Wrote(now.Add(-ago), mine("9")) }
}

func nothing(*Claim, time.Time) {}

func mine(version string) Record {
	return Record{Version: version, Holder: "me", Duration: Duration, Ours: true}
}

func other(renewed string) Record {
	return Record{Version: renewed, Holder: "other", Duration: Duration, Renewed: renewed, Ours: true}
}

// TestClaim: what a claim does next, after what it was told at which second.
func TestClaim(t *testing.T) {
	const s = time.Second
	free := Record{Version: "1", Duration: s, Ours: true}
	for name, tt := range map[string]struct {
		steps []step
		state State
	}{
		"none there": {[]step{{0, nothing, Get, 0}, {0, read(Record{}), Put, 0}, {s, wrote(s), Sleep, 4 * s},
			{5 * s, nothing, Put, 0}}, Held},
		"given back": {[]step{{0, read(free), Put, 0}, {0, wrote(0), Sleep, 5 * s}}, Held},
		"held":       {[]step{{0, read(other("1")), Sleep, 2 * s}, {2 * s, nothing, Get, 0}}, Waiting},
		"held, and renewed": {[]step{{0, read(other("1")), Sleep, 2 * s}, {29 * s, read(other("2")), Sleep, 2 * s},
			{58 * s, read(other("3")), Sleep, 2 * s}}, Waiting},
		"held, by clocks that go back": {[]step{{0, read(other("13:00")), Sleep, 2 * s},
			{29 * s, read(other("12:00")), Sleep, 2 * s}, {58 * s, read(other("11:00")), Sleep, 2 * s}}, Waiting},
		"written by somebody else, not renewed": {[]step{{0, read(other("1")), Sleep, 2 * s},
			{29 * s, read(func() Record { r := other("1"); r.Version = "77"; return r }()), Sleep, s},
			{30 * s, nothing, Put, 0}}, Waiting},
		"killed": {[]step{{0, read(other("1")), Sleep, 2 * s}, {28500 * time.Millisecond, read(other("1")), Sleep,
			1500 * time.Millisecond}, {30 * s, nothing, Put, 0}}, Waiting},
		"killed, and another one was first": {[]step{{0, read(other("1")), Sleep, 2 * s}, {30 * s, conflict, Get, 0},
			{30 * s, read(other("2")), Sleep, 2 * s}, {59 * s, read(other("2")), Sleep, s}}, Waiting},
		"no duration": {[]step{{0, read(Record{Version: "1", Holder: "other", Ours: true}), Sleep, 2 * s},
			{29 * s, nothing, Get, 0}, {30 * s, nothing, Put, 0}}, Waiting},
		"an hour": {[]step{
			{0, read(Record{Version: "1", Holder: "other", Duration: time.Hour, Ours: true}), Sleep, 2 * s},
			{3599 * s, nothing, Get, 0}, {3600 * s, nothing, Put, 0}}, Waiting},
		"at the same moment": {[]step{{0, read(Record{}), Put, 0}, {0, conflict, Get, 0},
			{0, read(other("1")), Sleep, 2 * s}}, Waiting},
		"no reply": {[]step{{0, fail(0), Sleep, 2 * s}, {2 * s, nothing, Get, 0}}, Waiting},
		"asked to pause": {[]step{{0, fail(4 * s), Sleep, 4 * s}, {4 * s, fail(time.Hour), Sleep, 10 * s}},
			Waiting},
		"a write without a reply had an effect": {[]step{{0, read(free), Put, 0}, {5 * s, fail(0), Sleep, 2 * s},
			{7 * s, nothing, Get, 0}, {7 * s, read(mine("2")), Put, 0}, {7 * s, wrote(0), Sleep, 5 * s}}, Held},
		"lost to another": {[]step{{0, wrote(0), Sleep, 5 * s}, {10 * s, conflict, Get, 0},
			{10 * s, read(other("1")), Stop, 0}}, Lost},
		"lost for ever": {[]step{{0, wrote(0), Sleep, 5 * s}, {10 * s, conflict, Get, 0},
			{10 * s, read(other("1")), Stop, 0}, {20 * s, read(mine("1")), Stop, 0}}, Lost},
		"annotated": {[]step{{0, wrote(0), Sleep, 5 * s}, {10 * s, conflict, Get, 0},
			{10 * s, read(mine("3")), Put, 0}}, Held},
		"deleted": {[]step{{0, wrote(0), Sleep, 5 * s}, {10 * s, conflict, Get, 0}, {10 * s, read(Record{}), Put, 0}},
			Held},
		"emptied": {[]step{{0, wrote(0), Sleep, 5 * s}, {10 * s, conflict, Get, 0},
			{10 * s, read(free), Put, 0}}, Held},
		"not renewed": {[]step{{0, wrote(0), Sleep, 5 * s}, {15 * s, fail(0), Sleep, 2 * s},
			{19 * s, fail(0), Sleep, s}, {20 * s, nothing, Get, 0}, {20 * s, fail(0), Stop, 0}}, Lost},
		"not renewed, and asked to pause": {[]step{{0, wrote(0), Sleep, 5 * s}, {19 * s, fail(time.Hour), Sleep, s},
			{24 * s, fail(0), Stop, 0}}, Lost},
		"only writes fail": {[]step{{0, wrote(0), Sleep, 5 * s}, {12 * s, fail(0), Sleep, 2 * s},
			{14 * s, read(mine("9")), Put, 0}, {19 * s, fail(0), Sleep, s}, {20 * s, read(mine("9")), Put, 0},
			{20 * s, fail(0), Stop, 0}}, Lost},
		"conflicts without end": {[]step{{0, wrote(0), Sleep, 5 * s}, {19 * s, conflict, Get, 0},
			{20 * s, conflict, Stop, 0}}, Lost},
		"stood still, and nobody took it": {[]step{{0, wrote(0), Sleep, 5 * s}, {1000 * s, nothing, Put, 0},
			{1000 * s, wrote(0), Sleep, 5 * s}}, Held},
		"a late reply": {[]step{{4 * s, wrote(4 * s), Sleep, s}, {20 * s, fail(0), Stop, 0}}, Lost},
	} {
		t.Run(name, func(t *testing.T) {
			c, start := &Claim{ID: "me"}, time.Now()
			for i, p := range tt.steps {
				now := start.Add(p.at)
				p.does(c, now)
				if do, wait := c.Next(now); do != p.want || wait != p.wait {
					t.Errorf("step %d: action %v, %v; want %v, %v", i, do, wait, p.want, p.wait)
				}
			}
			if c.State != tt.state {
				t.Errorf("state %v, want %v", c.State, tt.state)
			}
		})
	}
}

// TestClaimWants: what a run writes.
func TestClaimWants(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		seen, want Record
	}{
		"made": {Record{}, Record{Holder: "me", Duration: Duration, Acquired: "now", Renewed: "now", Ours: true}},
		"taken": {
			Record{Version: "5", Holder: "other", Duration: time.Hour, Acquired: "then", Transitions: 2, Ours: true},
			Record{Version: "5", Holder: "me", Duration: Duration, Acquired: "now", Renewed: "now", Transitions: 3,
				Ours: true}},
		"renewed": {
			Record{Version: "5", Holder: "me", Duration: Duration, Acquired: "then", Renewed: "then", Transitions: 2,
				Ours: true},
			Record{Version: "5", Holder: "me", Duration: Duration, Acquired: "then", Renewed: "now", Transitions: 2,
				Ours: true}},
	} {
		c := &Claim{ID: "me"}
		c.Read(now, tt.seen)
		if got := c.Wants("now"); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}
