package plan

import (
	"fmt"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// maxRails bounds a mistake.
const maxRails = 64

// Rails makes a plan for each of several devices and servers, which are given with commas between them: one connection
// each. Those to one server, and those of a server, have TCP ports that follow each other.
func Rails(o Options) ([]Plan, error) {
	devices, hosts := strings.Split(o.Link.Device, ","), strings.Split(o.Peer.Host, ",")
	n := max(len(devices), len(hosts))
	switch {
	case n == 1:
		p, err := New(o)
		return []Plan{p}, err
	case n > maxRails:
		return nil, fmt.Errorf("%d devices (-d) or servers; allowed: 1 to %d", n, maxRails)
	case len(devices) > 1 && len(hosts) > 1 && len(devices) != len(hosts):
		return nil, fmt.Errorf("%d devices (-d) and %d servers: give as many of both, or one of either", len(devices),
			len(hosts))
	case o.Transport == wire.RawEth:
		return nil, fmt.Errorf("%d devices (-d) or servers: raw Ethernet (-c RawEth) has one; run one test for each", n)
	case o.Peer.ListenFD != 0:
		return nil, fmt.Errorf("%d devices (-d): an inherited socket (--listen-fd) has one", n)
	case len(devices) > 1 && o.Peer.RDMACM:
		return nil, fmt.Errorf("devices (-d) %s: with rdma_cm (-R) the address leads to a device; give one address, "+
			"or several, and no -d", o.Link.Device)
	}
	used := map[string]int{}
	var rails []Plan
	for i := range n {
		r := o
		r.Link.Device, r.Peer.Host = devices[min(i, len(devices)-1)], hosts[min(i, len(hosts)-1)]
		if r.Link.Device == "" && o.Link.Device != "" {
			return nil, fmt.Errorf("devices (-d) %q: number %d has no name", o.Link.Device, i+1)
		}
		if r.Peer.Host == "" && o.Peer.Host != "" {
			return nil, fmt.Errorf("servers %q: number %d has no name", o.Peer.Host, i+1)
		}
		if o.Peer.Port != 0 {
			r.Peer.Port += used[r.Peer.Host]
		}
		used[r.Peer.Host]++
		p, err := New(r)
		if err != nil {
			return nil, err // the others have the same
		}
		rails = append(rails, p)
	}
	return rails, nil
}

// Rail names one of several connections.
func (p *Plan) Rail() string {
	device := p.Link.Device
	if device == "" {
		device = "default device"
	}
	if p.Connects() {
		return fmt.Sprintf("%s to %s port %d", device, p.Peer.Host, p.Peer.Port)
	}
	return fmt.Sprintf("%s at port %d", device, p.Peer.Port)
}
