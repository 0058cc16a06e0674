package main

import (
	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
)

// A work request has the number of its buffer as its ID. That of a send also has this bit.
const sendID = 1 << 32

var types = map[string]ibv.QPType{"rc": ibv.RC, "uc": ibv.UC, "ud": ibv.UD, "srq": ibv.RC}

// play is the game of types rc, uc, ud and srq.
func play(r *program.Run, o *options) {
	// A device, and in it a protection domain, to which all the rest belongs. Each object is closed at the end,
	// children before parents.
	dev := program.Keep(r, program.Must(ibv.Open(o.device)))
	pd := program.Keep(r, program.Must(dev.AllocPD()))
	header := 0
	if o.kind == "ud" {
		header = program.GRH
		program.FitsMTU(dev, o.port, "-s", o.size)
	}

	// Memory that the device may use: a buffer for each receive, and behind them one that the client
	// sends from. The server sends a message back from the buffer that received it.
	slot := header + o.size
	mr := program.Keep(r, program.Must(pd.AllocMR((o.receives+1)*slot, ibv.LocalWrite, nil)))
	buffer := func(i int) []byte { return mr.Bytes()[i*slot+header:][:o.size] }
	outgoing := o.receives

	// A completion queue for sends and receives, and the queue pairs.
	cq := program.Keep(r, program.Must(dev.CreateCQ(o.receives+o.qps, o.cqOptions())))
	opt := ibv.QPOptions{Type: types[o.kind], MaxSendWR: 1, MaxRecvWR: o.receives}
	if o.kind == "srq" { // one receive queue for all
		opt.MaxRecvWR = 0
		opt.SRQ = program.Keep(r, program.Must(pd.CreateSRQ(&ibv.SRQOptions{MaxWR: o.receives})))
	}
	var ah *ibv.AH // the peer's address of type ud, closed after the queue pair that uses it
	r.OnClose(func() error {
		if ah != nil {
			return ah.Close()
		}
		return nil
	})
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
		qps[q] = program.Keep(r, program.Must(pd.CreateQP(cq, cq, &opt)))
		byNumber[qps[q].Num()] = q
		mine[q] = program.Must(qps[q].Endpoint(o.port, o.gid))
		program.Check(qps[q].Init(conn))
	}

	// Receives are posted before the peer can send: without one a message is lost, or of type rc comes
	// again after a while.
	post := qps[0].PostRecv
	if opt.SRQ != nil {
		post = opt.SRQ.PostRecv
	}
	receive := func(i int) {
		program.Must(post([]ibv.RecvWR{{ID: uint64(i), SGEs: []ibv.SGE{mr.SGE(i*slot, slot)}}}))
	}
	for i := range o.receives {
		receive(i)
	}

	// Both sides learn each other's addresses over TCP, and connect. A queue pair of type ud has no
	// peer: each send names its destination.
	var peer ibv.Endpoint
	program.Check(exchange(r, o, r, mine, func(peers []ibv.Endpoint) (err error) {
		defer program.Catch(&err)
		for q, qp := range qps {
			program.Check(qp.Connect(peers[q], conn))
		}
		if o.kind == "ud" {
			peer = peers[0]
			ah = program.Must(pd.CreateAH(program.Must(qps[0].Address(peer, conn))))
		}
		return nil
	}))

	game, ctx := newGame(r, o)
	defer game.stop()
	next := make([]int, o.qps) // the buffer that each queue pair sends from next
	send := func(q int) {
		if !game.myTurn(q) {
			return
		}
		i := next[q]
		game.fill(buffer(i))
		wr := ibv.SendWR{ID: sendID | uint64(i), Opcode: ibv.OpSend, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{mr.SGE(i*slot+header, o.size)}}
		if ah != nil {
			wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, peer.QPN, peer.QKey
		}
		program.Must(qps[q].PostSend([]ibv.SendWR{wr}))
	}
	for q := range qps { // the client's first
		next[q] = outgoing
		send(q)
	}
	for wc, err := range cq.Completions(ctx) {
		if err != nil {
			program.Check(game.why(ctx, err))
		}
		program.Check(wc.Err())
		q, i := byNumber[wc.QPN], int(wc.ID&^sendID)
		free := i != outgoing
		if wc.ID&sendID != 0 {
			game.wasSent(q)
		} else {
			program.Check(game.wasReceived(q, mr.Bytes()[i*slot+header:][:int(wc.ByteLen)-header]))
			if o.server() {
				next[q], free = i, false // until it has been sent back
			}
		}
		if free {
			receive(i)
		}
		send(q)
		if game.over() {
			break
		}
	}
	game.report(r)
}
