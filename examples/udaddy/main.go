// Udaddy finds a peer's datagram queue pair by IP address, sends it datagrams and gets as many back, with itself or
// with the stock udaddy, as server or as client. Each datagram carries the number of its sender's queue pair as
// immediate data. Answers go to that queue pair at the address that the datagram came from.
package main

import (
	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

var (
	all = program.Connections{Messages: program.Messages{Kind: "datagram"}, PortSpace: rdmacm.PortSpaceUDP,
		Prepare: prepare}
	flags = all.NewFlags("udaddy", "7174", "pairs of queue pairs", 1, 1<<16)
)

func main() { program.Main("udaddy", flags.Parse, run) }

func run(r *program.Run) {
	all.Connect(r)
	all.SendAndReceive(all.Server != "")
}

// prepare checks whose each datagram is. A server learns from the first one where the other side is.
func prepare(r *program.Run, id *rdmacm.ID, x *program.Exchange) {
	program.FitsMTU(x.QP.Device(), id.Port(), "-S", x.Size)
	x.Came = func(wc *ibv.WC, datagram []byte) {
		program.Ensure(wc.Flags&ibv.WCWithImm != 0 && wc.Imm == wc.SrcQPN,
			"immediate data %#x (%v), want %#x, its sender's queue pair", wc.Imm, wc.Flags, wc.SrcQPN)
		if x.AH == nil {
			x.AH = program.Keep(r, program.Must(x.QP.PD().CreateAHFromWC(id.Port(), wc, datagram)))
			x.QPN, x.QKey = wc.Imm, rdmacm.UDPQKey
		}
	}
}
