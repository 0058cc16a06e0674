// Ud_pingpong sends a datagram back and forth (UD), with itself or with the
// stock ibv_ud_pingpong, as server or as client.
//
// A UD queue pair has no peer: each send names its destination, by an address handle, a queue pair
// number and a Q_Key. A message fits in one packet, may get lost, and arrives after 40 bytes of
// routing header.
//
//	ud_pingpong -d mlx5_0            # on one host: waits
//	ud_pingpong -d mlx5_1 HOST       # on the other
package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/pureverbs/pureverbs/examples/internal/pingpong"
	"github.com/pureverbs/pureverbs/ibv"
)

func main() { pingpong.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opt, code := pingpong.Parse(pingpong.Program{Name: "ud_pingpong", Size: 1024}, args, stdout, stderr)
	if opt == nil {
		return code
	}
	if err := play(ctx, opt, stdout); err != nil {
		fmt.Fprintln(stderr, "ud_pingpong:", err)
		return pingpong.ExitFailed
	}
	return pingpong.ExitOK
}

// The IDs of our work requests, which come back in their completions.
const (
	recvID = 1
	sendID = 2
)

// grh is the space for the routing header in front of every message received.
// On RoCE with IPv4 part of it holds the IP header instead.
const grh = 40

func play(ctx context.Context, opt *pingpong.Options, out io.Writer) (err error) {
	dev, err := ibv.Open(opt.Device)
	if err != nil {
		return err
	}
	defer pingpong.Close(dev, &err)
	port, err := dev.QueryPort(opt.Port)
	if err != nil {
		return err
	}
	if most := port.ActiveMTU.Bytes(); opt.Size > most {
		return fmt.Errorf("-s %d: a datagram fits in one packet, and the MTU of the port is %d", opt.Size, most)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer pingpong.Close(pd, &err)

	// First what comes in with its header, then what the client sends. The
	// server sends from where it received.
	mr, err := pd.AllocMR(grh+2*opt.Size, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	defer pingpong.Close(mr, &err)
	buf, at := mr.Bytes(), grh
	if !opt.IsServer() {
		at += opt.Size
	}
	in, from, message := mr.SGE(0, grh+opt.Size), mr.SGE(at, opt.Size), buf[at:at+opt.Size]

	cq, err := dev.CreateCQ(opt.RxDepth+1, opt.CQOptions())
	if err != nil {
		return err
	}
	defer pingpong.Close(cq, &err)
	var ah *ibv.AH // made when the peer's address is known, closed after the queue pair that uses it
	defer func() {
		if ah != nil {
			pingpong.Close(ah, &err)
		}
	}()
	qp, err := pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.UD, MaxSendWR: 1, MaxRecvWR: opt.RxDepth})
	if err != nil {
		return err
	}
	defer pingpong.Close(qp, &err)

	me, err := qp.Endpoint(opt.Port, opt.GID)
	if err != nil {
		return err
	}
	if err := qp.Init(nil); err != nil {
		return err
	}
	recv := []ibv.RecvWR{{ID: recvID, SGEs: []ibv.SGE{in}}}
	if _, err := qp.PostRecv(slices.Repeat(recv, opt.RxDepth)); err != nil {
		return err
	}

	// Connect makes the queue pair ready; the peer is in the address handle.
	var peer ibv.Endpoint
	err = pingpong.Exchange(ctx, opt, out, []ibv.Endpoint{me}, func(peers []ibv.Endpoint) error {
		peer = peers[0]
		if err := qp.Connect(peer, nil); err != nil {
			return err
		}
		way, err := qp.Address(peer, &ibv.ConnectOptions{SL: opt.SL})
		if err != nil {
			return err
		}
		ah, err = pd.CreateAH(way)
		return err
	})
	if err != nil {
		return err
	}

	game, ctx := pingpong.NewGame(ctx, opt)
	defer game.Stop()
	send := func() error {
		if !game.MyTurn(0) {
			return nil
		}
		game.Fill(message)
		_, err := qp.PostSend([]ibv.SendWR{{
			ID: sendID, Opcode: ibv.OpSend, Flags: ibv.Signaled, SGEs: []ibv.SGE{from},
			AH: ah, RemoteQPN: peer.QPN, RemoteQKey: peer.QKey,
		}})
		return err
	}
	if err := send(); err != nil { // the client's first
		return err
	}
	for wc, err := range cq.Completions(ctx) {
		if err != nil {
			return game.Why(ctx, err)
		}
		if err := wc.Err(); err != nil {
			return err
		}
		switch wc.ID {
		case sendID:
			game.Sent(0)
		case recvID:
			if err := game.Received(0, buf[grh:max(grh, wc.ByteLen)]); err != nil {
				return err
			}
			if _, err := qp.PostRecv(recv); err != nil {
				return err
			}
		}
		if err := send(); err != nil {
			return err
		}
		if game.Over() {
			break
		}
	}
	game.Report(out)
	return nil
}
