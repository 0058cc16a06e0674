// Mckey sends datagrams to a multicast group or receives them. Either side may be the stock mckey. It handles package
// rdmacm's events one by one.
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

var (
	flags    = program.NewFlags("mckey -m GROUP [options]\nmckey -m GROUP -s [options]\n")
	address  = flags.StringP("group", "m", "", "multicast `address`")
	send     = flags.BoolP("send", "s", false, "send to the group (default: receive)")
	from     = flags.Addr("bind", "b", "local `address` (default: chosen by the route to the group)")
	sendOnly = flags.BoolP("send-only", "o", false, "join as a member that only sends")
	settle   = flags.Duration("settle", 3*time.Second, "`time` for switches to learn of the group, before sending")
	messages = (&program.Messages{Kind: "datagram"}).Flags(flags, 1, 1<<16)
	group    netip.Addr
)

func main() { program.Main("mckey", parse, run) }

func parse(args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	group, _ = netip.ParseAddr(*address)
	return errors.Join(program.Want(group.IsMulticast(), "-m %q: want a multicast address, as 239.1.2.3", *address),
		program.Want(*send || !*sendOnly, "-o: want -s too"))
}

func run(r *program.Run) {
	events := program.NewEvents(r, func(ev *rdmacm.Event) { program.Check(ev.Err()) })
	id := program.Keep(r, program.Must(events.CreateID(rdmacm.PortSpaceUDP)))

	// The address determines the device. Receives are posted before any peer can send.
	program.Check(id.ResolveAddr(netip.AddrPortFrom(*from, 0), netip.AddrPortFrom(group, 0), program.Resolving))
	events.Until(r, 1, rdmacm.EventAddrResolved)
	dev := program.Must(id.Verbs())
	program.FitsMTU(dev, id.Port(), "-S", messages.Size)
	qp := program.NewQP(r, dev, (*ibv.PD).CreateQP, ibv.UD, messages.Count)
	program.Check(id.BringUp(qp, nil))
	x := messages.Exchange(r, qp)

	// The join event has the address to send to.
	as := map[bool]rdmacm.JoinFlags{false: rdmacm.JoinFullMember, true: rdmacm.JoinSendOnly}
	program.Check(id.JoinMulticast(group, as[*sendOnly]))
	to := events.Until(r, 1, rdmacm.EventMulticastJoin).UD
	r.OnClose(func() error { return id.LeaveMulticast(group) })
	fmt.Fprintf(r, "joined %v: GID %v, LID %#x\n", group, to.AH.DGID, to.AH.DLID)
	if !*send {
		program.Check(qp.AttachMcast(to.AH.DGID, to.AH.DLID))
		r.OnClose(func() error { return qp.DetachMcast(to.AH.DGID, to.AH.DLID) })
		fmt.Fprintln(r, "receiving")
		x.Finish(r, 0, x.Count)
		fmt.Fprintf(r, "%d datagrams received%s\n", x.Count, program.Checked(x.Verify))
		return
	}
	x.AH, x.QPN, x.QKey = program.Keep(r, program.Must(qp.PD().CreateAH(&to.AH))), to.QPN, to.QKey
	select {
	case <-time.After(*settle):
	case <-r.Done():
	}
	program.Check(r.Err())
	x.Send()
	x.Finish(r, x.Count, 0)
	fmt.Fprintf(r, "%d datagrams sent\n", x.Count)
}
