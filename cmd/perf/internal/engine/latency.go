package engine

import (
	"context"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/loop"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/payload"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// latency is all latency tests.
func (r *run) latency() error {
	p := &r.plan
	if p.Verb.Fetches() && !p.Client() {
		// The client works alone; Finish waits for it.
		return r.Finish(wire.Forever)
	}
	for _, size := range p.Sizes() {
		r.begin(size)
		if p.Verb.Consumes() {
			if err := r.postReceives(); err != nil {
				return err
			}
			if err := r.start(); err != nil {
				return err
			}
		}
		s, err := r.runLat(size)
		if err != nil {
			return err
		}
		r.done(s)
	}
	if (p.Verb == wire.Write || p.Verb == wire.WriteImm) && !r.Terms().Ours {
		// Here the stock exchange just stops. The peer may still wait for an
		// acknowledgement of its last message, so it leaves first.
		return r.AwaitClose(grace)
	}
	return r.Finish(r.patience())
}

// runLat measures one size.
func (r *run) runLat(size uint64) (measure.Size, error) {
	p := &r.plan
	loops := make([]*loop.Latency, len(r.threads))
	for i, t := range r.threads {
		loops[i] = r.latencyLoop(t)
	}
	err := r.guard(size, p.Load.Iters*uint64(len(loops)), func(ctx context.Context, i int) error {
		l, t := loops[i], r.threads[i]
		if p.Verb == wire.Write {
			return l.Write(r.SendArea(t.first)[:size], r.RecvArea(t.first)[:size])
		}
		l.Sends = r.poller(ctx, t.sends)
		if p.Verb.Fetches() {
			return l.Read()
		}
		l.Recvs = r.poller(ctx, t.recvs)
		return l.PingPong()
	})
	if err != nil {
		if !slices.ContainsFunc(loops, func(l *loop.Latency) bool { return !l.Cut() }) {
			s := r.waited(size, loops)
			r.res.Partial = &s
		}
		return measure.Size{}, err
	}
	return r.waited(size, loops), nil
}

// waited returns what the loops of all threads measured.
func (r *run) waited(size uint64, loops []*loop.Latency) measure.Size {
	p := &r.plan
	var parts []measure.Size
	for i, t := range r.threads {
		if p.Verb == wire.Write {
			// The number of the last message is in the way of the next size.
			payload.Fill(r.SendArea(t.first), r.Payload(t.first))
		}
		dist := loops[i].Collect(r.perTick() * 1e9)
		part := measure.Waited(size, loops[i].Messages(), dist)
		if p.Report.Unsorted {
			part.Samples = dist.Samples()
		}
		parts = append(parts, part)
	}
	return r.sum(parts)
}

// latencyLoop makes the loop of a thread.
func (r *run) latencyLoop(t *thread) *loop.Latency {
	p := &r.plan
	l := &loop.Latency{
		Monitor: t.mon, Link: t.links[0], Sends: t.sends, Recvs: t.recvs,
		Begins: p.Client() == (p.Verb == wire.Send),
		Alone:  !r.Meets(), ToCQE: p.Report.LatencyDef == plan.ToCompletion, Half: 0.5, Gap: r.clk.Ticks(p.Load.Gap),
	}
	if p.Verb.Fetches() {
		l.Half = 1
	} else if !l.ToCQE {
		l.Lag = 1
	}
	if r.hooks.Progress != nil || p.Queues.Events {
		l.Count = &t.count
	}
	if r.Meets() && !r.Terms().Ours && !p.Verb.Fetches() {
		// A program of perftest measures its processor's clock first, for some 0.2 s.
		l.Ahead, r.res.Ahead = 1, 1
	}
	if p.Load.Duration > 0 {
		l.ByTime(r.sampler(), r.clk.Rate())
		l.Follows = !p.Client() && !p.Queues.Events && r.Meets() && r.Terms().Ours
	} else {
		l.ByCount(p.Load.Iters)
	}
	return l
}
