package plan

import (
	"errors"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// check returns all that is wrong with a plan whose defaults are filled in.
func (p *Plan) check() error {
	var c complaints
	for _, check := range []func(*complaints){
		p.checkSize, p.checkLength, p.checkQueues, p.checkPostList, p.checkVerb, p.checkPath, p.checkCM, p.checkMeasure,
		p.checkEndless, p.checkRate, p.checkPacing, p.checkLists, p.checkThreads, p.checkDualPort, p.checkFrames,
		p.checkMulticast, p.checkMemory, p.checkReversed, p.checkWarmUp, p.checkSamples, p.checkPerPort,
		p.checkAddress, p.checkPayload,
	} {
		check(&c)
	}
	return errors.Join(c...)
}

func (p *Plan) checkSize(c *complaints) {
	if p.Load.All && p.Load.SizeList == nil && (p.Load.Size < 2 || p.Load.Size&(p.Load.Size-1) != 0) {
		c.add("size (-s) %d: a sweep over all sizes (-a) ends at a power of two, from 2", p.Load.Size)
	}
	if p.Load.Size > maxSize {
		c.add("size (-s) %d > %d, the largest message of a queue pair", p.Load.Size, maxSize)
	}
}

// checkLength checks how long the test runs.
func (p *Plan) checkLength(c *complaints) {
	switch {
	case p.Load.Duration < 0:
		c.add("duration (-D) %v is negative", p.Load.Duration)
	case p.Load.Duration > 0:
		if p.Load.Duration < time.Second {
			c.add("duration (-D) %v < 1s", p.Load.Duration)
		}
		if p.Load.Iters != 0 {
			c.unfit("iters", "give iterations (-n) or a duration (-D), not both")
		}
		if p.Load.All {
			c.add("duration (-D): not with all sizes (-a)")
		}
		if p.Load.Rounds > 1 {
			c.add("rounds (--rounds): not with a duration (-D); give iterations (-n), or run it several times")
		}
		if p.Load.Duration <= 2*p.Load.Margin {
			c.add("duration (-D) %v <= 2 x margin (-f) %v leaves no time to measure", p.Load.Duration, p.Load.Margin)
		}
	case p.Load.Iters < minIters:
		c.add("iterations (-n) %d < %d", p.Load.Iters, minIters)
	}
}

func (p *Plan) checkQueues(c *complaints) {
	if p.Queues.QPs < 1 || p.Queues.QPs > wire.MostQPs {
		c.add("queue pairs (-q) %d; allowed: 1 to %d", p.Queues.QPs, wire.MostQPs)
	}
	if !p.Bandwidth() && p.Queues.QPs > 1 && p.Queues.Threads != p.Queues.QPs && !p.alone() {
		c.add("queue pairs (-q) %d: latency is measured on one, or on as many as there are threads (--threads)",
			p.Queues.QPs)
	}
	if p.Queues.TxDepth < 1 || p.Queues.TxDepth > maxDepth {
		c.add("send queue depth (-t) %d; allowed: 1 to %d", p.Queues.TxDepth, maxDepth)
	}
	switch {
	case p.Queues.RxDepth < 0 || p.Queues.RxDepth > maxReceive || p.Verb.Consumes() && p.Queues.RxDepth < 1:
		c.add("receive queue depth (-r) %d; allowed: 1 to %d", p.Queues.RxDepth, maxReceive)
	case p.Shares() && p.Queues.RxDepth < p.Queues.QPs:
		c.add("receive queue depth (-r) %d < %d, the queue pairs (-q) that share it", p.Queues.RxDepth, p.Queues.QPs)
	case !p.Verb.Consumes() && p.Queues.RxDepth > 1 && p.Verb != wire.Write:
		c.add("receive queue depth (-r) %d: only send and --write-with-imm have receives", p.Queues.RxDepth)
	case !p.Verb.Consumes() && p.Queues.RxDepth != 0:
		c.unfit("rx-depth", "receive queue depth (-r) %d: only send and --write-with-imm have receives",
			p.Queues.RxDepth)
	}
}

func (p *Plan) checkPostList(c *complaints) {
	if p.Queues.PostList < 1 {
		c.add("post list (-l) %d < 1", p.Queues.PostList)
	}
	if p.Queues.CQMod < 0 || p.Queues.CQMod > maxDepth {
		c.add("cq moderation (-Q) %d; allowed: 1 to %d", p.Queues.CQMod, maxDepth)
	}
	switch {
	case p.Queues.PostList <= 1:
	case !p.Bandwidth():
		c.add("post list (-l) %d: only for bandwidth tests", p.Queues.PostList)
	case p.Queues.PostList > p.Queues.TxDepth:
		c.unfit("post-list", "post list (-l) %d > send queue depth (-t) %d", p.Queues.PostList, p.Queues.TxDepth)
	case p.ByCount() && p.Load.Iters%uint64(p.Queues.PostList) != 0:
		c.add("iterations (-n) %d is not a multiple of the post list (-l) %d", p.Load.Iters, p.Queues.PostList)
	case p.Queues.CQMod > 0 && p.Queues.PostList%p.Queues.CQMod != 0:
		c.add("post list (-l) %d is not a multiple of the cq moderation (-Q) %d", p.Queues.PostList, p.Queues.CQMod)
	}
}

// checkVerb looks for options that the test cannot have.
func (p *Plan) checkVerb(c *complaints) {
	bw := p.Bandwidth()
	if p.Load.Bidirectional && !bw {
		c.add("bidirectional (-b): only for bandwidth tests")
	}
	if p.Report.ReportBoth && !p.Load.Bidirectional {
		c.unfit("report-both", "reports of both ends (--report-both): only for tests in both directions (-b)")
	}
	if p.Queues.Events && p.Verb == wire.Write && !bw {
		c.add("events (-e): write lat waits for memory, not for completions")
	}
	if p.Queues.Vector != 0 && !p.Queues.Events {
		c.add("completion vector (-X) %d: only with events (-e)", p.Queues.Vector)
	}
	if p.Link.OutReads != 0 && !p.Verb.Fetches() {
		c.add("outstanding reads (-o) %d: only for read and atomic", p.Link.OutReads)
	}
	if p.Link.OutReads < 0 || p.Link.OutReads > MaxOutReads {
		c.add("outstanding reads (-o) %d; allowed: 1 to %d", p.Link.OutReads, MaxOutReads)
	}
	if p.Queues.Inline > 0 && p.Verb.Fetches() {
		c.add("inline size (-I) %d: %v sends nothing", p.Queues.Inline, p.Verb)
	}
	if p.Transport == wire.UC && p.Verb.Fetches() {
		c.add("connection type (-c) UC: %v needs responses, which UC does not have; use RC", p.Verb)
	}
	if p.Transport == wire.UD && p.Verb != wire.Send {
		c.add("connection type (-c) UD: only for send; use RC")
	}
	if p.Transport == wire.SRD {
		p.Queues.checkSRD(p.Verb, c)
	}
	if p.Queues.SendImm && p.Verb != wire.Send {
		c.add("immediate data (--send-with-imm): only for send; use --write-with-imm for write")
	}
	if p.Queues.UseSRQ && !p.Verb.Consumes() {
		c.add("shared receive queue (--use-srq): only send and --write-with-imm have receives")
	}
	if p.Verify && p.Shares() && p.Queues.QPs > 1 {
		c.add("payload check (--verify): %d queue pairs (-q) share receives (--use-srq, -c XRC, -c DC); use one",
			p.Queues.QPs)
	}
	if p.Verify && !p.Transport.Reliable() {
		c.add("payload check (--verify): %v (-c) may lose messages", p.Transport)
	}
	if p.Verb == wire.Atomic {
		if p.Load.All || p.Load.Size != atomicSize {
			c.add("size (-s, -a): an atomic has %d bytes", atomicSize)
		}
		if p.Verify {
			c.add("payload check (--verify): an atomic has no payload")
		}
	}
	if p.Queues.Inline < Auto {
		c.add("inline size (-I) %d is negative", p.Queues.Inline)
	}
}

// checkSRD checks what SRD does not have.
func (q *Queues) checkSRD(v wire.Verb, c *complaints) {
	if v == wire.Atomic {
		c.add("connection type (-c) SRD: has no atomics; use RC")
	}
	if q.UseSRQ {
		c.unfit("use-srq", "shared receive queue (--use-srq): SRD (-c) has its own receive queues")
	}
	if q.CQMod > 1 {
		c.unfit("cq-mod", "cq moderation (-Q) %d: SRD (-c) has a completion for each message", q.CQMod)
	}
}

// checkPath checks the path to the peer.
func (p *Plan) checkPath(c *complaints) {
	if p.Link.QPTimeout > 31 {
		c.add("qp timeout (-u) %d > 31; the timeout is 4.096 us x 2^n", p.Link.QPTimeout)
	}
	if p.Peer.RetryCount < 0 || p.Peer.RetryCount > 7 {
		c.add("retries (--retry-count) %d; allowed: 0 to 7", p.Peer.RetryCount)
	}
	for _, l := range p.Link.FlowLabels {
		if l >= 1<<20 {
			c.add("flow label (--flow-label) %d > %d", l, 1<<20-1)
		}
	}
	if p.Link.SL > 15 {
		c.add("service level (-S) %d > 15", p.Link.SL)
	}
	switch p.Link.MTU {
	case 0, 256, 512, 1024, 2048, 4096:
	default:
		c.unfit("mtu", "mtu (-m) %d; allowed: 256, 512, 1024, 2048 and 4096", p.Link.MTU)
	}
	if _, err := netip.ParseAddr(p.Peer.Bind); p.Connects() && p.Peer.Bind != "" && err != nil {
		c.add("source address (--bind-source-ip) %q is not an IP address", p.Peer.Bind)
	}
	if p.Link.IBPort < 1 {
		c.add("device port (-i) %d < 1", p.Link.IBPort)
	}
	// 0 is a free one, which the server prints.
	anyPort := p.Transport == wire.RawEth || p.Peer.Port == 0 && !p.Connects() && !p.ByCM()
	if !anyPort && (p.Peer.Port < 1 || p.Peer.Port > 65535) {
		c.add("tcp port (-p) %d; allowed: 1 to 65535", p.Peer.Port)
	}
}

// checkCM refuses options that rdma_cm decides.
func (p *Plan) checkCM(c *complaints) {
	if !p.Peer.RDMACM {
		return
	}
	switch {
	case p.Transport != wire.RC && p.Transport != wire.UD:
		c.add("connection type (-c) %v: rdma_cm (-R) supports only RC and UD", p.Transport)
	case p.Queues.UseSRQ:
		c.unfit("use-srq", "shared receive queue (--use-srq): with rdma_cm (-R) each queue pair has its own receives")
	case p.Link.MTU != 0:
		c.unfit("mtu", "mtu (-m) %d: with rdma_cm (-R) the path decides", p.Link.MTU)
	case p.Link.FlowLabels != nil:
		c.unfit("flow-label", "flow label (--flow-label) %d: with rdma_cm (-R) the path decides", p.Link.FlowLabels[0])
	case p.Link.SL != 0:
		c.unfit("sl", "service level (-S) %d: with rdma_cm (-R) the traffic class (--tclass) decides", p.Link.SL)
	case p.Link.PKeyIndex != 0:
		c.unfit("pkey-index", "pkey index %d: with rdma_cm (-R) the address decides", p.Link.PKeyIndex)
	case p.Link.QPTimeout == 0:
		c.unfit("qp-timeout", "qp timeout (-u) 0: rdma_cm (-R) has no connection without a timeout; allowed: 1 to 31")
	case p.Link.GIDIndex != Auto && p.Link.Device == "":
		c.unfit("gid-index", "gid index (-x) %d: with rdma_cm (-R) needs a device (-d)", p.Link.GIDIndex)
	}
}

// checkMeasure checks the definition of samples, and the timeout.
func (p *Plan) checkMeasure(c *complaints) {
	if p.Peer.Timeout <= 0 {
		c.add("timeout %v is not positive", p.Peer.Timeout)
	}
	if p.Report.LatencyDef == ToCompletion && p.Bandwidth() {
		c.add("latency definition (--lat-def): only for latency tests")
	}
	if !p.Bandwidth() && p.Load.Iters > maxSamples {
		c.add("iterations (-n) %d > %d samples; use a duration (-D)", p.Load.Iters, maxSamples)
	}
}
