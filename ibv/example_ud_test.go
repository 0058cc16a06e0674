package ibv_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// datagram sends a message from one UD queue pair to another, which answers its sender.
func datagram(device, message string) (string, error) {
	const grh = 40 // bytes in front of each datagram that is received
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var ends [2]*end
	var at [2]ibv.Endpoint
	for i := range ends {
		e, err := newEnd(device)
		if err != nil {
			return "", err
		}
		defer func() { _ = e.close() }()
		if err := e.qp.Close(); err != nil { // the connected one of newEnd
			return "", err
		}
		if e.qp, err = e.pd.CreateQP(e.cq, e.cq, &ibv.QPOptions{Type: ibv.UD}); err != nil {
			return "", err
		}
		if at[i], err = e.qp.Endpoint(1, ibv.BestGID); err != nil {
			return "", err
		}
		if err := e.qp.Connect(at[i], nil); err != nil { // to RTS: a UD queue pair has no peer
			return "", err
		}
		recv := []ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{e.mr.SGE(0, 2048)}}}
		if _, err := e.qp.PostRecv(recv); err != nil {
			return "", err
		}
		ends[i] = e
	}
	a, b := ends[0], ends[1]

	// The peer's Endpoint, which came over a socket, is its address.
	path, err := a.qp.Address(at[1], nil)
	if err != nil {
		return "", err
	}
	toB, err := a.pd.CreateAH(path)
	if err != nil {
		return "", err
	}
	defer toB.Close()
	n := copy(a.mr.Bytes()[2048:], message)
	if err := send(a.qp, a.mr.SGE(2048, n), toB, at[1].QPN, at[1].QKey); err != nil {
		return "", err
	}
	wc, err := received(ctx, b.cq)
	if err != nil {
		return "", err
	}
	// Who receives a datagram can answer: the completion and the GRH tell where it has come from.
	toA, err := b.pd.CreateAHFromWC(1, &wc, b.mr.Bytes()[:grh])
	if err != nil {
		return "", err
	}
	defer toA.Close()
	if err := send(b.qp, b.mr.SGE(grh, int(wc.ByteLen)-grh), toA, wc.SrcQPN, at[0].QKey); err != nil {
		return "", err
	}
	if wc, err = received(ctx, a.cq); err != nil {
		return "", err
	}
	return string(a.mr.Bytes()[grh:wc.ByteLen]), nil
}

func send(qp *ibv.QP, s ibv.SGE, to *ibv.AH, qpn, qkey uint32) error {
	b := qp.Batch()
	b.SendTo(2, ibv.Signaled, s, to, qpn, qkey)
	return b.Post()
}

// received waits for a receive; completions of sends come to the same CQ.
func received(ctx context.Context, cq *ibv.CQ) (ibv.WC, error) {
	for wc, err := range cq.Completions(ctx) {
		if err == nil {
			err = wc.Err()
		}
		if err != nil || wc.Opcode.IsRecv() {
			return wc, err
		}
	}
	return ibv.WC{}, ctx.Err()
}

// Datagrams: an address handle for each peer, and 40 bytes in front of what arrives. They may be lost.
func ExampleAH() {
	fmt.Println(datagram("", "to whom it may concern"))
}
