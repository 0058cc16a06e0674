// Mckey sends datagrams to a multicast group or receives them. Either side may be the stock mckey.
//
//	mckey -m 239.1.2.3 -b ADDRESS       # on any number of hosts: waits
//	mckey -m 239.1.2.3 -b ADDRESS -s    # on another: sends
//
// It handles package rdmacm's events one by one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { program.Main("mckey", os.Args[1:], parse, run) }

type options struct {
	program.Messages
	group          netip.Addr
	from           netip.AddrPort
	send, sendOnly bool
	settle         time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{Messages: program.Messages{Kind: "datagram", Timeout: program.Timeout{Lossy: true}}}
	f := program.NewFlags("mckey -m GROUP [options]\nmckey -m GROUP -s [options]\n")
	group := f.StringP("group", "m", "", "multicast `address`")
	f.BoolVarP(&o.send, "send", "s", false, "send to the group (default: receive)")
	f.Addr(&o.from, "bind", "b", "local `address` (default: chosen by the route to the group)")
	f.BoolVarP(&o.sendOnly, "send-only", "o", false, "join as a member that only sends")
	f.DurationVar(&o.settle, "settle", 3*time.Second, "`time` for switches to learn of the group, before sending")
	o.Messages.Flags(f, 1, 1<<16)
	err := f.Parse(args, 0)
	if err != nil {
		return nil, err
	}
	if o.group, err = netip.ParseAddr(*group); err != nil || !o.group.IsMulticast() {
		return nil, fmt.Errorf("-m %q: want a multicast address, as 239.1.2.3", *group)
	}
	if o.sendOnly && !o.send {
		return nil, errors.New("-o: want -s too")
	}
	return o, nil
}

func run(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	events := program.Must(program.NewEvents(nil))
	defer program.Close(events, &err)
	id := program.Must(events.CreateID(rdmacm.PortSpaceUDP))
	defer program.Close(id, &err)

	// The address determines the device.
	program.Check(id.ResolveAddr(o.from, netip.AddrPortFrom(o.group, 0), program.Resolving))
	program.Must(events.Until(ctx, 1, rdmacm.EventAddrResolved))
	dev := program.Must(id.Verbs())
	program.Check(program.FitsMTU(dev, id.Port(), "-S", o.Size))
	e := program.Must(program.NewEndpoint(dev, ibv.UD, o.Count, o.Memory(program.GRH)))
	defer program.Close(e, &err)
	program.Check(id.BringUp(e.QP, nil))
	x := e.Exchange(&o.Messages, program.GRH)
	if !o.send { // before any peer can send
		program.Check(x.Expect())
	}

	// The join event has the address to send to.
	flags := rdmacm.JoinFullMember
	if o.sendOnly {
		flags = rdmacm.JoinSendOnly
	}
	program.Check(id.JoinMulticast(o.group, flags))
	group := program.Must(events.Until(ctx, 1, rdmacm.EventMulticastJoin)).UD
	defer func() { err = errors.Join(err, id.LeaveMulticast(o.group)) }()
	fmt.Fprintf(out, "joined %v: GID %v, LID %#x\n", o.group, group.AH.DGID, group.AH.DLID)
	if o.send {
		return send(ctx, o, e.PD, x, group, out)
	}
	program.Check(e.QP.AttachMcast(group.AH.DGID, group.AH.DLID))
	defer func() { err = errors.Join(err, e.QP.DetachMcast(group.AH.DGID, group.AH.DLID)) }()
	fmt.Fprintln(out, "receiving")
	program.Check(x.Finish(ctx, 0, o.Count, nil))
	fmt.Fprintf(out, "%d datagrams received%s\n", o.Count, program.Checked(o.Verify))
	return nil
}

func send(ctx context.Context, o *options, pd *ibv.PD, x *program.Exchange, group *rdmacm.UDParam,
	out io.Writer) (err error) {
	defer program.Catch(&err)
	ah := program.Must(pd.CreateAH(&group.AH))
	defer program.Close(ah, &err)
	select {
	case <-time.After(o.settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	program.Check(x.Send(func(b *ibv.Batch, datagram ibv.SGE) {
		b.SendImmTo(0, ibv.Signaled, datagram, x.QP.Num(), ah, group.QPN, group.QKey)
	}))
	program.Check(x.Finish(ctx, o.Count, 0, nil))
	fmt.Fprintf(out, "%d datagrams sent\n", o.Count)
	return nil
}
