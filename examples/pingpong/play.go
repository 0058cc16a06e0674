package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pureverbs/pureverbs/ibv"
)

// grh is the space for the routing header in front of a datagram. On RoCE with IPv4 part of it holds
// the IP header instead.
const grh = 40

// A work request has the number of its buffer as its ID. That of a send also has this bit.
const sendID = 1 << 32

var types = map[string]ibv.QPType{"rc": ibv.RC, "uc": ibv.UC, "ud": ibv.UD, "srq": ibv.RC}

// play is the game of types rc, uc, ud and srq.
func play(ctx context.Context, o *options, out io.Writer) (err error) {
	// Each object is closed at the end, children before parents.
	closing := func(c io.Closer) { err = errors.Join(err, c.Close()) }

	// A device, and in it a protection domain, to which all the rest belongs.
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
	header := 0
	if o.kind == "ud" {
		header = grh
		port, err := dev.QueryPort(o.port)
		if err != nil {
			return err
		}
		if mtu := port.ActiveMTU.Bytes(); o.size > mtu {
			return fmt.Errorf("-s %d: a datagram fits in one packet, and the MTU of the port is %d", o.size, mtu)
		}
	}

	// Memory that the device may use: a buffer for each receive, and behind them one that the client
	// sends from. The server sends a message back from the buffer that received it.
	slot := header + o.size
	mr, err := pd.AllocMR((o.receives+1)*slot, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	defer closing(mr)
	buffer := func(i int) []byte { return mr.Bytes()[i*slot+header:][:o.size] }
	outgoing := o.receives

	// A completion queue for sends and receives, and the queue pairs.
	cq, err := dev.CreateCQ(o.receives+o.qps, o.cqOptions())
	if err != nil {
		return err
	}
	defer closing(cq)
	opt := ibv.QPOptions{Type: types[o.kind], MaxSendWR: 1, MaxRecvWR: o.receives}
	if o.kind == "srq" { // one receive queue for all
		opt.MaxRecvWR = 0
		if opt.SRQ, err = pd.CreateSRQ(&ibv.SRQOptions{MaxWR: o.receives}); err != nil {
			return err
		}
		defer closing(opt.SRQ)
	}
	var ah *ibv.AH // the peer's address of type ud, closed after the queue pair that uses it
	defer func() {
		if ah != nil {
			closing(ah)
		}
	}()
	conn := &ibv.ConnectOptions{SL: o.sl}
	switch opt.Type {
	case ibv.RC:
		conn.MTU, conn.Access, conn.MaxRdAtomic, conn.MaxDestRdAtomic = o.mtu, ibv.LocalWrite, 1, 1
	case ibv.UC:
		conn.MTU, conn.Access = o.mtu, ibv.LocalWrite
	}
	qps, mine := make([]*ibv.QP, o.qps), make([]ibv.Endpoint, o.qps)
	byNumber := make(map[uint32]int) // a completion has the number of its queue pair
	for q := range qps {
		if qps[q], err = pd.CreateQP(cq, cq, &opt); err != nil {
			return err
		}
		defer closing(qps[q])
		byNumber[qps[q].Num()] = q
		if mine[q], err = qps[q].Endpoint(o.port, o.gid); err != nil {
			return err
		}
		if err := qps[q].Init(conn); err != nil {
			return err
		}
	}

	// Receives are posted before the peer can send: without one a message is lost, or of type rc comes
	// again after a while.
	receive := func(i int) error {
		wr := []ibv.RecvWR{{ID: uint64(i), SGEs: []ibv.SGE{mr.SGE(i*slot, slot)}}}
		if opt.SRQ != nil {
			_, err := opt.SRQ.PostRecv(wr)
			return err
		}
		_, err := qps[0].PostRecv(wr)
		return err
	}
	for i := range o.receives {
		if err := receive(i); err != nil {
			return err
		}
	}

	// Both sides learn each other's addresses over TCP, and connect. A queue pair of type ud has no
	// peer: each send names its destination.
	var peer ibv.Endpoint
	err = exchange(ctx, o, out, mine, func(peers []ibv.Endpoint) error {
		for q, qp := range qps {
			if err := qp.Connect(peers[q], conn); err != nil {
				return err
			}
		}
		if o.kind != "ud" {
			return nil
		}
		peer = peers[0]
		path, err := qps[0].Address(peer, conn)
		if err != nil {
			return err
		}
		ah, err = pd.CreateAH(path)
		return err
	})
	if err != nil {
		return err
	}

	game, ctx := newGame(ctx, o)
	defer game.stop()
	next := make([]int, o.qps) // the buffer that each queue pair sends from next
	send := func(q int) error {
		if !game.myTurn(q) {
			return nil
		}
		i := next[q]
		game.fill(buffer(i))
		wr := ibv.SendWR{ID: sendID | uint64(i), Opcode: ibv.OpSend, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{mr.SGE(i*slot+header, o.size)}}
		if ah != nil {
			wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, peer.QPN, peer.QKey
		}
		_, err := qps[q].PostSend([]ibv.SendWR{wr})
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
			return game.why(ctx, err)
		}
		if err := wc.Err(); err != nil {
			return err
		}
		q, i := byNumber[wc.QPN], int(wc.ID&^sendID)
		free := i != outgoing
		if wc.ID&sendID != 0 {
			game.wasSent(q)
		} else {
			if err := game.wasReceived(q, mr.Bytes()[i*slot+header:][:int(wc.ByteLen)-header]); err != nil {
				return err
			}
			if o.server() {
				next[q], free = i, false // until it has been sent back
			}
		}
		if free {
			if err := receive(i); err != nil {
				return err
			}
		}
		if err := send(q); err != nil {
			return err
		}
		if game.over() {
			break
		}
	}
	game.report(out)
	return nil
}
