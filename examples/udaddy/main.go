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
	"net"
	"net/netip"
	"os"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { program.Main("udaddy", os.Args[1:], parse, run) }

type options struct {
	program.Ends
	program.Messages
	from        netip.AddrPort // of a client
	connections int
}

func parse(args []string) (*options, error) {
	o := &options{Messages: program.Messages{Kind: "datagram", Timeout: program.Timeout{Lossy: true}}}
	f := program.NewFlags("udaddy [options]\nudaddy -s HOST [options]\n")
	o.Ends.Flags(f, "7174")
	f.Int(&o.connections, "connections", "c", 1, 1, 1<<16, "`number` of pairs of queue pairs, the same on both sides")
	f.Int(&o.Count, "count", "C", 10, 1, 1<<14, "`number` of datagrams each way, the same on both sides")
	o.Messages.Flags(f, 1<<16)
	err := f.Parse(args, 0)
	if err == nil && o.Server != "" {
		o.from, err = program.Local("-b", o.Bind)
	}
	return o, err
}

// run runs all connections concurrently.
func run(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	talk := client
	if o.Server == "" {
		opt := &rdmacm.Options{PortSpace: rdmacm.PortSpaceUDP}
		l := program.Must(rdmacm.Listen(ctx, net.JoinHostPort(o.Bind, o.Port), opt))
		defer program.Close(l, &err)
		fmt.Fprintf(out, "listening on %v\n", l.Addr())
		talk = func(ctx context.Context, p *peer) error { return serve(ctx, l, p) }
	}
	errs := make(chan error)
	for range o.connections {
		go func() { errs <- talk(ctx, &peer{options: o}) }()
	}
	for range o.connections {
		err = errors.Join(err, <-errs)
	}
	if err == nil {
		fmt.Fprintf(out, "%d datagrams sent and as many received%s\n", o.connections*o.Count, program.Checked(o.Verify))
	}
	return err
}

func client(ctx context.Context, p *peer) (err error) {
	defer program.Catch(&err)
	opt := p.conn()
	opt.LocalAddr = p.from
	c := program.Must(rdmacm.Dial(ctx, net.JoinHostPort(p.Server, p.Port), opt))
	defer program.Close(c, &err)
	p.ah, p.qpn, p.qkey = c.Peer()
	program.Check(p.send())
	return p.receive(ctx)
}

func serve(ctx context.Context, l *rdmacm.Listener, p *peer) (err error) {
	defer program.Catch(&err)
	request := program.Must(l.Next(ctx))
	c := program.Must(request.Accept(ctx, p.conn()))
	defer program.Close(c, &err)
	program.Check(p.receive(ctx))
	program.Check(p.send())
	for ; p.sent < p.Count; p.sent++ {
		program.Must(p.next(ctx))
	}
	return nil
}

// peer is the queue pair for one peer. It is not safe for concurrent use.
type peer struct {
	*options
	c  *rdmacm.Conn
	mr *ibv.MR // a place for each datagram that comes, with its header, and behind them one for each that goes

	ah        *ibv.AH // where the other side is
	qpn, qkey uint32

	sent int // sends that have completed
}

func (p *peer) conn() *rdmacm.Options {
	return &rdmacm.Options{
		PortSpace: rdmacm.PortSpaceUDP,
		QP:        ibv.QPOptions{MaxSendWR: p.Count, MaxRecvWR: p.Count},
		Prepare:   p.prepare,
	}
}

// slot is the size of the buffer for a received datagram.
func (p *peer) slot() int { return program.GRH + p.Size }

// prepare posts a receive for every datagram before the other side can send.
func (p *peer) prepare(c *rdmacm.Conn) (err error) {
	defer program.Catch(&err)
	p.c = c
	program.Check(program.FitsMTU(c.PD().Device(), c.ID().Port(), p.Size))
	p.mr = program.Must(c.PD().AllocMR(p.Count*(p.slot()+p.Size), ibv.LocalWrite, nil))
	c.OnClose(p.mr.Close)
	return program.PostRecvs(c.QP(), p.mr, p.Count, p.slot())
}

// send posts all datagrams.
func (p *peer) send() error {
	batch := p.c.QP().Batch()
	for n := range p.Count {
		at := p.Count*p.slot() + n*p.Size
		p.Fill(p.mr.Bytes()[at:], n)
		batch.SendImmTo(0, ibv.Signaled, p.mr.SGE(at, p.Size), p.c.QP().Num(), p.ah, p.qpn, p.qkey)
	}
	return batch.Post()
}

// receive waits for all datagrams. A server learns from the first where to reply.
func (p *peer) receive(ctx context.Context) (err error) {
	defer program.Catch(&err)
	for n := 0; n < p.Count; {
		wc, err := p.next(ctx)
		if err != nil {
			return fmt.Errorf("%d datagrams received of %d: %w", n, p.Count, err)
		}
		if wc.Opcode == ibv.WCSend {
			p.sent++
			continue
		}
		if wc.Flags&ibv.WCWithImm == 0 || wc.Imm != wc.SrcQPN {
			return fmt.Errorf("datagram %d has the immediate data %#x (%v), want %#x, its sender's queue pair", n,
				wc.Imm, wc.Flags, wc.SrcQPN)
		}
		datagram := p.mr.Bytes()[int(wc.ID)*p.slot():][:wc.ByteLen]
		program.Check(p.Check(datagram[program.GRH:], n))
		if p.ah == nil {
			p.ah = program.Must(p.c.PD().CreateAHFromWC(p.c.ID().Port(), &wc, datagram))
			p.c.OnClose(p.ah.Close)
			p.qpn, p.qkey = wc.Imm, rdmacm.UDPQKey
		}
		n++
	}
	return nil
}

// next waits for a completion of the connection.
func (p *peer) next(ctx context.Context) (ibv.WC, error) {
	wc, err := p.Next(ctx, p.c.CQ())
	if err != nil && ctx.Err() == nil && p.c.Err() != nil {
		err = p.c.Err() // the connection has ended, which flushes work requests
	}
	return wc, err
}
