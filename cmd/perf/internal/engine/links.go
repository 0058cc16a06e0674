package engine

import (
	"context"
	"fmt"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/loop"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/payload"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// makeLinks makes a link of each queue pair, and gives each thread its own. The fields that a transport or a verb needs
// in each work request (an address handle, an operand) are set here, once.
func (r *run) makeLinks() {
	p := &r.plan
	recvs := 0
	if p.Receives() {
		recvs = min(p.RxEach(), max(p.Queues.RecvList, loop.PollBatch))
	}
	for i, q := range r.Pairs() {
		l := loop.NewLink(p.Queues.PostList, recvs, q.LKey)
		l.Name = fmt.Sprintf("queue pair %d (number %#x, peer %#x)", i+1, q.QP.Num(), q.PeerQPN)
		l.Send, l.Recv, l.Messages, l.Moderate = q.QP, q.QP, p.Messages(), p.Queues.CQMod
		l.Local, l.Remote, l.Landing = q.Local, q.Remote, q.Landing
		if q.SRQ != nil {
			l.Recv = q.SRQ
		}
		if !p.Bandwidth() {
			l.Moderate = 1 // every message is waited for
		}
		for k := range l.WRs {
			l.WRs[k] = ibv.SendWR{
				Opcode: p.Opcode(), SGEs: l.WRs[k].SGEs, Remote: ibv.RemoteAddr{RKey: q.RKey},
				AH: q.AH, RemoteQPN: q.PeerQPN, RemoteQKey: q.QKey, // of a datagram
				RemoteSRQN: q.SRQN, // of XRC
				DCKey:      q.DCKey,
				CompareAdd: 1, // of an atomic: adds one, or compares with what is rarely there
			}
		}
		r.links = append(r.links, l)
		if c := q.Credit; c != nil {
			r.credits = append(r.credits, loop.Credit{Own: c.Own, SGE: c.SGE, Peers: c.Peers,
				Remote: ibv.RemoteAddr{Addr: q.Remote, RKey: q.RKey}})
		}
	}
	r.makeThreads(r.links)
}

// begin prepares the links for messages of a size.
func (r *run) begin(size uint64) {
	var flags ibv.SendFlags
	if inline := r.Setup().Local.Inline; !r.plan.Verb.Fetches() && inline > 0 && size <= uint64(inline) {
		flags |= ibv.Inline
	}
	for _, l := range r.links {
		l.Begin(r.plan.Posted(size), r.plan.Arrives(size), r.cycle(), uint64(r.Terms().CacheLine), flags)
	}
}

// cycle is how many bytes small messages are spread over; 0: they always have the same place.
func (r *run) cycle() uint64 {
	switch p := &r.plan; {
	case !p.Bandwidth():
		return 0
	case p.Transport == wire.RawEth && p.Frames.Kinds() > 1:
		return uint64(p.Frames.Kinds()) * payload.RoundUp(p.Posted(p.Load.Size), uint64(r.Terms().CacheLine))
	case p.Transport == wire.RawEth:
		return 0
	}
	return uint64(r.Terms().PageSize)
}

// start meets the peer before the first message. Without an exchange a server prints that it is ready.
func (r *run) start() error {
	if !r.Meets() && !r.plan.Client() && r.hooks.Waiting != nil {
		r.hooks.Waiting(0)
	}
	return r.Barrier("start", r.patience())
}

func (r *run) postReceives() error {
	if !r.plan.Receives() {
		return nil
	}
	for _, l := range r.links {
		if err := l.PostRecv(r.plan.RxEach()); err != nil {
			return err
		}
	}
	return nil
}

// poller returns what a loop gets its completions from. The context ends a sleep.
func (r *run) poller(ctx context.Context, cq *ibv.CQ) loop.Completions {
	if r.plan.Queues.Events {
		return loop.Sleeping{CQ: cq, Ctx: ctx}
	}
	return cq
}

// ordered returns completions in the order of their messages.
func (r *run) ordered(sends loop.Completions) loop.Completions {
	if r.plan.Transport == wire.SRD && sends != nil {
		return loop.NewUnordered(sends, len(r.links))
	}
	return sends
}

// few limits how many completions are taken at once. No queue stays none.
func few(c loop.Completions, n int) loop.Completions {
	if c == nil {
		return nil
	}
	return loop.Few{Completions: c, N: n}
}

// sampler returns what ends a loop by time. Those of several threads and rails share a window.
func (r *run) sampler() *measure.Sampler {
	s := measure.NewSampler(r.clk, r.plan.Load.Duration, r.plan.Load.Margin)
	if len(r.threads) > 1 || r.rails != nil {
		r.window.Add(s)
	}
	return s
}
