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
	from := f.StringP("bind", "b", "", "local `address` (default: chosen by the route to the group)")
	f.Int(&o.Count, "count", "C", 10, 1, 1<<14, "`number` of datagrams")
	f.BoolVarP(&o.sendOnly, "send-only", "o", false, "join as a member that only sends")
	f.DurationVar(&o.settle, "settle", 3*time.Second, "`time` for switches to learn of the group, before sending")
	o.Messages.Flags(f, 1<<16)
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
	o.from, err = program.Local("-b", *from)
	return o, err
}

// slot is the size of a buffer.
func (o *options) slot() int { return program.GRH + o.Size }

func run(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	ch := program.Must(rdmacm.NewEventChannel())
	defer program.Close(ch, &err)
	id := program.Must(ch.CreateID(rdmacm.PortSpaceUDP))
	defer program.Close(id, &err)

	// The address determines the device.
	program.Check(id.ResolveAddr(o.from, netip.AddrPortFrom(o.group, 0), 2*time.Second))
	program.Must(event(ctx, ch, rdmacm.EventAddrResolved))
	dev := program.Must(id.Verbs())
	program.Check(program.FitsMTU(dev, id.Port(), o.Size))
	e := program.Must(program.NewEndpoint(dev, ibv.UD, o.Count, o.Count*o.slot()))
	defer program.Close(e, &err)
	program.Check(id.BringUp(e.QP, nil))
	if !o.send { // before any peer can send
		program.Check(program.PostRecvs(e.QP, e.MR, o.Count, o.slot()))
	}

	// The join event has the address to send to.
	flags := rdmacm.JoinFullMember
	if o.sendOnly {
		flags = rdmacm.JoinSendOnly
	}
	program.Check(id.JoinMulticast(o.group, flags))
	group := program.Must(event(ctx, ch, rdmacm.EventMulticastJoin)).UD
	defer func() { err = errors.Join(err, id.LeaveMulticast(o.group)) }()
	fmt.Fprintf(out, "joined %v: GID %v, LID %#x\n", o.group, group.AH.DGID, group.AH.DLID)
	if o.send {
		return send(ctx, o, e, group, out)
	}
	program.Check(e.QP.AttachMcast(group.AH.DGID, group.AH.DLID))
	defer func() { err = errors.Join(err, e.QP.DetachMcast(group.AH.DGID, group.AH.DLID)) }()
	return receive(ctx, o, e, out)
}

func send(ctx context.Context, o *options, e *program.Endpoint, group *rdmacm.UDParam, out io.Writer) (err error) {
	defer program.Catch(&err)
	ah := program.Must(e.PD.CreateAH(&group.AH))
	defer program.Close(ah, &err)
	select {
	case <-time.After(o.settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	batch := e.QP.Batch()
	for n := range o.Count {
		o.Fill(e.MR.Bytes()[n*o.slot():], n)
		batch.SendImmTo(0, ibv.Signaled, e.MR.SGE(n*o.slot(), o.Size), e.QP.Num(), ah, group.QPN, group.QKey)
	}
	program.Check(batch.Post())
	for n := range o.Count {
		if _, err := o.Next(ctx, e.CQ); err != nil {
			return fmt.Errorf("datagram %d: %w", n, err)
		}
	}
	fmt.Fprintf(out, "%d datagrams sent\n", o.Count)
	return nil
}

func receive(ctx context.Context, o *options, e *program.Endpoint, out io.Writer) error {
	fmt.Fprintln(out, "receiving")
	for n := range o.Count {
		wc, err := o.Next(ctx, e.CQ)
		if err != nil {
			return fmt.Errorf("datagram %d: %w", n, err)
		}
		if err := o.Check(e.MR.Bytes()[int(wc.ID)*o.slot():][program.GRH:wc.ByteLen], n); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d datagrams received%s\n", o.Count, program.Checked(o.Verify))
	return nil
}

// event waits for the next event, which must be want.
func event(ctx context.Context, ch *rdmacm.EventChannel, want rdmacm.EventType) (*rdmacm.Event, error) {
	ev, err := ch.Event(ctx)
	if err == nil {
		err = ev.Err()
	}
	if err == nil && ev.Type != want {
		err = fmt.Errorf("event %v, want %v", ev, want)
	}
	return ev, err
}
