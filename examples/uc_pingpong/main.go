// Uc_pingpong sends a message back and forth over an unreliable connection (UC),
// with itself or with the stock ibv_uc_pingpong, as server or as client.
//
// It is rc_pingpong with another QP type. Nothing is acknowledged: a send
// completes when it has left, and a message that is lost ends the game with a
// timeout.
//
//	uc_pingpong -d mlx5_0            # on one host: waits
//	uc_pingpong -d mlx5_1 HOST       # on the other
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
	opt, code := pingpong.Parse(pingpong.Program{Name: "uc_pingpong", Size: 4096, MTU: true}, args, stdout, stderr)
	if opt == nil {
		return code
	}
	if err := play(ctx, opt, stdout); err != nil {
		fmt.Fprintln(stderr, "uc_pingpong:", err)
		return pingpong.ExitFailed
	}
	return pingpong.ExitOK
}

// The IDs of our work requests, which come back in their completions.
const (
	recvID = 1
	sendID = 2
)

func play(ctx context.Context, opt *pingpong.Options, out io.Writer) (err error) {
	// A device, and in it a protection domain, to which all the rest belongs.
	dev, err := ibv.Open(opt.Device)
	if err != nil {
		return err
	}
	defer pingpong.Close(dev, &err)
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer pingpong.Close(pd, &err)

	// Memory that the device may use: the first half for what comes in, the
	// second for what the client sends. The server sends from where it received.
	mr, err := pd.AllocMR(2*opt.Size, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	defer pingpong.Close(mr, &err)
	in, buf := mr.SGE(0, opt.Size), mr.Bytes()
	from, message := in, buf[:opt.Size]
	if !opt.IsServer() {
		from, message = mr.SGE(opt.Size, opt.Size), buf[opt.Size:]
	}

	// A completion queue for sends and receives, and the queue pair.
	cq, err := dev.CreateCQ(opt.RxDepth+1, opt.CQOptions())
	if err != nil {
		return err
	}
	defer pingpong.Close(cq, &err)
	qp, err := pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.UC, MaxSendWR: 1, MaxRecvWR: opt.RxDepth})
	if err != nil {
		return err
	}
	defer pingpong.Close(qp, &err)

	// Receives are posted before the peer can send: a message that finds none is
	// lost.
	me, err := qp.Endpoint(opt.Port, opt.GID)
	if err != nil {
		return err
	}
	conn := &ibv.ConnectOptions{MTU: opt.MTU, SL: opt.SL, Access: ibv.LocalWrite}
	if err := qp.Init(conn); err != nil {
		return err
	}
	recv := []ibv.RecvWR{{ID: recvID, SGEs: []ibv.SGE{in}}}
	if _, err := qp.PostRecv(slices.Repeat(recv, opt.RxDepth)); err != nil {
		return err
	}

	// Both sides learn each other's address over TCP, and connect.
	err = pingpong.Exchange(ctx, opt, out, []ibv.Endpoint{me}, func(peers []ibv.Endpoint) error {
		return qp.Connect(peers[0], conn)
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
		_, err := qp.PostSend([]ibv.SendWR{{ID: sendID, Opcode: ibv.OpSend, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{from}}})
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
			if err := game.Received(0, buf[:wc.ByteLen]); err != nil {
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
