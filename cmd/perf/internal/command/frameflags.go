package command

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// noFrames returns which of the options that were given only frames have.
func (o *options) noFrames(f *pflag.FlagSet) error {
	var list []error
	for _, s := range o.table {
		for _, row := range s.flags {
			fl := f.Lookup(row.name())
			if s.title != framesTitle || !fl.Changed || fl.Name == "source-ip" {
				continue
			}
			why := fmt.Sprintf("%s: only raw Ethernet (-c RawEth) has it", flagName(fl))
			if fl.Name == "hop-limit" && fl.Value.String() != "64" {
				list = append(list, errors.New(why)) // perftest refuses it also
				continue
			}
			list = append(list, &plan.Unfit{Option: fl.Name, Reason: why})
		}
	}
	return errors.Join(list...)
}

// setFrames completes the fields of frames.
func (o *options) setFrames(f *pflag.FlagSet) {
	c := &o.asked
	fr := &c.Frames
	if o.perftest {
		o.setPerftestFrames()
	}
	own, peer := end{&fr.Server, &fr.ServerPort}, end{&fr.Client, &fr.ClientPort}
	if fr.Connects {
		own, peer = peer, own
	}
	*own.ip, *peer.ip = cmp.Or(o.given.local, *own.ip), cmp.Or(o.given.remote, *peer.ip)
	*own.port, *peer.port = cmp.Or(o.given.localPort, *own.port), cmp.Or(o.given.remotePort, *peer.port)
	if o.perftest && fr.Server.IsValid() != fr.Client.IsValid() { // the other is 0.0.0.0
		fr.Server, fr.Client = cmp.Or(fr.Server, netip.IPv4Unspecified()), cmp.Or(fr.Client, netip.IPv4Unspecified())
	}
	if o.rawMulticast { // the group that belongs to the server's address
		group := &fr.Own
		if fr.Connects {
			group = &fr.Peer
		}
		*group = [6]byte{0x01, 0x00, 0x5e}
		if fr.Server.Is4() {
			a := fr.Server.As4()
			group[3], group[4], group[5] = a[1]&0x7f, a[2], a[3]
		}
	}
	if fr.VLAN = fr.VLAN || f.Changed("vlan-pcp"); fr.VLAN {
		fr.Priority = o.priority
	}
}

// end has the fields of frames that belong to one end.
type end struct {
	ip   *netip.Addr
	port *uint16
}

// setPerftestFrames has the ends and the size that perftest has.
func (o *options) setPerftestFrames() {
	c := &o.asked
	if c.Peer.Host != "" {
		o.notes = append(o.notes, "SERVER has no effect here: raw Ethernet does not connect")
		c.Peer.Host = ""
	}
	if c.Load.Reversed {
		c.Frames.Connects, c.Load.Reversed = !c.Frames.Connects, false
	}
	most := uint64(cmp.Or(c.Link.MTU, plan.FrameSize))
	if c.Link.MTU != 0 && c.Load.Size == 0 && c.Metric == wire.Bandwidth {
		c.Load.Size = most
	}
	if c.Link.MTU = 0; c.Load.Size != 0 && c.Load.Size < 1<<31 {
		if size := min(max(c.Load.Size, plan.LeastFrame), most); size != c.Load.Size {
			o.notes = append(o.notes, fmt.Sprintf("size (-s) %d: frames have %d to %d bytes (-m); measured with %d",
				c.Load.Size, plan.LeastFrame, most, size))
			c.Load.Size = size
		}
	}
}
