// Package engine runs perftest's tests over ibv: it sets up queue pairs with a
// peer, moves messages, and measures.
package engine

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// LatencyDef says what one latency sample is.
type LatencyDef uint8

// The definitions.
const (
	// RoundTrip is perftest's: from one posting to the next; half of that
	// where the peer answers (write, send), all of it where it need not (read).
	RoundTrip LatencyDef = 1
	// ToCompletion is from the posting to the completion of the same message.
	ToCompletion LatencyDef = 2
)

// String returns the name as the command line has it.
func (d LatencyDef) String() string {
	switch d {
	case RoundTrip:
		return "perftest"
	case ToCompletion:
		return "cqe"
	}
	return fmt.Sprintf("LatencyDef(%d)", uint8(d))
}

// Limits, perftest's where it has one.
const (
	maxSweep     = 8 << 20
	maxSize      = 1 << 31
	minIters     = 5
	maxDepth     = 15000
	maxQPs       = 16384
	cqModLimit   = 8192 // above, completions are not moderated by default
	peakMessages = 1 << 20
	maxSamples   = 1 << 28
)

// Auto leaves a choice to Resolve.
const Auto = -1

// Config is one test as one end sees it. Zero or Auto, as named, is replaced by
// Resolve.
type Config struct {
	Verb   wire.Verb
	Metric wire.Metric

	Host string // of the server; empty: be the server
	Bind string // address that a server listens on; empty: all
	Port int    // TCP, or rdma_cm

	RDMACM    bool   // connect by rdma_cm
	Device    string // empty: the first one with an active port; with RDMACM the one that the address leads to
	IBPort    uint8
	GIDIndex  int // Auto: the best one
	MTU       int // bytes; 0: that of the port
	QPTimeout uint8
	SL        uint8
	TClass    uint8
	PKeyIndex uint16
	OutReads  int // outstanding reads; 0: what the device can

	Size     uint64 // 0: 64 KiB for bandwidth, 2 for latency, 8 MiB with All
	All      bool   // powers of two from 2 to Size; stock peers always go to 8 MiB
	Iters    uint64 // messages per queue pair and size; 0: 5000 for write bw, else 1000
	Duration time.Duration
	Margin   time.Duration // before and after the sample; Auto: a quarter of Duration
	QPs      int
	TxDepth  int // 0: 128 for bandwidth, 1 for latency
	RxDepth  int // 0: 512, send only
	PostList int
	CQMod    int // 0: 100, or less where that would mislead
	Inline   int // bytes; Auto: perftest's choice for latency, 0 for bandwidth

	Bidirectional bool
	Events        bool // sleep for completions
	NoPeak        bool
	Gbits         bool
	Verify        bool
	LatencyDef    LatencyDef

	Timeout  time.Duration // of a step of the exchange, and without any completion
	Patience time.Duration // how long a client tries to reach a server
	ShortNeg bool
}

// Client tells whether this end connects.
func (c *Config) Client() bool { return c.Host != "" }

// sends tells whether this end posts what is measured.
func (c *Config) sends() bool {
	return c.Client() || c.Bidirectional || (c.Metric == wire.Latency && c.Verb != wire.Read)
}

// receives tells whether this end posts receives.
func (c *Config) receives() bool {
	return c.Verb == wire.Send && (!c.Client() || c.Bidirectional || c.Metric == wire.Latency)
}

// Sizes lists the message sizes of the test, in order.
func (c *Config) Sizes() []uint64 {
	if !c.All {
		return []uint64{c.Size}
	}
	var s []uint64
	for n := uint64(2); n <= c.Size; n *= 2 {
		s = append(s, n)
	}
	return s
}

// Resolve fills in the defaults and returns all that is wrong.
func (c *Config) Resolve() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	bw := c.Metric == wire.Bandwidth

	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	switch {
	case c.All && c.Size == 0:
		c.Size = maxSweep
	case c.All && (c.Size < 2 || c.Size&(c.Size-1) != 0):
		bad("size (-s) %d: a sweep over all sizes (-a) ends at a power of two, from 2", c.Size)
	case c.Size == 0 && bw:
		c.Size = 64 << 10
	case c.Size == 0:
		c.Size = 2
	}
	if c.Size > maxSize {
		bad("size (-s) %d > %d, the largest message of a queue pair", c.Size, maxSize)
	}
	switch {
	case c.Duration < 0:
		bad("duration (-D) %v is negative", c.Duration)
	case c.Duration > 0:
		if c.Duration < time.Second {
			bad("duration (-D) %v < 1s", c.Duration)
		}
		if c.Iters != 0 {
			bad("give iterations (-n) or a duration (-D), not both")
		}
		if c.All {
			bad("a duration (-D) does not go with all sizes (-a)")
		}
		if c.Margin < 0 {
			c.Margin = c.Duration / 4
		}
		if c.Duration <= 2*c.Margin {
			bad("duration (-D) %v <= 2 x margin (-f) %v leaves no time to measure", c.Duration, c.Margin)
		}
	default:
		if c.Iters == 0 {
			c.Iters = 1000
			if bw && c.Verb == wire.Write {
				c.Iters = 5000
			}
		}
		if c.Iters < minIters {
			bad("iterations (-n) %d < %d", c.Iters, minIters)
		}
	}
	if c.QPs < 1 || c.QPs > maxQPs {
		bad("queue pairs (-q) %d, allowed are 1 to %d", c.QPs, maxQPs)
	}
	if !bw && c.QPs > 1 {
		bad("queue pairs (-q) %d: latency is measured on one", c.QPs)
	}
	if bw {
		def(&c.TxDepth, 128)
	} else {
		def(&c.TxDepth, 1)
	}
	if c.TxDepth < 1 || c.TxDepth > maxDepth {
		bad("send queue depth (-t) %d, allowed are 1 to %d", c.TxDepth, maxDepth)
	}
	if c.Verb == wire.Send {
		def(&c.RxDepth, 512)
		if c.RxDepth < 1 || c.RxDepth > maxDepth {
			bad("receive queue depth (-r) %d, allowed are 1 to %d", c.RxDepth, maxDepth)
		}
	} else if c.RxDepth != 0 {
		bad("receive queue depth (-r) %d: only send has receives", c.RxDepth)
	}
	if c.PostList < 1 {
		bad("post list (-l) %d < 1", c.PostList)
	}
	if c.CQMod < 0 || c.CQMod > maxDepth {
		bad("cq moderation (-Q) %d, allowed are 1 to %d", c.CQMod, maxDepth)
	}
	if c.PostList > 1 {
		switch {
		case !bw:
			bad("post list (-l) %d: only bandwidth tests have it", c.PostList)
		case c.PostList > c.TxDepth:
			bad("post list (-l) %d > send queue depth (-t) %d", c.PostList, c.TxDepth)
		case c.Iters%uint64(c.PostList) != 0:
			bad("iterations (-n) %d is not a multiple of the post list (-l) %d", c.Iters, c.PostList)
		case c.CQMod > 0 && c.PostList%c.CQMod != 0:
			bad("post list (-l) %d is not a multiple of the cq moderation (-Q) %d", c.PostList, c.CQMod)
		}
	}
	if c.Bidirectional && !bw {
		bad("bidirectional (-b): only bandwidth tests have it")
	}
	if c.Events && (c.Verb == wire.Write && !bw || bw && c.Verb == wire.Write && !c.sends()) {
		bad("events (-e): write lat waits for memory, not for completions")
	}
	if c.OutReads != 0 && c.Verb != wire.Read {
		bad("outstanding reads (-o) %d: only read has them", c.OutReads)
	}
	if c.OutReads < 0 || c.OutReads > maxOutReads {
		bad("outstanding reads (-o) %d, allowed are 1 to %d", c.OutReads, maxOutReads)
	}
	if c.Inline > 0 && c.Verb == wire.Read {
		bad("inline size (-I) %d: a read sends nothing", c.Inline)
	}
	if c.Inline < Auto {
		bad("inline size (-I) %d is negative", c.Inline)
	}
	if c.QPTimeout > 31 {
		bad("qp timeout (-u) %d > 31; it is 4.096 us x 2^n", c.QPTimeout)
	}
	if c.SL > 15 {
		bad("service level (-S) %d > 15", c.SL)
	}
	switch c.MTU {
	case 0, 256, 512, 1024, 2048, 4096:
	default:
		bad("mtu (-m) %d, allowed are 256, 512, 1024, 2048 and 4096", c.MTU)
	}
	if c.IBPort < 1 {
		bad("device port (-i) %d < 1", c.IBPort)
	}
	if c.Port < 1 || c.Port > 65535 {
		bad("tcp port (-p) %d, allowed are 1 to 65535", c.Port)
	}
	if c.RDMACM {
		switch {
		case c.MTU != 0:
			bad("mtu (-m) %d: with rdma_cm (-R) the path decides", c.MTU)
		case c.SL != 0:
			bad("service level (-S) %d: with rdma_cm (-R) the traffic class (--tclass) decides", c.SL)
		case c.PKeyIndex != 0:
			bad("pkey index %d: with rdma_cm (-R) the address decides", c.PKeyIndex)
		case c.QPTimeout == 0:
			bad("qp timeout (-u) 0: rdma_cm (-R) has no connection that waits for ever; allowed are 1 to 31")
		case c.GIDIndex != Auto && c.Device == "":
			bad("gid index (-x) %d: with rdma_cm (-R) it needs a device (-d)", c.GIDIndex)
		}
	}
	if c.Timeout <= 0 {
		bad("timeout %v is not positive", c.Timeout)
	}
	if c.LatencyDef == ToCompletion && bw {
		bad("latency definition (--lat-def): only latency tests have it")
	}
	if !bw && c.Iters > maxSamples {
		bad("iterations (-n) %d > %d samples; use a duration (-D)", c.Iters, maxSamples)
	}
	if errs != nil {
		return errors.Join(errs...)
	}

	// As perftest does, so that both ends reckon with the same numbers.
	if c.Duration == 0 {
		c.TxDepth = int(min(uint64(c.TxDepth), c.Iters))
		c.RxDepth = int(min(uint64(c.RxDepth), c.Iters))
	}
	if c.CQMod == 0 {
		switch {
		case c.PostList > 1:
			c.CQMod = c.PostList
		case c.Size > cqModLimit && !c.All:
			c.CQMod = 1
		default:
			c.CQMod = 100
		}
	}
	c.CQMod = min(c.CQMod, c.TxDepth)
	if c.Verb == wire.Read {
		c.Inline = 0
	}
	return nil
}

// autoInline is perftest's choice.
func (c *Config) autoInline() int {
	switch {
	case c.Metric == wire.Bandwidth || c.Verb == wire.Read:
		return 0
	case c.Verb == wire.Write:
		return 220
	}
	return 236
}

// wireParams is what the ends compare.
func (c *Config) wireParams() wire.Params {
	return wire.Params{Verb: c.Verb, Metric: c.Metric, Size: c.Size, Iters: c.Iters, QPs: c.QPs,
		Duration: c.Duration, All: c.All, Bidirectional: c.Bidirectional, Gbits: c.Gbits, Verify: c.Verify}
}

// messages is how many messages one queue pair carries per size.
func (c *Config) messages() uint64 {
	if c.Duration > 0 {
		return math.MaxUint64
	}
	return c.Iters
}
