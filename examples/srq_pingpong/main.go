// Srq_pingpong sends messages back and forth over several reliable connections
// that share one receive queue (SRQ), with itself or with the stock
// ibv_srq_pingpong, as server or as client.
//
//	srq_pingpong -d mlx5_0           # on one host: waits
//	srq_pingpong -d mlx5_1 HOST      # on the other
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/pureverbs/pureverbs/examples/internal/pingpong"
	"github.com/pureverbs/pureverbs/ibv"
)

func main() { pingpong.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opt, code := pingpong.Parse(pingpong.Program{Name: "srq_pingpong", Size: 4096, MTU: true, QPs: 16}, args,
		stdout, stderr)
	if opt == nil {
		return code
	}
	if err := play(ctx, opt, stdout); err != nil {
		fmt.Fprintln(stderr, "srq_pingpong:", err)
		return pingpong.ExitFailed
	}
	return pingpong.ExitOK
}

// The ID of a receive is the number of its buffer. The ID of a send is the number of its buffer
// plus sendID.
const sendID = 1 << 32

func play(ctx context.Context, opt *pingpong.Options, out io.Writer) (err error) {
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

	// A buffer for each receive, and after them one that the client sends from on all queue pairs.
	// The server sends a message back from the buffer that received it.
	mr, err := pd.AllocMR((opt.RxDepth+1)*opt.Size, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	defer pingpong.Close(mr, &err)
	buffer := func(i, n int) []byte { return mr.Bytes()[i*opt.Size:][:n] }
	outgoing := opt.RxDepth

	cq, err := dev.CreateCQ(opt.RxDepth+opt.QPs, opt.CQOptions())
	if err != nil {
		return err
	}
	defer pingpong.Close(cq, &err)

	// The receive queue, and the queue pairs that take their receives from it.
	srq, err := pd.CreateSRQ(&ibv.SRQOptions{MaxWR: opt.RxDepth})
	if err != nil {
		return err
	}
	defer pingpong.Close(srq, &err)
	post := func(i int) error {
		_, err := srq.PostRecv([]ibv.RecvWR{{ID: uint64(i), SGEs: []ibv.SGE{mr.SGE(i*opt.Size, opt.Size)}}})
		return err
	}
	for i := range opt.RxDepth {
		if err := post(i); err != nil {
			return err
		}
	}
	conn := &ibv.ConnectOptions{MTU: opt.MTU, SL: opt.SL, Access: ibv.LocalWrite, MaxRdAtomic: 1, MaxDestRdAtomic: 1}
	qps := make([]*ibv.QP, opt.QPs)
	me := make([]ibv.Endpoint, opt.QPs)
	byNum := make(map[uint32]int) // a completion has the number of its queue pair
	for q := range qps {
		qps[q], err = pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.RC, MaxSendWR: 1, SRQ: srq})
		if err != nil {
			return err
		}
		defer pingpong.Close(qps[q], &err)
		byNum[qps[q].Num()] = q
		if me[q], err = qps[q].Endpoint(opt.Port, opt.GID); err != nil {
			return err
		}
	}
	err = pingpong.Exchange(ctx, opt, out, me, func(peers []ibv.Endpoint) error {
		for q, qp := range qps {
			if err := qp.Connect(peers[q], conn); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}

	game, ctx := pingpong.NewGame(ctx, opt)
	defer game.Stop()
	next := make([]int, opt.QPs) // the buffer that each queue pair sends from next
	send := func(q int) error {
		if !game.MyTurn(q) {
			return nil
		}
		i := next[q]
		game.Fill(buffer(i, opt.Size))
		_, err := qps[q].PostSend([]ibv.SendWR{{
			ID: sendID + uint64(i), Opcode: ibv.OpSend, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{mr.SGE(i*opt.Size, opt.Size)},
		}})
		return err
	}
	for q := range qps { // the client's first
		next[q] = outgoing
		if err := send(q); err != nil {
			return err
		}
	}
	for wc, err := range cq.Completions(ctx) {
		if err != nil {
			return game.Why(ctx, err)
		}
		if err := wc.Err(); err != nil {
			return err
		}
		q := byNum[wc.QPN]
		i, free := int(wc.ID%sendID), true
		if wc.ID >= sendID {
			game.Sent(q)
			free = i != outgoing
		} else {
			if err := game.Received(q, buffer(i, int(wc.ByteLen))); err != nil {
				return err
			}
			if opt.IsServer() {
				next[q], free = i, false // until it has been sent back
			}
		}
		if free {
			if err := post(i); err != nil {
				return err
			}
		}
		if err := send(q); err != nil {
			return err
		}
		if game.Over() {
			break
		}
	}
	game.Report(out)
	return nil
}
