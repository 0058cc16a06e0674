package layer

import (
	"context"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// raw runs rdmaperf send: as a client if the options are a client's. waiting is called when a server listens.
func raw(ctx context.Context, o *Options, what order, waiting func(port int)) (Run, error) {
	metric := wire.Bandwidth
	if what.Latency {
		metric = wire.Latency
	}
	p, err := plan.New(plan.Options{
		Verb: wire.Send, Metric: metric, Transport: wire.RC,
		Peer:   plan.Peer{Host: o.Host, Bind: o.Bind, Port: o.Port + 1, Timeout: o.Timeout, Patience: o.Patience},
		Link:   plan.Link{Device: o.Device, IBPort: 1, GIDIndex: plan.Auto, QPTimeout: plan.DefaultQPTimeout},
		Load:   plan.Load{Size: uint64(what.Size), Iters: uint64(what.Messages), Margin: plan.Auto},
		Queues: plan.Queues{Events: what.Carrier == RawWait, QPs: 1, PostList: 1, Inline: plan.Auto},
		Place:  plan.Place{Node: plan.Auto}, Report: plan.Report{NoPeak: true, LatencyDef: plan.RoundTrip},
	})
	if err != nil {
		return Run{}, err
	}
	var before Usage
	res, err := engine.Run(ctx, p, engine.Hooks{
		Waiting: waiting,
		Ready:   func(session.Setup) { before = now(nil) },
	})
	if err != nil {
		return Run{}, err
	}
	used := now(nil).since(before)
	used.Allocs = 0 // the exchange's
	run := Run{Carrier: what.Carrier, Bytes: what.Size, Conns: 1, Messages: what.Messages, Client: &used}
	if len(res.Sizes) > 0 {
		s := res.Sizes[0]
		run.Lat = s.Lat
		if s.BW != nil && s.BW.MessagesPerSecond > 0 {
			run = run.over(float64(what.Messages) / s.BW.MessagesPerSecond)
		}
	}
	return run, nil
}
