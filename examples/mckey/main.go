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
	"time"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/examples/internal/pingpong"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { cm.Main("mckey", run) }

type options struct {
	group             netip.Addr
	from              netip.AddrPort
	send, sendOnly    bool
	count, size       int
	verify            bool
	settle, timeout   time.Duration
	groupArg, fromArg string
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := cm.Flags("mckey")
	f.StringVarP(&o.groupArg, "group", "m", "", "multicast `address`")
	f.BoolVarP(&o.send, "send", "s", false, "send to the group (default: receive)")
	f.StringVarP(&o.fromArg, "bind", "b", "", "local `address` (default: chosen by the route to the group)")
	f.IntVarP(&o.count, "count", "C", 10, "`number` of datagrams")
	f.IntVarP(&o.size, "size", "S", 100, "`bytes` in a datagram, the same on both sides")
	f.BoolVarP(&o.sendOnly, "send-only", "o", false, "join as a member that only sends")
	f.BoolVarP(&o.verify, "verify", "V", false, "check every byte; the sender has to be one of these examples")
	f.DurationVar(&o.settle, "settle", 3*time.Second, "`time` for switches to learn of the group, before sending")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "longest `time` without a datagram")
	err := cm.Parse(f, args, "mckey -m GROUP [options]\nmckey -m GROUP -s [options]\n", func() (err error) {
		if o.group, err = netip.ParseAddr(o.groupArg); err != nil || !o.group.IsMulticast() {
			return fmt.Errorf("-m %q: want a multicast address, as 239.1.2.3", o.groupArg)
		}
		if o.fromArg != "" {
			ip, err := netip.ParseAddr(o.fromArg)
			if err != nil {
				return fmt.Errorf("-b: %w", err)
			}
			o.from = netip.AddrPortFrom(ip, 0)
		}
		if o.sendOnly && !o.send {
			return errors.New("-o: want -s too")
		}
		return errors.Join(
			cm.Within("-C", o.count, 1, 1<<14),
			cm.Within("-S", o.size, 1, 1<<16))
	})
	return o, err
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ch, err := rdmacm.NewEventChannel()
	if err != nil {
		return err
	}
	defer pingpong.Close(ch, &err)
	id, err := ch.CreateID(rdmacm.PortSpaceUDP)
	if err != nil {
		return err
	}
	defer pingpong.Close(id, &err)

	// The address determines the device.
	if err := id.ResolveAddr(o.from, netip.AddrPortFrom(o.group, 0), 2*time.Second); err != nil {
		return err
	}
	if _, err := event(ctx, ch, rdmacm.EventAddrResolved); err != nil {
		return err
	}
	dev, err := id.Verbs()
	if err != nil {
		return err
	}
	if err := cm.FitsMTU(dev, id.Port(), o.size); err != nil {
		return err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer pingpong.Close(pd, &err)
	slot := cm.GRHSize + o.size
	mr, err := pd.AllocMR(o.count*slot, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	defer pingpong.Close(mr, &err)
	cq, err := dev.CreateCQ(o.count, nil)
	if err != nil {
		return err
	}
	defer pingpong.Close(cq, &err)
	qp, err := pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.UD, MaxSendWR: o.count, MaxRecvWR: o.count})
	if err != nil {
		return err
	}
	defer pingpong.Close(qp, &err)
	if err := id.BringUp(qp, nil); err != nil {
		return err
	}
	if !o.send { // before any peer can send
		for i := range o.count {
			if _, err := qp.PostRecv([]ibv.RecvWR{{ID: uint64(i), SGEs: []ibv.SGE{mr.SGE(i*slot, slot)}}}); err != nil {
				return err
			}
		}
	}

	// The join event has the address to send to.
	flags := rdmacm.JoinFullMember
	if o.sendOnly {
		flags = rdmacm.JoinSendOnly
	}
	if err := id.JoinMulticast(o.group, flags); err != nil {
		return err
	}
	joined, err := event(ctx, ch, rdmacm.EventMulticastJoin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, id.LeaveMulticast(o.group)) }()
	group := joined.UD
	fmt.Fprintf(out, "joined %v: GID %v, LID %#x\n", o.group, group.AH.DGID, group.AH.DLID)

	if o.send {
		ah, err := pd.CreateAH(&group.AH)
		if err != nil {
			return err
		}
		defer pingpong.Close(ah, &err)
		select {
		case <-time.After(o.settle):
		case <-ctx.Done():
			return ctx.Err()
		}
		for n := range o.count {
			cm.Fill(mr.Bytes()[n*slot:][:o.size], n)
			if _, err := qp.PostSend([]ibv.SendWR{{
				Opcode: ibv.OpSendImm, Flags: ibv.Signaled, SGEs: []ibv.SGE{mr.SGE(n*slot, o.size)}, Imm: qp.Num(),
				AH: ah, RemoteQPN: group.QPN, RemoteQKey: group.QKey,
			}}); err != nil {
				return err
			}
		}
	} else {
		if err := qp.AttachMcast(group.AH.DGID, group.AH.DLID); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, qp.DetachMcast(group.AH.DGID, group.AH.DLID)) }()
		fmt.Fprintln(out, "receiving")
	}

	for n := range o.count {
		wc, err := cm.NextOf(ctx, cq, o.timeout)
		if err != nil {
			return fmt.Errorf("datagram %d: %w", n, err)
		}
		if o.send {
			continue
		}
		datagram := mr.Bytes()[int(wc.ID)*slot:][cm.GRHSize:wc.ByteLen]
		if len(datagram) != o.size {
			return fmt.Errorf("datagram %d has %d bytes, want %d: give both sides the same -S", n,
				len(datagram), o.size)
		}
		if o.verify {
			if err := cm.Check(datagram, n); err != nil {
				return err
			}
		}
	}
	report(out, o)
	return nil
}

// event waits for the next event, which must be want.
func event(ctx context.Context, ch *rdmacm.EventChannel, want rdmacm.EventType) (*rdmacm.Event, error) {
	ev, err := ch.Event(ctx)
	if err != nil {
		return nil, err
	}
	if err := ev.Err(); err != nil {
		return nil, err
	}
	if ev.Type != want {
		return nil, fmt.Errorf("event %v, want %v", ev, want)
	}
	return ev, nil
}

func report(out io.Writer, o *options) {
	switch {
	case o.send:
		fmt.Fprintf(out, "%d datagrams sent\n", o.count)
	case o.verify:
		fmt.Fprintf(out, "%d datagrams received, every byte as it should be\n", o.count)
	default:
		fmt.Fprintf(out, "%d datagrams received\n", o.count)
	}
}
