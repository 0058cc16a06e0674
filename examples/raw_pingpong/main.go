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
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/ibv"
)

type options struct {
	device          string
	port            uint8
	ownArg, peerArg string
	own, peer       ibv.MAC
	server, client  bool
	n, size         int
	rxFrames        int
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "raw_pingpong: %v\nraw_pingpong -h lists the options\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "raw_pingpong:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{rxFrames: 16}
	f := pflag.NewFlagSet("raw_pingpong", pflag.ExitOnError)
	f.SortFlags = false
	f.StringVarP(&o.device, "ib-dev", "d", "", "`device` (default the first)")
	f.Uint8VarP(&o.port, "ib-port", "i", 1, "`port` of the device")
	f.StringVarP(&o.ownArg, "source_mac", "B", "", "own Ethernet `address`")
	f.StringVarP(&o.peerArg, "dest_mac", "E", "", "the peer's Ethernet `address`")
	f.BoolVar(&o.server, "server", false, "reply to frames")
	f.BoolVar(&o.client, "client", false, "send the first frame")
	f.IntVarP(&o.n, "iters", "n", 1000, "`number` of frames each way")
	f.IntVarP(&o.size, "size", "s", 64, "`bytes` of a frame, with its header")
	forms := "raw_pingpong -B MAC -E MAC --server [options]\nraw_pingpong -B MAC -E MAC --client [options]\n"
	f.Usage = func() { fmt.Fprint(f.Output(), forms, f.FlagUsages()) }
	_ = f.Parse(args) // it exits when it fails
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: no arguments expected", f.Arg(0))
	}
	if o.server == o.client {
		return nil, errors.New("want one of --server and --client")
	}
	return o, errors.Join(address("-B", o.ownArg, &o.own), address("-E", o.peerArg, &o.peer),
		within("-n", o.n, 1, math.MaxInt32), within("-s", o.size, header, slot))
}

func within(flag string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s %d: want %d to %d", flag, n, least, most)
	}
	return nil
}

func run(ctx context.Context, o *options, out io.Writer) error {
	return play(ctx, o, out)
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
)

func play(ctx context.Context, o *options, out io.Writer) (err error) {
	closing := func(c io.Closer) { err = errors.Join(err, c.Close()) }
	dev, err := ibv.Open(o.device)
	if err != nil {
		return err
	}
	defer closing(dev)
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer closing(pd)
	mr, err := pd.AllocMR(2*slot, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	defer closing(mr)
	cq, err := dev.CreateCQ(o.rxFrames+1, nil)
	if err != nil {
		return err
	}
	defer closing(cq)
	qp, err := pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.RawPacket, MaxSendWR: 1, MaxRecvWR: o.rxFrames})
	if err != nil {
		return err
	}
	defer closing(qp)

	for _, m := range []struct {
		attr ibv.QPAttr
		mask ibv.QPAttrMask
	}{
		{ibv.QPAttr{State: ibv.StateInit, Port: uint8(o.port)}, ibv.MaskState | ibv.MaskPort},
		{ibv.QPAttr{State: ibv.StateRTR}, ibv.MaskState},
		{ibv.QPAttr{State: ibv.StateRTS}, ibv.MaskState},
	} {
		if err := qp.Modify(&m.attr, m.mask); err != nil {
			return err
		}
	}
	receive := func() error {
		_, err := qp.PostRecv([]ibv.RecvWR{{ID: recvID, SGEs: []ibv.SGE{mr.SGE(slot, slot)}}})
		return err
	}
	for range o.rxFrames {
		if err := receive(); err != nil {
			return err
		}
	}
	// What comes from the peer, and is for us.
	all := ibv.MAC{255, 255, 255, 255, 255, 255}
	flow, err := qp.CreateFlow(&ibv.FlowAttr{Port: uint8(o.port), Specs: []ibv.FlowSpec{ibv.FlowEth{
		Value: ibv.FlowEthFields{DstMAC: o.own, SrcMAC: o.peer}, Mask: ibv.FlowEthFields{DstMAC: all, SrcMAC: all},
	}}})
	if err != nil {
		return err
	}
	defer closing(flow)

	frame := mr.Bytes()[:o.size]
	copy(frame, o.peer[:])
	copy(frame[6:], o.own[:])
	frame[12], frame[13] = etherType>>8, etherType&0xff
	send := func() error {
		_, err := qp.PostSend([]ibv.SendWR{{ID: sendID, Opcode: ibv.OpSend, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{mr.SGE(0, o.size)}}})
		return err
	}
	if !o.server {
		if err := send(); err != nil {
			return err
		}
	}
	sent, received := 0, 0
	for wc, err := range cq.Completions(ctx) {
		if err != nil {
			return err
		}
		if err := wc.Err(); err != nil {
			return err
		}
		if wc.ID == sendID {
			sent++
		} else {
			received++
			if err := receive(); err != nil {
				return err
			}
		}
		// Each end sends when it has received the other's frame.
		due := received // how many frames this end is to have sent
		if !o.server {
			due++ // it sent the first
		}
		if wc.ID == recvID && due <= o.n {
			if err := send(); err != nil {
				return err
			}
		}
		if sent == o.n && received == o.n {
			break
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d frames of %d bytes each way\n", o.n, o.size)
	return nil
}
