package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// Connects reports whether this end connects to the other, which waits for it.
func (p *Plan) Connects() bool { return p.Peer.Host != "" || p.Frames.Connects }

// Client reports whether this end has the client's part in the traffic: it connects, unless the test is reversed.
func (p *Plan) Client() bool { return p.Connects() != p.Load.Reversed }

// Bandwidth reports whether the test measures bandwidth, and not latency.
func (p *Plan) Bandwidth() bool { return p.Metric == wire.Bandwidth }

// Measures reports whether this end has figures: the server of read and atomic lat has none.
func (p *Plan) Measures() bool { return p.Client() || p.Bandwidth() || !p.Verb.Fetches() }

// Sends reports whether this end posts what is measured.
func (p *Plan) Sends() bool {
	return p.Client() || p.Load.Bidirectional || (p.Metric == wire.Latency && !p.Verb.Fetches())
}

// Receives reports whether this end posts receives.
func (p *Plan) Receives() bool {
	return p.Verb.Consumes() && (!p.Client() || p.Load.Bidirectional || p.Metric == wire.Latency)
}

// Lands reports whether the peer's payload comes to rest in this end's memory.
func (p *Plan) Lands() bool {
	if p.Verb.Fetches() {
		return p.Client() || p.Load.Bidirectional
	}
	return !p.Client() || p.Load.Bidirectional || p.Metric == wire.Latency
}

// opcodes are those of the verbs, unless something else is asked for.
var opcodes = []ibv.Opcode{wire.Send: ibv.OpSend, wire.Write: ibv.OpWrite, wire.Read: ibv.OpRead,
	wire.Atomic: ibv.OpCompareSwap, wire.WriteImm: ibv.OpWriteImm}

// Opcode returns what is posted.
func (p *Plan) Opcode() ibv.Opcode {
	switch {
	case p.Verb == wire.Atomic && p.Atomic == wire.FetchAdd:
		return ibv.OpFetchAdd
	case p.Verb == wire.Send && p.Queues.SendImm:
		return ibv.OpSendImm
	}
	return opcodes[p.Verb]
}

var qpTypes = []ibv.QPType{wire.RC: ibv.RC, wire.UC: ibv.UC, wire.UD: ibv.UD, wire.RawEth: ibv.RawPacket,
	wire.XRC: ibv.XRCSend, wire.DC: ibv.DCI, wire.SRD: ibv.SRD}

// QPType returns the type of the queue pairs, of those that send where they differ.
func (p *Plan) QPType() ibv.QPType { return qpTypes[p.Transport] }

// grhLen is how many bytes come before a datagram.
const grhLen = 40

// Arrives returns how many bytes a message of a size takes where it arrives.
func (p *Plan) Arrives(size uint64) uint64 {
	if p.Transport == wire.UD {
		return size + grhLen
	}
	return size
}

// Lossy reports whether messages for this end may be lost, so that it cannot wait for all.
func (p *Plan) Lossy() bool { return p.Receives() && !p.Transport.Reliable() }

// FlowLabel returns the flow label of queue pair i.
func (p *Plan) FlowLabel(i int) uint32 {
	if len(p.Link.FlowLabels) == 0 {
		return 0
	}
	return p.Link.FlowLabels[i%p.Queues.QPs%len(p.Link.FlowLabels)]
}

// Sweep reports whether several figures are measured, one after the other.
func (p *Plan) Sweep() bool { return p.Load.All || p.Load.Rounds > 1 }

// Sizes lists the message sizes of the test, in order.
func (p *Plan) Sizes() []uint64 { return slices.Repeat(p.round(), max(p.Load.Rounds, 1)) }

// round lists the sizes once.
func (p *Plan) round() []uint64 {
	switch {
	case p.Load.SizeList != nil:
		return p.Load.SizeList
	case !p.Load.All:
		return []uint64{p.Load.Size}
	}
	var s []uint64
	for n := uint64(2); n <= p.Load.Size; n *= 2 {
		s = append(s, n)
	}
	return s
}

// sizeNames returns the list of sizes for the peer to compare, "" without one.
func (p *Plan) sizeNames() string {
	if p.Load.SizeList == nil && p.Load.Rounds < 2 {
		return ""
	}
	return fmt.Sprint(p.Sizes())
}

// ByCount reports whether the number of messages ends a run.
func (p *Plan) ByCount() bool { return p.Load.Duration == 0 && !p.Load.Infinite }

// Messages returns how many messages one queue pair carries per size.
func (p *Plan) Messages() uint64 {
	if !p.ByCount() {
		return math.MaxUint64
	}
	return p.Load.Iters
}

// Take returns the plan of an end that just waits, with what its peer asks for.
func (p Plan) Take(a wire.Asked) Plan {
	p.Queues.QPs, p.Load.Size, p.Load.Infinite = a.QPs, max(p.Load.Size, a.Size), a.Infinite
	if p.Queues.QPs%p.ThreadCount() != 0 {
		p.Queues.Threads = 1
	}
	return p
}

// Params returns what the ends compare.
func (p *Plan) Params() wire.Params {
	params := wire.Params{Verb: p.Verb, Metric: p.Metric, Transport: p.Transport, Atomic: p.Atomic,
		Size: p.Load.Size, Iters: p.Load.Iters, QPs: p.Queues.QPs,
		Duration: p.Load.Duration, All: p.Sweep(), Bidirectional: p.Load.Bidirectional, Gbits: p.Report.Gbits,
		Verify:     p.Verify,
		ReportBoth: p.Report.ReportBoth, Reversed: p.Load.Reversed, PerPort: p.Report.PerPort,
		Infinite: p.Load.Infinite, Sizes: p.sizeNames(),
		Multicast: p.Multicast, Counts: true, Silence: p.Peer.Timeout,
		Takes: !p.Link.DualPort}
	if p.Payload != nil {
		params.Payload = wire.Sum(p.Payload)
	}
	return params
}

// ThreadCount returns how many threads there are, at least one.
func (p *Plan) ThreadCount() int { return max(p.Queues.Threads, 1) }
