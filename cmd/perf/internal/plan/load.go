package plan

import (
	"fmt"
	"time"
)

// Kbits returns the rate of one of n queue pairs with messages of a size, in the adapter's unit.
func (r Rate) Kbits(size uint64, n int) uint64 {
	return uint64(r.Messages(size) * float64(size) * 8 / 1000 / float64(n))
}

// checkPacing checks a limit that the adapter enforces.
func (p *Plan) checkPacing(c *complaints) {
	r := p.Load.Rate
	switch {
	case !r.Hardware && r.Packet != 0:
		c.add("packet size (--typical-pkt-size) %d: needs --rate-limit-type HW", r.Packet)
	case !r.Hardware:
	case r.Limit == 0:
		c.unfit("rate-limit-type", "type of rate (--rate-limit-type) HW: needs a rate (--rate-limit)")
	case p.Load.All:
		c.unfit("rate-limit-type",
			"rate (--rate-limit) by the adapter: set for one size, not for several (-a, --sizes)")
	case r.Packet < 0 || r.Packet > 1<<16-1:
		c.add("packet size (--typical-pkt-size) %d; allowed: 1 to %d", r.Packet, 1<<16-1)
	case uint64(r.Burst)*p.Load.Size > 1<<32-1:
		c.add("burst size (--burst-size) %d messages of %d bytes: the limit of adapters is %d bytes", r.Burst,
			p.Load.Size,
			uint32(1<<32-1))
	case r.Kbits(p.Load.Size, max(p.Queues.QPs, 1)) < 1:
		c.add("rate (--rate-limit) %v: less than 1 kb/s for each queue pair", r.Limit)
	}
}

// ParseRateUnit reads a unit's letter.
func ParseRateUnit(s string) (RateUnit, error) {
	switch s {
	case "M":
		return MiBPerSecond, nil
	case "g":
		return GbitPerSecond, nil
	case "p":
		return MessagesPerSecond, nil
	}
	return 0, fmt.Errorf("unit of rate (--rate-units) %q; allowed: M (MiB/s), g (Gb/s) and p (messages/s)", s)
}

// Messages returns how many messages of a size go out in a second.
func (r Rate) Messages(size uint64) float64 {
	switch r.Unit {
	case MiBPerSecond:
		return r.Limit * (1 << 20) / float64(size)
	case GbitPerSecond:
		return r.Limit * 1e9 / 8 / float64(size)
	}
	return r.Limit
}

// checkEndless checks runs without an end, and intermediate figures.
func (p *Plan) checkEndless(c *complaints) {
	if (p.Load.Infinite || p.Load.Interval != 0) && !p.Bandwidth() {
		c.add("endless runs and intervals (--run-infinitely, --report-interval): only for bandwidth tests")
	}
	if p.Load.Infinite && p.Load.All {
		c.add("an endless run (--run-infinitely) has one size, not several (-a, --sizes)")
	}
	if p.Load.Infinite && p.Load.Rounds > 1 {
		c.add("an endless run (--run-infinitely) has no rounds (--rounds)")
	}
	if p.Load.Infinite && p.Load.Duration > 0 {
		c.add("an endless run (--run-infinitely) takes a duration (-D) or --report-interval, not both")
	}
	if p.Load.Infinite && p.Verify {
		c.add("payload check (--verify): not with an endless run (--run-infinitely)")
	}
	if p.Load.Interval < 0 || p.Load.Interval > 0 && p.Load.Interval < minInterval {
		c.add("interval (--report-interval) %v < %v", p.Load.Interval, minInterval)
	}
}

const minInterval = 100 * time.Millisecond

// checkRate checks the limit of the sending rate.
func (p *Plan) checkRate(c *complaints) {
	r := p.Load.Rate
	if r.Limit == 0 {
		if r.Burst != 0 {
			c.add("burst size (--burst-size) %d: needs a rate (--rate-limit)", r.Burst)
		}
		return
	}
	if !(r.Limit > 0 && r.Limit < 1e12) {
		c.add("rate (--rate-limit) %v; allowed: above 0, below 1e12", r.Limit)
		return
	}
	if r.Burst < 0 || r.Burst > 0 && (r.Burst < p.Queues.PostList || r.Burst > maxDepth) {
		c.unfit("burst-size",
			"burst size (--burst-size) %d; allowed: %d (the post list, -l) to %d", r.Burst, p.Queues.PostList, maxDepth)
		return
	}
	switch {
	case !p.Bandwidth():
		c.unfit("rate-limit", "rate (--rate-limit): only for bandwidth tests")
		c.unfit("burst-size", "burst size (--burst-size): only for bandwidth tests")
	case p.Queues.Events && !r.Hardware:
		c.unfit("events", "rate (--rate-limit): needs polling; give no -e")
	}
	if r.Hardware {
		return
	}
	burst := r.Burst
	if burst == 0 {
		burst = p.defaultBurst()
	}
	burst = max(burst, p.Queues.QPs*p.Queues.PostList) // each queue pair has its turn
	every := float64(burst) / r.Messages(p.Load.Size)
	if most := p.Peer.Timeout.Seconds() / 2; every > most {
		c.add("rate (--rate-limit): %d messages take %.3g s; allowed: %.3g s (half of --timeout); "+
			"give a higher rate, or a smaller --burst-size", burst, every, most)
	}
	if most := (p.Load.Duration - 2*p.Load.Margin).Seconds() / 4; p.Load.Duration > 0 && every > most {
		c.add("rate (--rate-limit): %d messages take %.3g s; allowed: %.3g s (a quarter of what -D "+
			"measures); give a higher rate, or a smaller --burst-size", burst, every, most)
	}
}

// defaultBurst is as deep as the send queue, as perftest's, but no more than what may go out in a millisecond: a sample
// would have a burst more than its share. Sweeps have all sizes, whose rates differ.
func (p *Plan) defaultBurst() int {
	burst := max(p.Queues.TxDepth, 1)
	if each := p.Load.Rate.Messages(p.Load.Size) / 1000; !p.Load.All && each < float64(burst) {
		burst = max(int(each), p.Queues.PostList, 1)
	}
	return burst
}

// checkLists checks how much is posted and polled at once.
func (p *Plan) checkLists(c *complaints) {
	switch {
	case p.Queues.RecvList == 0:
	case !p.Bandwidth() && p.Queues.RecvList > 1:
		c.add("list of receives (--recv-post-list) %d: only for bandwidth tests", p.Queues.RecvList)
	case !p.Verb.Consumes():
		c.unfit("recv-post-list",
			"list of receives (--recv-post-list) %d: only send and --write-with-imm have receives", p.Queues.RecvList)
	case !p.Bandwidth():
		c.unfit("recv-post-list", "list of receives (--recv-post-list) %d: only for bandwidth tests", p.Queues.RecvList)
	case p.Queues.RecvList < 1 || p.Queues.RecvList > p.Queues.RxDepth:
		c.unfit("recv-post-list",
			"list of receives (--recv-post-list) %d; allowed: 1 to %d, the receive queue depth (-r)", p.Queues.RecvList,
			p.Queues.RxDepth)
	}
	if p.Queues.PollMax < 0 || p.Queues.PollMax > MaxPoll {
		c.unfit("cqe-poll", "completions at once (--cqe-poll) %d; allowed: 1 to %d", p.Queues.PollMax, MaxPoll)
	}
	if p.Queues.PollMax > 0 && !p.Bandwidth() {
		c.unfit("cqe-poll", "completions at once (--cqe-poll) %d: only for bandwidth tests", p.Queues.PollMax)
	}
}

// MaxPoll is the most completions that a bandwidth loop takes at once.
const MaxPoll = 16

// checkWarmUp checks messages that do not count.
func (p *Plan) checkWarmUp(c *complaints) {
	switch {
	case !p.Load.WarmUp:
	case !p.Bandwidth():
		c.add("warm-up (--perform-warm-up): only for bandwidth tests")
	case p.Verb.Consumes():
		c.add("warm-up (--perform-warm-up): the peer would have to post receives for it; write, read and atomic do " +
			"without")
	}
}
