// Raw_pingpong sends an Ethernet frame back and forth, with itself or with the stock
// raw_ethernet_lat, as server or as client.
//
// A raw packet queue pair has no peer and no routing header: a frame goes out as the program wrote
// it, and comes in as it was on the wire. A steering rule selects the frames that come in. All of it takes
// CAP_NET_RAW.
//
//	raw_pingpong -d mlx5_1 -B MAC1 -E MAC0 --server     # on one host: waits
//	raw_pingpong -d mlx5_0 -B MAC0 -E MAC1 --client     # on the other
package main

import (
	"errors"
	"fmt"
	"math"
	"net"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
)

var (
	flags = program.NewFlags("raw_pingpong -B MAC -E MAC --server [options]\n" +
		"raw_pingpong -B MAC -E MAC --client [options]\n")
	device = flags.StringP("ib-dev", "d", "", "`device` (default the first)")
	port   = flags.Uint8P("ib-port", "i", 1, "`port` of the device")
	source = flags.StringP("source_mac", "B", "", "own Ethernet `address`")
	dest   = flags.StringP("dest_mac", "E", "", "the peer's Ethernet `address`")
	server = flags.Bool("server", false, "reply to frames")
	client = flags.Bool("client", false, "send the first frame")
	count  = flags.Int(new(int), "iters", "n", 1000, 1, math.MaxInt32, "`number` of frames each way")
	size   = flags.Int(new(int), "size", "s", 64, header, slot, "`bytes` of a frame, with its header")

	own, peer ibv.MAC
)

func main() { program.Main("raw_pingpong", parse, play) }

func parse(args []string) error {
	err := flags.Parse(args)
	if err == nil && *server == *client {
		err = errors.New("want one of --server and --client")
	}
	if err != nil {
		return err
	}
	return errors.Join(address("-B", *source, &own), address("-E", *dest, &peer))
}

func address(flag, s string, to *ibv.MAC) error {
	a, err := net.ParseMAC(s)
	if err != nil || len(a) != len(to) {
		return fmt.Errorf("%s %q: want an Ethernet address, as e4:1d:2d:00:00:01", flag, s)
	}
	copy(to[:], a)
	return nil
}

const (
	header    = 14     // of an Ethernet frame: two addresses and a type
	etherType = 0x88b5 // for experiments
	recvID    = 1
	sendID    = 2
	slot      = 16 << 10 // the longest frame of any port
	rxFrames  = 16
)

func play(r *program.Run) {
	dev := program.Keep(r, program.Must(ibv.Open(*device)))
	qp := program.NewQP(r, dev, (*ibv.PD).CreateQP, ibv.RawPacket, rxFrames)
	mr := program.Keep(r, program.Must(qp.PD().AllocMR(2*slot, ibv.LocalWrite, nil)))
	program.Check(qp.Modify(&ibv.QPAttr{State: ibv.StateInit, Port: *port}, ibv.MaskState|ibv.MaskPort))
	program.Check(qp.Modify(&ibv.QPAttr{State: ibv.StateRTR}, ibv.MaskState))
	program.Check(qp.Modify(&ibv.QPAttr{State: ibv.StateRTS}, ibv.MaskState))
	receive := func() {
		program.Must(qp.PostRecv([]ibv.RecvWR{{ID: recvID, SGEs: []ibv.SGE{mr.SGE(slot, slot)}}}))
	}
	for range rxFrames {
		receive()
	}
	// What comes from the peer, and is for us.
	all := ibv.MAC{255, 255, 255, 255, 255, 255}
	program.Keep(r, program.Must(qp.CreateFlow(&ibv.FlowAttr{Port: *port, Specs: []ibv.FlowSpec{ibv.FlowEth{
		Value: ibv.FlowEthFields{DstMAC: own, SrcMAC: peer}, Mask: ibv.FlowEthFields{DstMAC: all, SrcMAC: all},
	}}})))

	frame := mr.Bytes()[:*size]
	copy(frame, peer[:])
	copy(frame[6:], own[:])
	frame[12], frame[13] = etherType>>8, etherType&0xff
	send := func() {
		program.Must(qp.PostSend([]ibv.SendWR{{ID: sendID, Opcode: ibv.OpSend, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{mr.SGE(0, *size)}}}))
	}
	ahead := 0
	if *client { // each end sends when it has received the other's frame
		ahead = 1
		send()
	}
	for sent, received := 0, 0; sent < *count || received < *count; {
		var wc [1]ibv.WC
		program.Must(qp.RecvCQ().Wait(r, wc[:]))
		program.Check(wc[0].Err())
		if wc[0].ID == sendID {
			sent++
			continue
		}
		received++
		receive()
		if ahead+received <= *count {
			send()
		}
	}
	fmt.Fprintf(r, "%d frames of %d bytes each way\n", *count, *size)
}
