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
func (p *Plan) checkDualPort() []error {
	if !p.Link.DualPort {
		return nil
	}
	return first(
		wrong(!p.Bandwidth(), "dual port (-O): only for bandwidth tests"),
		unfit(p.Link.IBPort != 1, "ib-port", "dual port (-O): uses ports 1 and 2; give no port (-i)"),
		wrong(p.Peer.RDMACM, "dual port (-O): with rdma_cm (-R) the address leads to one port"),
		unfit(p.Transport != wire.RC && p.Transport != wire.UC, "dualport",
			"dual port (-O): connection type (-c) %v does not have it; use RC or UC", p.Transport))
}

// checkPerPort checks the figures of each port.
func (p *Plan) checkPerPort() []error {
	if !p.Report.PerPort {
		return nil
	}
	return first(
		wrong(!p.Link.DualPort, "figures of each port (--report-per-port): need two ports (-O); a test of two devices "+
			"(-d a,b) has those of each device"),
		wrong(p.Load.Duration < time.Second,
			"figures of each port (--report-per-port): only for runs by time (-D), as in perftest"))
}
