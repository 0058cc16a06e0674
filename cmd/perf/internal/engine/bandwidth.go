package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/loop"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// peakMessages is the most for which the peak is looked for.
const peakMessages = 1 << 20

// bandwidth is all bandwidth tests.
func (r *run) bandwidth() error {
	p := &r.plan
	switch {
	case p.Verb.Consumes():
		return r.sendBW()
	case p.Load.Bidirectional:
		return r.bothBW()
	case p.Client():
		return r.oneWayBW()
	}
	return r.passiveBW()
}

// oneWayBW is the client of write and read.
func (r *run) oneWayBW() error {
	var last measure.Size
	for _, size := range r.plan.Sizes() {
		r.begin(size)
		if err := r.warmUp(size); err != nil {
			return err
		}
		s, err := r.moveBW(size)
		if err == errOver && r.asked.Err() != nil && !r.Terms().Beats {
			r.Outlive()
			_ = r.reportBW(&s, grace) // perftest's server fails without it; this end is done either way
			return err
		}
		if err != nil {
			return err
		}
		last = s
		r.done(s)
	}
	return r.reportBW(&last, r.patience())
}

// reportBW tells the server of write and read that the run is over, and what came of it.
func (r *run) reportBW(s *measure.Size, limit time.Duration) error {
	if err := r.Barrier("end of the run", limit); err != nil {
		return err
	}
	if _, err := r.Reports(s.Report(r.plan.Report.Gbits), limit); err != nil {
		return err
	}
	return r.Finish(limit)
}

// passiveBW is the server of write and read: its software only waits.
func (r *run) passiveBW() error {
	if err := r.Barrier("wait for the client to finish", wire.Forever); err != nil {
		if r.over(err) {
			return errOver
		}
		return err
	}
	rep, err := r.Reports(wire.Report{PerPort: r.plan.Report.PerPort}, r.patience())
	if err != nil {
		return err
	}
	r.done(measure.ByPeer(rep, r.plan.Report.Gbits))
	return r.Finish(r.patience())
}

// bothBW is write and read with both ends at work.
func (r *run) bothBW() error {
	for _, size := range r.plan.Sizes() {
		r.begin(size)
		if err := r.warmUp(size); err != nil {
			return err
		}
		if !r.plan.Load.Infinite || r.Terms().Ours { // perftest begins an endless run at once
			if err := r.Barrier("start", r.patience()); err != nil {
				return err
			}
		}
		s, err := r.moveBW(size)
		if err != nil {
			return err
		}
		if r.plan.Sweep() {
			if err := r.Barrier("end of a size", r.patience()); err != nil {
				return err
			}
		}
		if err := r.exchange(&s); err != nil {
			return err
		}
		r.done(s)
	}
	return r.Finish(r.patience())
}

// checkCredits refuses lists that do not go with the credits of a perftest on iWARP.
func (r *run) checkCredits() error {
	p := &r.plan
	if !r.Credits() {
		return nil
	}
	if p.Receives() && p.Queues.RecvList > 1 {
		return fmt.Errorf("list of receives (--recv-post-list) %d: a stock perftest on iWARP needs each receive to be "+
			"posted again at once; leave the option out", p.Queues.RecvList)
	}
	// Credits come for a third of the receives at a time.
	if most := p.Queues.RxDepth - p.Queues.RxDepth/3; p.Sends() && p.Queues.PostList > most &&
		p.Messages() > uint64(p.Queues.RxDepth) {
		return fmt.Errorf("post list (-l) %d > %d, two thirds of the receive queue depth (-r): a stock perftest on "+
			"iWARP admits no more at once; give both ends a larger -r, or use a shorter list", p.Queues.PostList, most)
	}
	return nil
}

// sendBW is send and write with immediate data, in all roles.
func (r *run) sendBW() error {
	for _, size := range r.plan.Sizes() {
		r.begin(size)
		if err := r.postReceives(); err != nil {
			return err
		}
		if err := r.start(); err != nil {
			return err
		}
		s, err := r.moveBW(size)
		if err != nil {
			return err
		}
		if r.plan.Sweep() && r.plan.Verb == wire.WriteImm {
			if err := r.Barrier("end of a size", r.patience()); err != nil {
				return err
			}
		}
		if r.plan.Load.Bidirectional && r.Meets() && (r.plan.ByCount() || r.plan.Report.ReportBoth) {
			if err := r.exchange(&s); err != nil {
				return err
			}
		}
		if err := r.losses(&s); err != nil {
			return err
		}
		r.done(s)
		if r.plan.Sweep() && r.plan.Verb == wire.Send {
			if err := r.Barrier("end of a size", r.patience()); err != nil {
				return err
			}
		}
	}
	return r.Finish(r.patience())
}

// exchange adds the peer's part of a bidirectional run.
func (r *run) exchange(s *measure.Size) error {
	rep, err := r.Reports(s.Report(r.plan.Report.Gbits), r.patience())
	if err != nil {
		return err
	}
	return s.AddPeer(rep, r.plan.Report.Gbits)
}

// losses asks the peer what of that which was sent has not arrived, where that is possible.
func (r *run) losses(s *measure.Size) error {
	p := &r.plan
	if !r.Meets() || !r.Terms().Counts || p.Transport.Reliable() || !p.ByCount() {
		return nil
	}
	own, sent := uint64(0), uint64(0)
	if all := p.Load.Iters * uint64(p.Queues.QPs); p.Receives() {
		own = all - s.Lost
	}
	if p.Sends() {
		sent = p.Load.Iters * uint64(p.Queues.QPs)
	}
	there, err := r.Arrived(own, r.patience())
	if err != nil {
		return err
	}
	if there > sent {
		return fmt.Errorf("the peer reports %d messages that arrived, this end sent %d", there, sent)
	}
	s.LostThere = sent - there
	return nil
}

// moveBW moves the messages of one size.
func (r *run) moveBW(size uint64) (measure.Size, error) {
	p := &r.plan
	loops := make([]*loop.Bandwidth, len(r.threads))
	times := make([]spacing, len(r.threads))
	for i, t := range r.threads {
		loops[i] = r.bandwidthLoop(t, size)
	}
	both := p.Sends() && p.Receives()
	var want uint64
	if p.ByCount() {
		want = p.Load.Iters * uint64(p.Queues.QPs)
		if both {
			want *= 2
		}
	}
	parts := r.watchIntervals(size)
	err := r.guard(size, want, func(ctx context.Context, i int) error {
		l, t := loops[i], r.threads[i]
		if !both && p.Sends() {
			l.Sends = r.poller(ctx, t.sends)
		} else if !both {
			l.Recvs = r.poller(ctx, t.recvs)
		}
		times[i].of(r, l)
		if p.Queues.PollMax > 0 {
			l.Sends, l.Recvs = few(l.Sends, p.Queues.PollMax), few(l.Recvs, p.Queues.PollMax)
		}
		l.Sends = r.ordered(l.Sends)
		if err := l.Run(); err != nil {
			return err
		}
		if p.Load.Duration > 0 && !p.Verb.Consumes() {
			return l.Drain()
		}
		return nil
	})
	over := r.over(err)
	list := parts.end(loops, err != nil && !over)
	if err != nil && !over {
		r.res.Parts = list
		if !slices.ContainsFunc(loops, func(l *loop.Bandwidth) bool { return !l.Cut() }) {
			s := r.outcome(size, loops, false)
			r.res.Partial = &s
		}
		return measure.Size{}, err
	}
	s := r.outcome(size, loops, true)
	s.Parts = list
	s.SendSpacing, s.RecvSpacing = summary(times)
	if over {
		r.done(s)
		return s, errOver
	}
	return s, nil
}

// bandwidthLoop makes the loop of a thread.
func (r *run) bandwidthLoop(t *thread, size uint64) *loop.Bandwidth {
	p := &r.plan
	l := &loop.Bandwidth{Monitor: t.mon, Links: t.links, Depth: uint64(p.Queues.TxDepth), Lossy: p.Lossy(),
		Alone: !r.Meets()}
	l.Held = max(p.Queues.RecvList-1, 0)
	if r.Credits() {
		l.Credits = &loop.Credits{CQ: t.sends, Depth: uint64(p.Queues.RxDepth),
			Links: r.credits[t.first:][:len(t.links)]}
	}
	if r.hooks.Progress != nil || p.Queues.Events || p.Load.Interval > 0 {
		l.Count = &t.count
	}
	if p.Sends() {
		l.Sends = t.sends
		if p.Load.Rate.Limit > 0 && !p.Load.Rate.Hardware {
			n := len(r.threads) // each has its part
			l.Pace = measure.NewPacer(r.clk, p.Load.Rate.Messages(size)/float64(n),
				max(p.Load.Rate.Burst/n, p.Queues.PostList))
		}
	}
	if p.Receives() {
		l.Recvs = t.recvs
		// As perftest: a server that also sends waits for the client's first.
		l.Gated = p.Sends() && !p.Client()
	}
	if p.Load.Duration > 0 {
		l.Sample = r.sampler()
		if p.Report.PerPort {
			l.CountLinks()
		}
	} else if n := p.Load.Iters * uint64(len(t.links)); p.ByCount() && p.Sends() && !p.Report.NoPeak &&
		p.Load.Iters*uint64(p.Queues.QPs) <= peakMessages {
		l.Stamps = measure.NewStamps(int(n)/p.Queues.PostList, int(n), p.Queues.PostList)
	}
	return l
}

// outcome returns what the loops of all threads moved. If that is not the whole of it, there is no peak, nothing is
// lost, and ports have no figures of their own.
func (r *run) outcome(size uint64, loops []*loop.Bandwidth, whole bool) measure.Size {
	p := &r.plan
	var parts []measure.Size
	var stamps []*measure.Stamps
	for i, l := range loops {
		peak := 0.0
		if l.Stamps != nil && whole {
			peak = l.Stamps.PeakTicks()
			stamps = append(stamps, l.Stamps)
		}
		sent, came := l.Flows()
		if !p.Sends() {
			sent = came
		}
		s := measure.Moved(size, sent, r.perTick(), peak)
		switch {
		case p.Load.Bidirectional && p.Receives():
			s.AddArrived(came, r.perTick())
		case p.Load.Bidirectional:
			s.OneOfTwo()
		}
		if p.Lossy() && p.ByCount() && whole {
			s.Lost = p.Load.Iters*uint64(len(r.threads[i].links)) - came.Messages
		}
		parts = append(parts, s)
	}
	s := r.sum(parts)
	if p.Load.Duration > 0 {
		from, _ := ends(loops)
		s.Start = float64(from.At-loops[0].Begun()) * r.perTick()
	}
	if p.Report.PerPort && whole {
		s.Ports = r.ports(size, loops)
	}
	if len(parts) > 1 && stamps != nil {
		s.SetPeak(measure.MergeStamps(stamps).PeakTicks(), r.perTick())
	}
	return s
}
