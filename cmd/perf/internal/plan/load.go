package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Kbits returns the rate of one of n queue pairs with messages of a size, in the adapter's unit.
func (r Rate) Kbits(size uint64, n int) uint64 {
	return uint64(r.Messages(size) * float64(size) * 8 / 1000 / float64(n))
}

// checkPacing checks a limit that the adapter enforces.
func (p *Plan) checkPacing() []error {
	r, bytes := p.Load.Rate, p.Load.Size
	if !r.Hardware {
		return []error{wrong(r.Packet != 0, "packet size (--typical-pkt-size) %d: needs --rate-limit-type HW",
			r.Packet)}
	}
	return first(
		unfit(r.Limit == 0, "rate-limit-type", "type of rate (--rate-limit-type) HW: needs a rate (--rate-limit)"),
		unfit(p.Load.All, "rate-limit-type",
			"rate (--rate-limit) by the adapter: set for one size, not for several (-a, --sizes)"),
		wrong(r.Packet < 0 || r.Packet > 1<<16-1, "packet size (--typical-pkt-size) %d; allowed: 1 to %d", r.Packet,
			1<<16-1),
		wrong(uint64(r.Burst)*bytes > 1<<32-1, "burst size (--burst-size) %d messages of %d bytes: the limit of "+
			"adapters is %d bytes", r.Burst, bytes, uint32(1<<32-1)),
		wrong(r.Kbits(bytes, max(p.Queues.QPs, 1)) < 1,
			"rate (--rate-limit) %v: less than 1 kb/s for each queue pair", r.Limit))
}

// ParseRateUnit reads a unit's letter.
func ParseRateUnit(s string) (RateUnit, error) {
	if i := slices.Index(rateUnitLetters, s); i >= 0 {
		return RateUnit(i), nil
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
func (p *Plan) checkEndless() []error {
	l := &p.Load
	return []error{
		wrong((l.Infinite || l.Interval != 0) && !p.Bandwidth(),
			"endless runs and intervals (--run-infinitely, --report-interval): only for bandwidth tests"),
		wrong(l.Infinite && l.All, "an endless run (--run-infinitely) has one size, not several (-a, --sizes)"),
		wrong(l.Infinite && l.Rounds > 1, "an endless run (--run-infinitely) has no rounds (--rounds)"),
		wrong(l.Infinite && l.Duration > 0,
			"an endless run (--run-infinitely) takes a duration (-D) or --report-interval, not both"),
		wrong(l.Infinite && p.Verify, "payload check (--verify): not with an endless run (--run-infinitely)"),
		wrong(l.Interval < 0 || l.Interval > 0 && l.Interval < minInterval, "interval (--report-interval) %v < %v",
			l.Interval, minInterval),
	}
}

const minInterval = 100 * time.Millisecond

// checkRate checks the limit of the sending rate.
func (p *Plan) checkRate() []error {
	r, list := p.Load.Rate, p.Queues.PostList
	if r.Limit == 0 {
		return []error{wrong(r.Burst != 0, "burst size (--burst-size) %d: needs a rate (--rate-limit)", r.Burst)}
	}
	if bad := cmp.Or(
		wrong(!(r.Limit > 0 && r.Limit < 1e12), "rate (--rate-limit) %v; allowed: above 0, below 1e12", r.Limit),
		unfit(r.Burst < 0 || r.Burst > 0 && (r.Burst < list || r.Burst > maxDepth), "burst-size",
			"burst size (--burst-size) %d; allowed: %d (the post list, -l) to %d", r.Burst, list,
			maxDepth)); bad != nil {
		return []error{bad}
	}
	bw := p.Bandwidth()
	errs := []error{
		unfit(!bw, "rate-limit", "rate (--rate-limit): only for bandwidth tests"),
		unfit(!bw, "burst-size", "burst size (--burst-size): only for bandwidth tests"),
		unfit(bw && p.Queues.Events && !r.Hardware, "events", "rate (--rate-limit): needs polling; give no -e"),
	}
	if r.Hardware {
		return errs
	}
	burst := r.Burst
	if burst == 0 {
		burst = p.defaultBurst()
	}
	burst = max(burst, p.Queues.QPs*list) // each queue pair has its turn
	every := float64(burst) / r.Messages(p.Load.Size)
	half, quarter := p.Peer.Timeout.Seconds()/2, (p.Load.Duration-2*p.Load.Margin).Seconds()/4
	return append(errs,
		wrong(every > half, "rate (--rate-limit): %d messages take %.3g s; allowed: %.3g s (half of --timeout); "+
			"give a higher rate, or a smaller --burst-size", burst, every, half),
		wrong(p.Load.Duration > 0 && every > quarter, "rate (--rate-limit): %d messages take %.3g s; allowed: %.3g s "+
			"(a quarter of what -D measures); give a higher rate, or a smaller --burst-size", burst, every, quarter))
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
func (p *Plan) checkLists() []error {
	n, q := p.Queues.RecvList, &p.Queues
	const bwOnly = "list of receives (--recv-post-list) %d: only for bandwidth tests"
	errs := []error{
		unfit(q.PollMax < 0 || q.PollMax > MaxPoll, "cqe-poll",
			"completions at once (--cqe-poll) %d; allowed: 1 to %d", q.PollMax, MaxPoll),
		unfit(q.PollMax > 0 && !p.Bandwidth(), "cqe-poll",
			"completions at once (--cqe-poll) %d: only for bandwidth tests", q.PollMax),
	}
	if n == 0 {
		return errs
	}
	return append(first(
		wrong(!p.Bandwidth() && n > 1, bwOnly, n),
		unfit(!p.Verb.Consumes(), "recv-post-list",
			"list of receives (--recv-post-list) %d: only send and --write-with-imm have receives", n),
		unfit(!p.Bandwidth(), "recv-post-list", bwOnly, n),
		unfit(n < 1 || n > q.RxDepth, "recv-post-list",
			"list of receives (--recv-post-list) %d; allowed: 1 to %d, the receive queue depth (-r)", n, q.RxDepth)),
		errs...)
}

// MaxPoll is the most completions that a bandwidth loop takes at once.
const MaxPoll = 16

// checkWarmUp checks messages that do not count.
func (p *Plan) checkWarmUp() []error {
	return first(
		wrong(p.Load.WarmUp && !p.Bandwidth(), "warm-up (--perform-warm-up): only for bandwidth tests"),
		wrong(p.Load.WarmUp && p.Verb.Consumes(), "warm-up (--perform-warm-up): the peer would have to post receives "+
			"for it; write, read and atomic do without"))
}
