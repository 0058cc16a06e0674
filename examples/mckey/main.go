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
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "mckey: %v\nmckey -h lists the options\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mckey:", err)
		os.Exit(1)
	}
}

// grh is the size of the header in front of each datagram that is received.
const grh = 40

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
	f := pflag.NewFlagSet("mckey", pflag.ExitOnError)
	f.SortFlags = false
	f.StringVarP(&o.groupArg, "group", "m", "", "multicast `address`")
	f.BoolVarP(&o.send, "send", "s", false, "send to the group (default: receive)")
	f.StringVarP(&o.fromArg, "bind", "b", "", "local `address` (default: chosen by the route to the group)")
	f.IntVarP(&o.count, "count", "C", 10, "`number` of datagrams")
	f.IntVarP(&o.size, "size", "S", 100, "`bytes` in a datagram, the same on both sides")
	f.BoolVarP(&o.sendOnly, "send-only", "o", false, "join as a member that only sends")
	f.BoolVarP(&o.verify, "verify", "V", false, "check every byte; the sender has to be one of these examples")
	f.DurationVar(&o.settle, "settle", 3*time.Second, "`time` for switches to learn of the group, before sending")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "longest `time` without a datagram")
	f.Usage = func() {
		fmt.Fprint(f.Output(), "mckey -m GROUP [options]\nmckey -m GROUP -s [options]\n\n", f.FlagUsages())
	}
	_ = f.Parse(args) // it exits when it fails
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: no arguments expected", f.Arg(0))
	}
	var err error
	if o.group, err = netip.ParseAddr(o.groupArg); err != nil || !o.group.IsMulticast() {
		return nil, fmt.Errorf("-m %q: want a multicast address, as 239.1.2.3", o.groupArg)
	}
	if o.fromArg != "" {
		ip, err := netip.ParseAddr(o.fromArg)
		if err != nil {
			return nil, fmt.Errorf("-b: %w", err)
		}
		o.from = netip.AddrPortFrom(ip, 0)
	}
	if o.sendOnly && !o.send {
		return nil, errors.New("-o: want -s too")
	}
	return o, errors.Join(
		within("-C", o.count, 1, 1<<14),
		within("-S", o.size, 1, 1<<16))
}

func within(flag string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s %d: want %d to %d", flag, n, least, most)
	}
	return nil
}

func run(ctx context.Context, o *options, out io.Writer) (err error) {
	// Each object is closed at the end, children before parents.
	closing := func(c io.Closer) { err = errors.Join(err, c.Close()) }
	ch, err := rdmacm.NewEventChannel()
	if err != nil {
		return err
	}
	defer closing(ch)
	id, err := ch.CreateID(rdmacm.PortSpaceUDP)
	if err != nil {
		return err
	}
	defer closing(id)

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
	if err := fitsMTU(dev, id.Port(), o.size); err != nil {
		return err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer closing(pd)
	slot := grh + o.size
	mr, err := pd.AllocMR(o.count*slot, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	defer closing(mr)
	cq, err := dev.CreateCQ(o.count, nil)
	if err != nil {
		return err
	}
	defer closing(cq)
	qp, err := pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.UD, MaxSendWR: o.count, MaxRecvWR: o.count})
	if err != nil {
		return err
	}
	defer closing(qp)
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
		defer closing(ah)
		select {
		case <-time.After(o.settle):
		case <-ctx.Done():
			return ctx.Err()
		}
		for n := range o.count {
			copy(mr.Bytes()[n*slot:], pattern(o.size, n))
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
		wc, err := o.next(ctx, cq)
		if err != nil {
			return fmt.Errorf("datagram %d: %w", n, err)
		}
		if o.send {
			continue
		}
		datagram := mr.Bytes()[int(wc.ID)*slot:][grh:wc.ByteLen]
		if len(datagram) != o.size {
			return fmt.Errorf("datagram %d has %d bytes, want %d: give both sides the same -S", n,
				len(datagram), o.size)
		}
		if o.verify {
			if err := verify(datagram, n); err != nil {
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

// next waits for the next completion, which must be a success, for as long as --timeout says.
func (o *options) next(ctx context.Context, cq *ibv.CQ) (ibv.WC, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("nothing for %v: the peer is gone or stuck, or "+
		"a datagram was lost (--timeout waits longer)", o.timeout))
	defer cancel()
	var wc [1]ibv.WC
	if _, err := cq.Wait(ctx, wc[:]); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return wc[0], err
	}
	return wc[0], wc[0].Err()
}

// pattern returns the contents of message n: different from byte to byte and from message to message.
func pattern(size, n int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8)*13 + byte(n)*29 + byte(n>>8)*31 + 1
	}
	return b
}

func verify(b []byte, n int) error {
	for i, want := range pattern(len(b), n) {
		if b[i] != want {
			return fmt.Errorf("message %d: byte %d is %#02x, want %#02x (is the peer one of these examples?)", n, i,
				b[i], want)
		}
	}
	return nil
}

// fitsMTU checks that a datagram fits in one packet.
func fitsMTU(dev *ibv.Device, port uint8, size int) error {
	p, err := dev.QueryPort(port)
	if err != nil {
		return err
	}
	if mtu := p.ActiveMTU.Bytes(); size > mtu {
		return fmt.Errorf("-S %d: a datagram fits in one packet, and the MTU of the port is %d", size, mtu)
	}
	return nil
}
