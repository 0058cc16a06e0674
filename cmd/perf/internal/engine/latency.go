package engine

import (
	"context"

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
	l := &loop.Latency{
		Monitor: r.mon, Link: r.links[0], Sends: r.SendCQ(), Recvs: r.RecvCQ(),
		Begins: p.Client() == (p.Verb == wire.Send),
		Alone:  !r.Meets(), ToCQE: p.LatencyDef == plan.ToCompletion, Half: 0.5,
	}
	if p.Verb.Fetches() {
		l.Half = 1
	} else if !l.ToCQE {
		l.Lag = 1
	}
	if r.hooks.Progress != nil || p.Events {
		l.Count = &r.count
	}
	if p.Duration > 0 {
		l.ByTime(measure.NewSampler(r.clk, p.Duration, p.Margin), r.clk.Rate())
	} else {
		l.ByCount(p.Iters)
	}
	err := r.guard(size, p.Iters, func(ctx context.Context) error {
		if p.Verb == wire.Write {
			return l.Write(r.SendArea(0)[:size], r.RecvArea(0)[:size])
		}
		l.Sends = r.poller(ctx, r.SendCQ())
		if p.Verb.Fetches() {
			return l.Read()
		}
		l.Recvs = r.poller(ctx, r.RecvCQ())
		return l.PingPong()
	})
	if err != nil {
		return measure.Size{}, err
	}
	if p.Verb == wire.Write {
		// The number of the last message is in the way of the next size.
		payload.Fill(r.SendArea(0), 0)
	}
	h := l.Collect(r.clk.Rate())
	sum := h.Summary()
	return measure.Size{Bytes: size, Messages: r.links[0].Done(), Lat: &sum, Buckets: h.Buckets()}, nil
}
