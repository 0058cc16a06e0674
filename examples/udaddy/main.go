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
	o := &options{Messages: program.Datagrams()}
	f := program.NewFlags("udaddy [options]\nudaddy -s HOST [options]\n")
	o.Ends.Flags(f, "7174")
	f.Int(&o.connections, "connections", "c", 1, 1, 1<<16, "`number` of pairs of queue pairs, the same on both sides")
	o.Messages.Flags(f, 1, 1<<16)
	return o, f.Parse(args, 0)
}

func run(r *program.Run, o *options) {
	var l *rdmacm.Listener
	if o.Server == "" {
		l = o.Listen(r, &rdmacm.Options{PortSpace: rdmacm.PortSpaceUDP})
	}
	from, to := o.Resolve()
	all := make([]*program.Exchange, o.connections)
	for i := range all {
		p := &peer{o: o}
		opt := &rdmacm.Options{PortSpace: rdmacm.PortSpaceUDP, Prepare: p.prepare,
			QP: ibv.QPOptions{MaxSendWR: o.Count, MaxRecvWR: o.Count}}
		if l != nil {
			program.Keep(r, program.Must(program.Must(l.Next(r)).Accept(r, opt)))
		} else {
			opt.LocalAddr = from
			c := program.Keep(r, program.Must(rdmacm.DialAddr(r, to, opt)))
			p.ah, p.qpn, p.qkey = c.Peer()
		}
		all[i] = p.Exchange
	}
	o.Both(r, all, l == nil)
}

// peer is the queue pair for one peer. It is not safe for concurrent use.
type peer struct {
	*program.Exchange
	o *options
	c *rdmacm.Conn

	ah        *ibv.AH // where the other side is: a server learns it from the first datagram
	qpn, qkey uint32
}

// prepare posts a receive for every datagram before the other side can send.
func (p *peer) prepare(c *rdmacm.Conn) (err error) {
	defer program.Catch(&err)
	program.FitsMTU(c.PD().Device(), c.ID().Port(), "-S", p.o.Size)
	p.c, p.Exchange = c, p.o.Exchange(c, c.QP())
	p.Came = p.came
	p.Post = func(b *ibv.Batch, datagram ibv.SGE) {
		b.SendImmTo(0, ibv.Signaled, datagram, p.QP.Num(), p.ah, p.qpn, p.qkey)
	}
	return nil
}

// came checks whose a datagram is.
func (p *peer) came(wc *ibv.WC, datagram []byte) {
	program.Ensure(wc.Flags&ibv.WCWithImm != 0 && wc.Imm == wc.SrcQPN,
		"immediate data %#x (%v), want %#x, its sender's queue pair", wc.Imm, wc.Flags, wc.SrcQPN)
	if p.ah == nil {
		p.ah = program.Keep(p.c, program.Must(p.c.PD().CreateAHFromWC(p.c.ID().Port(), wc, datagram)))
		p.qpn, p.qkey = wc.Imm, rdmacm.UDPQKey
	}
}
