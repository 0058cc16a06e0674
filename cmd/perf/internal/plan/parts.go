package plan

import (
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// checkReversed looks at what does not go with the parts of the ends exchanged.
func (p *Plan) checkReversed(c *complaints) {
	switch {
	case !p.Reversed:
	case p.RDMACM:
		c.add("reversed (--reversed): with rdma_cm (-R) the end that connects is the client; start the ends the " +
			"other way round")
	case p.Multicast:
		c.add("reversed (--reversed): of multicast (-g) the server receives; start the ends the other way round")
	case p.Transport == wire.RawEth:
		c.add("reversed (--reversed): the ends of raw Ethernet (-c RawEth) do not meet; exchange --client and --server")
	}
}

// checkWarmUp looks at messages that do not count.
func (p *Plan) checkWarmUp(c *complaints) {
	switch {
	case !p.WarmUp:
	case !p.Bandwidth():
		c.add("warm-up (--perform-warm-up): only bandwidth tests have it")
	case p.Verb.Consumes():
		c.add("warm-up (--perform-warm-up): the peer would have to post receives for it; write, read and atomic do " +
			"without")
	}
}

// checkSamples looks at how samples of latency are taken, and which are kept.
func (p *Plan) checkSamples(c *complaints) {
	switch {
	case p.Gap == 0:
	case p.Gap < 0:
		c.add("gap (--latency-gap) %v is negative", p.Gap)
	case p.Bandwidth():
		c.add("gap (--latency-gap): only latency tests have it; bandwidth tests have --rate-limit")
	case p.Gap > p.Timeout/2:
		c.add("gap (--latency-gap) %v > %v, half of --timeout: the peer would take it for silence", p.Gap, p.Timeout/2)
	}
	switch {
	case !p.Unsorted:
	case p.Bandwidth():
		c.add("samples (-U): only latency tests have them")
	case !p.ByCount():
		c.add("samples (-U): a run by time (-D) keeps the distribution alone (-H); give iterations (-n)")
	case p.ThreadCount() > 1:
		c.add("samples (-U): those of %d threads (--threads) have no order; use one", p.ThreadCount())
	}
}

// checkPerPort looks at figures of each port.
func (p *Plan) checkPerPort(c *complaints) {
	switch {
	case !p.PerPort:
	case !p.DualPort:
		c.add("figures of each port (--report-per-port): they need two ports (-O); a test of two devices (-d a,b) " +
			"has those of each device")
	case p.Duration < time.Second:
		c.add("figures of each port (--report-per-port): only runs by time (-D) have them, as perftest's")
	}
}
