package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// check returns all that is wrong with a plan whose defaults are filled in.
func (p *Plan) check() error {
	var errs []error
	for _, check := range []func() []error{
		p.checkSize, p.checkLength, p.checkQueues, p.checkPostList, p.checkVerb, p.checkPath, p.checkCM, p.checkMeasure,
		p.checkEndless, p.checkRate, p.checkPacing, p.checkLists, p.checkThreads, p.checkDualPort, p.checkFrames,
		p.checkMulticast, p.checkMemory, p.checkReversed, p.checkWarmUp, p.checkSamples, p.checkPerPort,
		p.checkAddress, p.checkPayload,
	} {
		errs = append(errs, check()...)
	}
	return errors.Join(errs...)
}

func (p *Plan) checkSize() []error {
	n := p.Load.Size
	return []error{
		wrong(p.Load.All && p.Load.SizeList == nil && (n < 2 || n&(n-1) != 0),
			"size (-s) %d: a sweep over all sizes (-a) ends at a power of two, from 2", n),
		wrong(n > maxSize, "size (-s) %d > %d, the largest message of a queue pair", n, maxSize),
	}
}

// checkLength checks how long the test runs.
func (p *Plan) checkLength() []error {
	l := &p.Load
	switch {
	case l.Duration < 0:
		return []error{fmt.Errorf("duration (-D) %v is negative", l.Duration)}
	case l.Duration == 0:
		return []error{wrong(l.Iters < minIters, "iterations (-n) %d < %d", l.Iters, minIters)}
	}
	return []error{
		wrong(l.Duration < time.Second, "duration (-D) %v < 1s", l.Duration),
		unfit(l.Iters != 0, "iters", "give iterations (-n) or a duration (-D), not both"),
		wrong(l.All, "duration (-D): not with all sizes (-a)"),
		wrong(l.Rounds > 1,
			"rounds (--rounds): not with a duration (-D); give iterations (-n), or run it several times"),
		wrong(l.Duration <= 2*l.Margin, "duration (-D) %v <= 2 x margin (-f) %v leaves no time to measure", l.Duration,
			l.Margin),
	}
}

func (p *Plan) checkQueues() []error {
	q, receives := &p.Queues, p.Verb.Consumes()
	const none = "receive queue depth (-r) %d: only send and --write-with-imm have receives"
	return []error{
		wrong(q.QPs < 1 || q.QPs > wire.MostQPs, "queue pairs (-q) %d; allowed: 1 to %d", q.QPs, wire.MostQPs),
		wrong(!p.Bandwidth() && q.QPs > 1 && q.Threads != q.QPs && !p.alone(),
			"queue pairs (-q) %d: latency is measured on one, or on as many as there are threads (--threads)", q.QPs),
		wrong(q.TxDepth < 1 || q.TxDepth > maxDepth, "send queue depth (-t) %d; allowed: 1 to %d", q.TxDepth, maxDepth),
		cmp.Or(
			wrong(q.RxDepth < 0 || q.RxDepth > maxReceive || receives && q.RxDepth < 1,
				"receive queue depth (-r) %d; allowed: 1 to %d", q.RxDepth, maxReceive),
			wrong(p.Shares() && q.RxDepth < q.QPs,
				"receive queue depth (-r) %d < %d, the queue pairs (-q) that share it", q.RxDepth, q.QPs),
			wrong(!receives && q.RxDepth > 1 && p.Verb != wire.Write, none, q.RxDepth),
			unfit(!receives && q.RxDepth != 0, "rx-depth", none, q.RxDepth)),
	}
}

func (p *Plan) checkPostList() []error {
	n, q := p.Queues.PostList, &p.Queues
	errs := []error{
		wrong(n < 1, "post list (-l) %d < 1", n),
		wrong(q.CQMod < 0 || q.CQMod > maxDepth, "cq moderation (-Q) %d; allowed: 1 to %d", q.CQMod, maxDepth),
	}
	if n <= 1 {
		return errs
	}
	return append(errs, cmp.Or(
		wrong(!p.Bandwidth(), "post list (-l) %d: only for bandwidth tests", n),
		unfit(n > q.TxDepth, "post-list", "post list (-l) %d > send queue depth (-t) %d", n, q.TxDepth),
		wrong(p.ByCount() && p.Load.Iters%uint64(n) != 0,
			"iterations (-n) %d is not a multiple of the post list (-l) %d", p.Load.Iters, n),
		wrong(q.CQMod > 0 && n%max(q.CQMod, 1) != 0,
			"post list (-l) %d is not a multiple of the cq moderation (-Q) %d", n, q.CQMod)))
}

// checkVerb looks for options that the test cannot have.
func (p *Plan) checkVerb() []error {
	bw, q, fetches := p.Bandwidth(), &p.Queues, p.Verb.Fetches()
	errs := []error{
		wrong(p.Load.Bidirectional && !bw, "bidirectional (-b): only for bandwidth tests"),
		unfit(p.Report.ReportBoth && !p.Load.Bidirectional, "report-both",
			"reports of both ends (--report-both): only for tests in both directions (-b)"),
		wrong(q.Events && p.Verb == wire.Write && !bw, "events (-e): write lat waits for memory, not for completions"),
		wrong(q.Vector != 0 && !q.Events, "completion vector (-X) %d: only with events (-e)", q.Vector),
		wrong(p.Link.OutReads != 0 && !fetches, "outstanding reads (-o) %d: only for read and atomic", p.Link.OutReads),
		wrong(p.Link.OutReads < 0 || p.Link.OutReads > MaxOutReads, "outstanding reads (-o) %d; allowed: 1 to %d",
			p.Link.OutReads, MaxOutReads),
		wrong(q.Inline > 0 && fetches, "inline size (-I) %d: %v sends nothing", q.Inline, p.Verb),
		wrong(p.Transport == wire.UC && fetches,
			"connection type (-c) UC: %v needs responses, which UC does not have; use RC", p.Verb),
		wrong(p.Transport == wire.UD && p.Verb != wire.Send, "connection type (-c) UD: only for send; use RC"),
	}
	if p.Transport == wire.SRD {
		errs = append(errs, q.checkSRD(p.Verb)...)
	}
	return append(errs,
		wrong(q.SendImm && p.Verb != wire.Send,
			"immediate data (--send-with-imm): only for send; use --write-with-imm for write"),
		wrong(q.UseSRQ && !p.Verb.Consumes(),
			"shared receive queue (--use-srq): only send and --write-with-imm have receives"),
		wrong(p.Verify && p.Shares() && q.QPs > 1,
			"payload check (--verify): %d queue pairs (-q) share receives (--use-srq, -c XRC, -c DC); use one", q.QPs),
		wrong(p.Verify && !p.Transport.Reliable(), "payload check (--verify): %v (-c) may lose messages", p.Transport),
		wrong(p.Verb == wire.Atomic && (p.Load.All || p.Load.Size != atomicSize),
			"size (-s, -a): an atomic has %d bytes", atomicSize),
		wrong(p.Verb == wire.Atomic && p.Verify, "payload check (--verify): an atomic has no payload"),
		wrong(q.Inline < Auto, "inline size (-I) %d is negative", q.Inline))
}

// checkSRD checks what SRD does not have.
func (q *Queues) checkSRD(v wire.Verb) []error {
	return []error{
		wrong(v == wire.Atomic, "connection type (-c) SRD: has no atomics; use RC"),
		unfit(q.UseSRQ, "use-srq", "shared receive queue (--use-srq): SRD (-c) has its own receive queues"),
		unfit(q.CQMod > 1, "cq-mod", "cq moderation (-Q) %d: SRD (-c) has a completion for each message", q.CQMod),
	}
}

// checkPath checks the path to the peer.
func (p *Plan) checkPath() []error {
	l, n := &p.Link, p.Peer.RetryCount
	errs := []error{
		wrong(l.QPTimeout > 31, "qp timeout (-u) %d > 31; the timeout is 4.096 us x 2^n", l.QPTimeout),
		wrong(n < 0 || n > 7, "retries (--retry-count) %d; allowed: 0 to 7", n),
	}
	for _, label := range l.FlowLabels {
		errs = append(errs, wrong(label >= 1<<20, "flow label (--flow-label) %d > %d", label, 1<<20-1))
	}
	_, err := netip.ParseAddr(p.Peer.Bind)
	// 0 is a free one, which the server prints.
	anyPort := p.Transport == wire.RawEth || p.Peer.Port == 0 && !p.Connects() && !p.ByCM()
	return append(errs,
		wrong(l.SL > 15, "service level (-S) %d > 15", l.SL),
		unfit(!slices.Contains([]int{0, 256, 512, 1024, 2048, 4096}, l.MTU), "mtu",
			"mtu (-m) %d; allowed: 256, 512, 1024, 2048 and 4096", l.MTU),
		wrong(p.Connects() && p.Peer.Bind != "" && err != nil,
			"source address (--bind-source-ip) %q is not an IP address", p.Peer.Bind),
		wrong(l.IBPort < 1, "device port (-i) %d < 1", l.IBPort),
		wrong(!anyPort && (p.Peer.Port < 1 || p.Peer.Port > 65535), "tcp port (-p) %d; allowed: 1 to 65535",
			p.Peer.Port))
}

// checkCM refuses options that rdma_cm decides.
func (p *Plan) checkCM() []error {
	if !p.Peer.RDMACM {
		return nil
	}
	l, label := &p.Link, uint32(0)
	if l.FlowLabels != nil {
		label = l.FlowLabels[0]
	}
	return first(
		wrong(p.Transport != wire.RC && p.Transport != wire.UD,
			"connection type (-c) %v: rdma_cm (-R) supports only RC and UD", p.Transport),
		unfit(p.Queues.UseSRQ, "use-srq",
			"shared receive queue (--use-srq): with rdma_cm (-R) each queue pair has its own receives"),
		unfit(l.MTU != 0, "mtu", "mtu (-m) %d: with rdma_cm (-R) the path decides", l.MTU),
		unfit(l.FlowLabels != nil, "flow-label",
			"flow label (--flow-label) %d: with rdma_cm (-R) the path decides", label),
		unfit(l.SL != 0, "sl", "service level (-S) %d: with rdma_cm (-R) the traffic class (--tclass) decides", l.SL),
		unfit(l.PKeyIndex != 0, "pkey-index", "pkey index %d: with rdma_cm (-R) the address decides", l.PKeyIndex),
		unfit(l.QPTimeout == 0, "qp-timeout",
			"qp timeout (-u) 0: rdma_cm (-R) has no connection without a timeout; allowed: 1 to 31"),
		unfit(l.GIDIndex != Auto && l.Device == "", "gid-index",
			"gid index (-x) %d: with rdma_cm (-R) needs a device (-d)", l.GIDIndex))
}

// checkMeasure checks the definition of samples, and the timeout.
func (p *Plan) checkMeasure() []error {
	return []error{
		wrong(p.Peer.Timeout <= 0, "timeout %v is not positive", p.Peer.Timeout),
		wrong(p.Report.LatencyDef == ToCompletion && p.Bandwidth(),
			"latency definition (--lat-def): only for latency tests"),
		wrong(!p.Bandwidth() && p.Load.Iters > maxSamples, "iterations (-n) %d > %d samples; use a duration (-D)",
			p.Load.Iters, maxSamples),
	}
}
