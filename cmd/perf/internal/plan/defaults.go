package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// The defaults of perftest: both ends must use the same numbers.
const (
	maxSweep      = 8 << 20
	bandwidthSize = 64 << 10
	latencySize   = 2
	atomicSize    = 8
	datagramSize  = 1024 // fits into the smallest path MTU of RoCE; perftest has that of the port
	FrameSize     = 1518 // bytes of the longest frame without a tag, unless the MTU is larger
	writeBWIters  = 5000
	otherIters    = 1000
	bandwidthTx   = 128
	latencyTx     = 1
	sendRx        = 512
	defaultCQMod  = 100
	cqModLimit    = 8192 // above, completions are not moderated

	writeLatInline = 220
	sendLatInline  = 236
	udLatInline    = 188
	dcLatInline    = 150
)

// DefaultQPTimeout is the command line's, and near to that of rdma_cm's paths.
const DefaultQPTimeout = 14

// DefaultInterval is that of an endless run.
const DefaultInterval = 5 * time.Second

// AutoInline returns the inline size that perftest asks for. The device may refuse it.
func (p *Plan) AutoInline() int {
	switch {
	case p.Bandwidth() || p.Verb.Fetches() || p.Transport == wire.RawEth:
		return 0
	case p.Transport == wire.DC:
		return dcLatInline
	case p.Verb == wire.Write || p.Verb == wire.WriteImm:
		return writeLatInline
	case p.Transport == wire.UD:
		return udLatInline
	}
	return sendLatInline
}

func (p *Plan) defaultSize() uint64 {
	switch {
	case p.Verb == wire.Atomic:
		return atomicSize
	case p.Transport == wire.UD && (p.Load.All || p.Bandwidth()):
		return datagramSize
	case p.Transport == wire.RawEth && p.Bandwidth():
		return FrameSize
	case p.Transport == wire.RawEth:
		return LeastFrame
	case p.Load.All:
		return maxSweep
	case p.Bandwidth():
		return bandwidthSize
	}
	return latencySize
}

func (p *Plan) defaultIters() uint64 {
	if p.Bandwidth() && (p.Verb == wire.Write || p.Verb == wire.WriteImm) {
		return writeBWIters
	}
	return otherIters
}

func (p *Plan) defaultTxDepth() int {
	if p.Bandwidth() {
		return bandwidthTx
	}
	return latencyTx
}

// fill sets what was left open and does not depend on the rest.
func (p *Plan) fill() {
	if p.Link.DualPort {
		p.Queues.QPs *= 2 // as perftest
	}
	p.Peer.CMExchange = p.Peer.CMExchange && !p.Peer.RDMACM
	if p.Load.SizeList != nil {
		p.Load.Size, p.Load.All = slices.Max(p.Load.SizeList), true
	}
	p.Load.Size = cmp.Or(p.Load.Size, p.defaultSize())
	if p.Load.Infinite && p.Load.Interval == 0 {
		p.Load.Interval, p.Load.Duration = cmp.Or(p.Load.Duration, DefaultInterval), 0 // as perftest
	}
	if p.Load.Duration > 0 && p.Load.Margin < 0 {
		p.Load.Margin = p.Load.Duration / 4
	}
	if p.Load.Duration == 0 && p.Load.Iters == 0 {
		p.Load.Iters = p.defaultIters()
	}
	p.Queues.TxDepth = cmp.Or(p.Queues.TxDepth, p.defaultTxDepth())
	if p.Queues.RxDepth == 0 && p.Verb.Consumes() {
		p.Queues.RxDepth = sendRx
	}
}

// Large reports whether all messages are so large that each has a completion, unless that is asked for otherwise.
func (p *Plan) Large() bool { return p.Load.Size > cqModLimit && !p.Load.All }

// fit brings depths and completions into line with the rest.
func (p *Plan) fit() {
	if p.ByCount() {
		p.Queues.TxDepth = int(min(uint64(p.Queues.TxDepth), p.Load.Iters))
		p.Queues.RxDepth = p.sharers() * int(min(uint64(p.Queues.RxDepth/p.sharers()), p.Load.Iters))
	}
	if p.Queues.CQMod == 0 {
		switch {
		case p.Queues.PostList > 1:
			p.Queues.CQMod = p.Queues.PostList
		case p.Large():
			p.Queues.CQMod = 1
		default:
			p.Queues.CQMod = defaultCQMod
		}
	}
	if p.Transport == wire.SRD {
		p.Queues.CQMod = 1 // EFA completes each message, in any order
	}
	p.Queues.CQMod = min(p.Queues.CQMod, p.Queues.TxDepth)
	if !p.Sends() {
		p.Load.Rate = Rate{} // both ends may be given the same
	}
	if p.Load.Rate.Limit > 0 && !p.Load.Rate.Hardware {
		p.Load.Rate.Burst = cmp.Or(p.Load.Rate.Burst, p.defaultBurst())
		p.Queues.CQMod = min(p.Queues.CQMod, max(1, p.Load.Rate.Burst/max(p.Queues.QPs, 1)))
	}
	if p.Verb.Fetches() || p.Memory.OutOfReach() || p.Memory.Null {
		p.Queues.Inline = 0
	}
}
