package engine

import (
	"context"
	"errors"

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
	case p.Bidirectional:
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
		s, err := r.moveBW(size)
		if err != nil {
			return err
		}
		last = s
		r.done(s)
	}
	if err := r.Barrier("end of the run", r.patience()); err != nil {
		return err
	}
	if _, err := r.Reports(last.Report(r.plan.Gbits), r.patience()); err != nil {
		return err
	}
	return r.Finish(r.patience())
}

// passiveBW is the server of write and read: its software only waits.
func (r *run) passiveBW() error {
	if err := r.Barrier("wait for the client to finish", wire.Forever); err != nil {
		if r.over(err) || r.plan.Infinite && errors.Is(err, wire.ErrClosed) {
			return errOver
		}
		return err
	}
	rep, err := r.Reports(wire.Report{}, r.patience())
	if err != nil {
		return err
	}
	bw := measure.FromPeer(rep, r.plan.Gbits)
	r.done(measure.Size{Bytes: rep.Size, Messages: rep.Iters, BW: &bw, ByPeer: true})
	return r.Finish(r.patience())
}

// bothBW is write and read with both ends at work.
func (r *run) bothBW() error {
	for _, size := range r.plan.Sizes() {
		if err := r.Barrier("start", r.patience()); err != nil {
			return err
		}
		r.begin(size)
		s, err := r.moveBW(size)
		if err != nil {
			return err
		}
		if r.plan.All {
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
		if r.plan.All && r.plan.Verb == wire.WriteImm {
			if err := r.Barrier("end of a size", r.patience()); err != nil {
				return err
			}
		}
		if r.plan.Bidirectional && r.plan.ByCount() {
			if err := r.exchange(&s); err != nil {
				return err
			}
		}
		r.done(s)
		if r.plan.All && r.plan.Verb == wire.Send {
			if err := r.Barrier("end of a size", r.patience()); err != nil {
				return err
			}
		}
	}
	return r.Finish(r.patience())
}

// exchange adds the peer's part of a bidirectional run.
func (r *run) exchange(s *measure.Size) error {
	rep, err := r.Reports(s.Report(r.plan.Gbits), r.patience())
	if err != nil {
		return err
	}
	return s.AddPeer(rep, r.plan.Gbits)
}

// moveBW moves the messages of one size.
func (r *run) moveBW(size uint64) (measure.Size, error) {
	p := &r.plan
	l := &loop.Bandwidth{Monitor: r.mon, Links: r.links, Depth: uint64(p.TxDepth), Lossy: p.Lossy(),
		Alone: !r.Meets()}
	l.Held = max(p.RecvList-1, 0)
	if r.hooks.Progress != nil || p.Events || p.Interval > 0 {
		l.Count = &r.count
	}
	directions := uint64(0)
	if p.Sends() {
		directions++
		l.Sends = r.SendCQ()
		if p.Rate.Limit > 0 {
			l.Pace = measure.NewPacer(r.clk, p.Rate.Messages(size), p.Rate.Burst)
		}
	}
	if p.Receives() {
		directions++
		l.Recvs = r.RecvCQ()
		// As perftest: a server that also sends waits for the client's first.
		l.Gated = p.Sends() && !p.Client()
	}
	var want uint64
	if p.Duration > 0 {
		l.Sample = measure.NewSampler(r.clk, p.Duration, p.Margin)
	} else if p.ByCount() {
		n := p.Iters * uint64(p.QPs)
		want = n * directions
		if p.Sends() && !p.NoPeak && n <= peakMessages {
			l.Stamps = measure.NewStamps(int(n)/p.PostList, int(n), p.PostList)
		}
	}
	stopIntervals := r.intervals(size)
	err := r.guard(size, want, func(ctx context.Context) error {
		if directions == 1 && p.Sends() {
			l.Sends = r.poller(ctx, r.SendCQ())
		} else if directions == 1 {
			l.Recvs = r.poller(ctx, r.RecvCQ())
		}
		if p.PollMax > 0 {
			l.Sends, l.Recvs = few(l.Sends, p.PollMax), few(l.Recvs, p.PollMax)
		}
		if p.Transport == wire.SRD && l.Sends != nil {
			l.Sends = loop.NewUnordered(l.Sends, len(r.links))
		}
		if err := l.Run(); err != nil {
			return err
		}
		if p.Duration > 0 && !p.Verb.Consumes() {
			return l.Drain()
		}
		return nil
	})
	parts := stopIntervals()
	over := r.over(err)
	if err != nil && !over {
		r.res.Parts = parts
		return measure.Size{}, err
	}
	messages, ticks := l.Moved()
	var peak float64
	if l.Stamps != nil {
		peak = l.Stamps.PeakTicks()
	}
	s := measure.Moved(size, messages, ticks, r.clk.Rate()/1e9, peak)
	s.Parts = parts
	if p.Lossy() && p.ByCount() {
		s.Lost = p.Iters*uint64(p.QPs) - l.Received()
	}
	if over {
		r.done(s)
		return s, errOver
	}
	return s, nil
}

// few limits how many completions are taken at once. No queue stays none.
func few(c loop.Completions, n int) loop.Completions {
	if c == nil {
		return nil
	}
	return loop.Few{Completions: c, N: n}
}
