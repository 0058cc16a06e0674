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
		opt := &rdmacm.Options{PortSpace: rdmacm.PortSpaceUDP,
			QP: ibv.QPOptions{MaxSendWR: o.Count, MaxRecvWR: o.Count}}
		opt.Prepare = func(c *rdmacm.Conn) (err error) { // before the other side can send
			defer program.Catch(&err)
			all[i] = o.exchange(c)
			return nil
		}
		if l != nil {
			program.Keep(r, program.Must(program.Must(l.Next(r)).Accept(r, opt)))
		} else {
			opt.LocalAddr = from
			c := program.Keep(r, program.Must(rdmacm.DialAddr(r, to, opt)))
			all[i].AH, all[i].QPN, all[i].QKey = c.Peer()
		}
	}
	o.Both(r, all, l == nil)
}

// exchange posts a receive for every datagram, and checks whose each one is. A server learns from the first one where
// the other side is.
func (o *options) exchange(c *rdmacm.Conn) *program.Exchange {
	port := c.ID().Port()
	program.FitsMTU(c.PD().Device(), port, "-S", o.Size)
	x := o.Exchange(c, c.QP())
	x.Came = func(wc *ibv.WC, datagram []byte) {
		program.Ensure(wc.Flags&ibv.WCWithImm != 0 && wc.Imm == wc.SrcQPN,
			"immediate data %#x (%v), want %#x, its sender's queue pair", wc.Imm, wc.Flags, wc.SrcQPN)
		if x.AH == nil {
			x.AH = program.Keep(c, program.Must(c.PD().CreateAHFromWC(port, wc, datagram)))
			x.QPN, x.QKey = wc.Imm, rdmacm.UDPQKey
		}
	}
	return x
}
