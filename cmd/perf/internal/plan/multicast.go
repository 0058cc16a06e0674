package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// checkMulticast refuses options that a group cannot have.
func (p *Plan) checkMulticast() []error {
	named := p.Group != (ibv.GID{})
	if !p.Multicast {
		return []error{unfit(named, "MGID", "group (-M) %v: needs multicast (-g)", p.Group)}
	}
	return first(
		unfit(p.Transport == wire.RawEth, "mcg", "multicast (-g): not with raw Ethernet (-c RawEth)"),
		unfit(p.Transport != wire.UD, "connection", "multicast (-g): only for -c UD"),
		wrong(p.Load.Bidirectional, "multicast (-g): not with both directions (-b)"),
		wrong(p.Queues.QPs > 1, "multicast (-g): %d queue pairs (-q); allowed: 1", p.Queues.QPs),
		wrong(p.Peer.RDMACM, "multicast (-g): not with rdma_cm (-R), as in perftest"),
		wrong(named && !p.Group.IsMulticast() && !mappedGroup(p.Group), "group (-M) %v is no multicast address",
			p.Group))
}

// mappedGroup reports whether a GID is a group of IPv4.
func mappedGroup(g ibv.GID) bool { return g.IsIPv4Mapped() && g[12]>>4 == 0xe }

// ParseGroup reads the GID of a group as text, or as perftest writes it: 16 numbers between colons.
func ParseGroup(s string) (ibv.GID, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 16 {
		g, err := ibv.ParseGID(s)
		if err != nil {
			return g, fmt.Errorf("group (-M) %q is neither a GID nor 16 numbers between colons", s)
		}
		return g, nil
	}
	var g ibv.GID
	for i, t := range parts {
		n, err := strconv.ParseUint(t, 0, 8)
		if err != nil {
			return ibv.GID{}, fmt.Errorf("group (-M): number %d, %q, is not from 0 to 255", i+1, t)
		}
		g[i] = byte(n)
	}
	return g, nil
}
