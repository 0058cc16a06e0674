// Mckey sends datagrams to a multicast group or receives them. Either side may be the stock mckey.
//
//	mckey -m 239.1.2.3 -b ADDRESS       # on any number of hosts: waits
//	mckey -m 239.1.2.3 -b ADDRESS -s    # on another: sends
//
// It handles package rdmacm's events one by one.
package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { program.Main("mckey", parse, run) }

type options struct {
	program.Messages
	group          netip.Addr
	from           netip.AddrPort
	send, sendOnly bool
	settle         time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{Messages: program.Datagrams()}
	f := program.NewFlags("mckey -m GROUP [options]\nmckey -m GROUP -s [options]\n")
	group := f.StringP("group", "m", "", "multicast `address`")
	f.BoolVarP(&o.send, "send", "s", false, "send to the group (default: receive)")
	f.Addr(&o.from, "bind", "b", "local `address` (default: chosen by the route to the group)")
	f.BoolVarP(&o.sendOnly, "send-only", "o", false, "join as a member that only sends")
	f.DurationVar(&o.settle, "settle", 3*time.Second, "`time` for switches to learn of the group, before sending")
	o.Messages.Flags(f, 1, 1<<16)
	err := f.Parse(args, 0)
	if err == nil {
		o.group, _ = netip.ParseAddr(*group)
		err = errors.Join(program.Want(o.group.IsMulticast(), "-m %q: want a multicast address, as 239.1.2.3", *group),
			program.Want(o.send || !o.sendOnly, "-o: want -s too"))
	}
	return o, err
}

func run(r *program.Run, o *options) {
	events := program.NewEvents(r, func(ev *rdmacm.Event) { program.Check(ev.Err()) })
	id := program.Keep(r, program.Must(events.CreateID(rdmacm.PortSpaceUDP)))

	// The address determines the device. Receives are posted before any peer can send.
	program.Check(id.ResolveAddr(o.from, netip.AddrPortFrom(o.group, 0), program.Resolving))
	events.Until(r, 1, rdmacm.EventAddrResolved)
	dev := program.Must(id.Verbs())
	program.FitsMTU(dev, id.Port(), "-S", o.Size)
	qp := program.NewQP(r, dev, (*ibv.PD).CreateQP, ibv.UD, o.Count)
	program.Check(id.BringUp(qp, nil))
	x := o.Exchange(r, qp)

	// The join event has the address to send to.
	flags := rdmacm.JoinFullMember
	if o.sendOnly {
		flags = rdmacm.JoinSendOnly
	}
	program.Check(id.JoinMulticast(o.group, flags))
	group := events.Until(r, 1, rdmacm.EventMulticastJoin).UD
	r.OnClose(func() error { return id.LeaveMulticast(o.group) })
	fmt.Fprintf(r, "joined %v: GID %v, LID %#x\n", o.group, group.AH.DGID, group.AH.DLID)
	if !o.send {
		program.Check(qp.AttachMcast(group.AH.DGID, group.AH.DLID))
		r.OnClose(func() error { return qp.DetachMcast(group.AH.DGID, group.AH.DLID) })
		fmt.Fprintln(r, "receiving")
		x.Finish(r, 0, o.Count)
		fmt.Fprintf(r, "%d datagrams received%s\n", o.Count, program.Checked(o.Verify))
		return
	}
	x.AH, x.QPN, x.QKey = program.Keep(r, program.Must(qp.PD().CreateAH(&group.AH))), group.QPN, group.QKey
	select {
	case <-time.After(o.settle):
	case <-r.Done():
	}
	program.Check(r.Err())
	x.Send()
	x.Finish(r, o.Count, 0)
	fmt.Fprintf(r, "%d datagrams sent\n", o.Count)
}
