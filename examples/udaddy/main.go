// Udaddy finds a peer's datagram queue pair by IP address, sends it datagrams and
// gets as many back, with itself or with the stock udaddy, as server or as client.
//
//	udaddy              # on one host: waits
//	udaddy -s HOST      # on the other
//
// Each datagram carries the number of its sender's queue pair as immediate data. Answers go to that
// queue pair at the address that the datagram came from.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { program.Main("udaddy", os.Args[1:], parse, run) }

type options struct {
	program.Ends
	program.Messages
	connections int
}

func parse(args []string) (*options, error) {
	o := &options{Messages: program.Messages{Kind: "datagram", Timeout: program.Timeout{Lossy: true}}}
	f := program.NewFlags("udaddy [options]\nudaddy -s HOST [options]\n")
	o.Ends.Flags(f, "7174")
	f.Int(&o.connections, "connections", "c", 1, 1, 1<<16, "`number` of pairs of queue pairs, the same on both sides")
	o.Messages.Flags(f, 1, 1<<16)
	return o, f.Parse(args, 0)
}

// run runs all connections concurrently.
func run(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	talk := (*peer).ask
	if o.Server == "" {
		l := program.Must(o.Listen(ctx, &rdmacm.Options{PortSpace: rdmacm.PortSpaceUDP}, out))
		defer program.Close(l, &err)
		talk = func(p *peer, ctx context.Context) error { return p.reply(ctx, l) }
	}
	errs := make(chan error)
	for range o.connections {
		go func() { errs <- talk(&peer{o: o}, ctx) }()
	}
	for range o.connections {
		err = errors.Join(err, <-errs)
	}
	if err == nil {
		fmt.Fprint(out, o.Report(o.connections))
	}
	return err
}

// peer is the queue pair for one peer. It is not safe for concurrent use.
type peer struct {
	program.Exchange
	o *options
	c *rdmacm.Conn

	ah        *ibv.AH // where the other side is
	qpn, qkey uint32
}

// ask is the client.
func (p *peer) ask(ctx context.Context) (err error) {
	defer program.Catch(&err)
	from, to, err := p.o.Resolve(ctx)
	program.Check(err)
	opt := p.options()
	opt.LocalAddr = from
	c := program.Must(rdmacm.Dial(ctx, to.String(), opt))
	defer program.Close(c, &err)
	p.ah, p.qpn, p.qkey = c.Peer()
	program.Check(p.send())
	return p.Finish(ctx, 0, p.Count, p.came)
}

// reply is the server, for one client.
func (p *peer) reply(ctx context.Context, l *rdmacm.Listener) (err error) {
	defer program.Catch(&err)
	c := program.Must(program.Must(l.Next(ctx)).Accept(ctx, p.options()))
	defer program.Close(c, &err)
	program.Check(p.Finish(ctx, 0, p.Count, p.came))
	program.Check(p.send())
	return p.Finish(ctx, p.Count, 0, nil)
}

func (p *peer) options() *rdmacm.Options {
	return &rdmacm.Options{
		PortSpace: rdmacm.PortSpaceUDP,
		QP:        ibv.QPOptions{MaxSendWR: p.o.Count, MaxRecvWR: p.o.Count},
		Prepare:   p.prepare,
	}
}

// prepare posts a receive for every datagram before the other side can send.
func (p *peer) prepare(c *rdmacm.Conn) (err error) {
	defer program.Catch(&err)
	program.Check(program.FitsMTU(c.PD().Device(), c.ID().Port(), "-S", p.o.Size))
	mr := program.Must(c.PD().AllocMR(p.o.Memory(program.GRH), ibv.LocalWrite, nil))
	c.OnClose(mr.Close)
	wait := func(ctx context.Context) (ibv.WC, error) { return p.o.NextOf(ctx, c) }
	p.c, p.Exchange = c, program.Exchange{Messages: &p.o.Messages, QP: c.QP(), MR: mr, Header: program.GRH, Wait: wait}
	return p.Expect()
}

// send posts all datagrams.
func (p *peer) send() error {
	return p.Send(func(b *ibv.Batch, datagram ibv.SGE) {
		b.SendImmTo(0, ibv.Signaled, datagram, p.QP.Num(), p.ah, p.qpn, p.qkey)
	})
}

// came checks whose a datagram is. A server learns from the first where to reply.
func (p *peer) came(wc *ibv.WC, datagram []byte) (err error) {
	if wc.Flags&ibv.WCWithImm == 0 || wc.Imm != wc.SrcQPN {
		return fmt.Errorf("immediate data %#x (%v), want %#x, its sender's queue pair", wc.Imm, wc.Flags, wc.SrcQPN)
	}
	if p.ah == nil {
		p.ah, err = p.c.PD().CreateAHFromWC(p.c.ID().Port(), wc, datagram)
		if err == nil {
			p.c.OnClose(p.ah.Close)
		}
		p.qpn, p.qkey = wc.Imm, rdmacm.UDPQKey
	}
	return err
}
