package plan

import "github.com/pureverbs/pureverbs/cmd/perf/internal/wire"

// checkReversed refuses options that a reversed test cannot have.
func (p *Plan) checkReversed(c *complaints) {
	switch {
	case !p.Load.Reversed:
	case p.Peer.RDMACM:
		c.unfit("reversed",
			"reversed (--reversed): with rdma_cm (-R) the end that connects is the client; start the ends the "+
				"other way round")
	case p.Multicast:
		c.unfit("reversed",
			"reversed (--reversed): in multicast (-g) the server receives; start the ends the other way round")
	case p.Transport == wire.RawEth:
		c.add("reversed (--reversed): the ends of raw Ethernet (-c RawEth) do not connect; swap --client and --server")
	}
}
