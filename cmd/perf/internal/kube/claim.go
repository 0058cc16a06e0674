package kube

import "time"

// Record has the content of a Lease.
type Record struct {
	Version  string        // of the object; "": there is none
	Holder   string        // "": nobody
	Duration time.Duration // after a renewal, in which nobody else may take it
	// By the clock of the holder, which may be wrong: they are compared with nothing but themselves.
	Acquired, Renewed string
	Transitions       int
	Ours              bool // a run of rdmaperf mesh made it
}

// term is how long the record keeps others out.
func (r Record) term() time.Duration {
	if r.Duration <= 0 { // it does not say
		return Duration
	}
	return r.Duration
}

// says reports whether two records say the same.
func (r Record) says(o Record) bool {
	r.Version, o.Version = "", ""
	return r == o
}

// State is how far a claim is.
type State int

// States of a claim. One that is lost stays so.
const (
	Waiting State = iota
	Held
	Lost
)

// Action is a step of a claim.
type Action int

// Actions. Each of Get and Put is followed by the method that has its outcome.
const (
	Sleep Action = iota
	Get
	Put
	Stop // the claim is lost
)

const (
	// Duration is the time for which a Lease is kept for a run that was killed.
	Duration = 30 * time.Second
	// renews is the time between two renewals.
	renews = Duration / 6
	// Limit is the time without a renewal after which a run gives up its nodes: before another one may have them.
	Limit = Duration * 2 / 3
	// polls is the time between two looks at the Lease of another run, and between attempts.
	polls = 2 * time.Second
	// mostPause bounds the time for which the API server may ask.
	mostPause = 10 * time.Second
)

// Claim is a run's claim to a Lease. It knows neither an API server nor a clock: the times that it is given are those
// of one monotonic clock. Whether a holder is gone is judged by that clock, from when its record was last seen to
// change, so a holder whose clock is wrong loses nothing, and gains nothing.
type Claim struct {
	ID    string // no two runs have the same
	State State

	seen    Record    // as it was read or written last
	known   bool      // it may still be like that
	since   time.Time // when it was first seen like that
	renewed time.Time // when the last write that succeeded began
	next    time.Time // nothing is done before
}

// Next returns what to do at a time, and for how long to sleep.
func (c *Claim) Next(now time.Time) (Action, time.Duration) {
	switch {
	case c.State == Lost:
		return Stop, 0
	case now.Before(c.next):
		return Sleep, c.next.Sub(now)
	case c.known && (c.State == Held || c.Free(now)):
		return Put, 0
	}
	return Get, 0
}

// Free reports whether the run may take the Lease, or has it.
func (c *Claim) Free(now time.Time) bool {
	return c.seen.Holder == "" || c.seen.Holder == c.ID || now.Sub(c.since) >= c.seen.term()
}

// Foreign reports whether the Lease belongs to something that is no run of rdmaperf mesh.
func (c *Claim) Foreign() bool { return c.seen.Holder != "" && !c.seen.Ours }

// Wants returns the record to write at a time. wall is the time by this host's clock, for readers.
func (c *Claim) Wants(wall string) Record {
	r := Record{Version: c.seen.Version, Holder: c.ID, Duration: Duration, Acquired: c.seen.Acquired, Renewed: wall,
		Transitions: c.seen.Transitions, Ours: true}
	if c.seen.Holder != c.ID {
		r.Acquired = wall
		if r.Version != "" {
			r.Transitions++
		}
	}
	return r
}

// Read enters what was read.
func (c *Claim) Read(now time.Time, r Record) {
	if c.since.IsZero() || !r.says(c.seen) {
		c.since = now
	}
	c.seen, c.known = r, true
	switch {
	case c.State == Held && r.Holder != c.ID && r.Holder != "":
		c.State = Lost
	case c.State == Waiting && !c.Free(now):
		c.next = now.Add(min(polls, c.since.Add(r.term()).Sub(now)))
	}
}

// Wrote enters that a write which began at a time succeeded.
func (c *Claim) Wrote(began time.Time, r Record) {
	c.State, c.seen, c.known = Held, r, true
	c.since, c.renewed, c.next = began, began, began.Add(renews)
}

// Conflict enters that a write was refused, because somebody else wrote.
func (c *Claim) Conflict(now time.Time) { c.fails(now, now) }

// Failed enters that the API server gave no outcome, and asks not to be called for a time. The write may have had an
// effect.
func (c *Claim) Failed(now time.Time, pause time.Duration) {
	c.fails(now, now.Add(min(max(polls, pause), mostPause)))
}

// fails has the Lease read, at a time. A run tries until Limit, and then gives up.
func (c *Claim) fails(now, again time.Time) {
	c.known, c.next = false, again
	if c.State != Held {
		return
	}
	end := c.renewed.Add(Limit)
	if !now.Before(end) {
		c.State = Lost
	} else if again.After(end) {
		c.next = end
	}
}
