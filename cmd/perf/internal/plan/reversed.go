package plan

import "github.com/pureverbs/pureverbs/cmd/perf/internal/wire"

// checkReversed refuses options that a reversed test cannot have.
func (p *Plan) checkReversed() []error {
	if !p.Load.Reversed {
		return nil
	}
	return first(
		unfit(p.Peer.RDMACM, "reversed", "reversed (--reversed): with rdma_cm (-R) the end that connects is the "+
			"client; start the ends the other way round"),
		unfit(p.Multicast, "reversed",
			"reversed (--reversed): in multicast (-g) the server receives; start the ends the other way round"),
		wrong(p.Transport == wire.RawEth, "reversed (--reversed): the ends of raw Ethernet (-c RawEth) do not "+
			"connect; swap --client and --server"))
}
