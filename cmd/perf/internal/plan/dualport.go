package plan

import (
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// IBPorts returns the ports of the device that are used.
func (p *Plan) IBPorts() []uint8 {
	if p.Link.DualPort {
		return []uint8{1, 2}
	}
	return []uint8{p.Link.IBPort}
}

// IBPortOf returns the port of queue pair i: the first half has the first one, as in perftest.
func (p *Plan) IBPortOf(i int) uint8 {
	ports := p.IBPorts()
	return ports[i%p.Queues.QPs*len(ports)/p.Queues.QPs]
}

// checkDualPort refuses what both ports of a device cannot do together.
func (p *Plan) checkDualPort(c *complaints) {
	switch {
	case !p.Link.DualPort:
	case !p.Bandwidth():
		c.add("dual port (-O): only for bandwidth tests")
	case p.Link.IBPort != 1:
		c.unfit("ib-port", "dual port (-O): uses ports 1 and 2; give no port (-i)")
	case p.Peer.RDMACM:
		c.add("dual port (-O): with rdma_cm (-R) the address leads to one port")
	case p.Transport != wire.RC && p.Transport != wire.UC:
		c.unfit("dualport", "dual port (-O): connection type (-c) %v does not have it; use RC or UC", p.Transport)
	}
}

// checkPerPort checks the figures of each port.
func (p *Plan) checkPerPort(c *complaints) {
	switch {
	case !p.Report.PerPort:
	case !p.Link.DualPort:
		c.add("figures of each port (--report-per-port): need two ports (-O); a test of two devices (-d a,b) " +
			"has those of each device")
	case p.Load.Duration < time.Second:
		c.add("figures of each port (--report-per-port): only for runs by time (-D), as in perftest")
	}
}
