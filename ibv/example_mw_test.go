package ibv_test

import (
	"context"

	"github.com/pureverbs/pureverbs/ibv"
)

// lend opens a part of mr to the peer of qp, tells it by a message, and takes it back when the
// peer has answered. cq is that of qp; a receive is posted for the answer.
func lend(ctx context.Context, qp *ibv.QP, cq *ibv.CQ, mr *ibv.MR, tell func(ibv.RemoteMemory) error) error {
	mw, err := qp.PD().AllocMW(ibv.MWType2)
	if err != nil {
		return err
	}
	defer mw.Close()
	bind := &ibv.BindMW{MW: mw, RKey: ibv.NextRKey(mw.RKey()), MR: mr, Addr: mr.Addr() + 4096, Length: 512,
		Access: ibv.RemoteWrite}
	var wc [1]ibv.WC
	done := func() error {
		if _, err := cq.Wait(ctx, wc[:]); err != nil {
			return err
		}
		return wc[0].Err()
	}
	b := qp.Batch()
	b.BindMW(1, ibv.Signaled, bind)
	if err := b.Post(); err != nil {
		return err
	}
	if err := done(); err != nil { // from here on the peer may write
		return err
	}
	if err := tell(bind.Remote()); err != nil {
		return err
	}
	if err := done(); err != nil { // the answer
		return err
	}
	if wc[0].Flags&ibv.WCWithInv != 0 && wc[0].InvalidatedRKey == bind.RKey {
		return nil // the peer gave the window back, by OpSendInv
	}
	b.LocalInv(2, ibv.Signaled, bind.RKey)
	if err := b.Post(); err != nil {
		return err
	}
	return done() // from here on nothing that the peer writes arrives
}

// A part of an MR is lent to the peer, by a memory window of type 2, and taken back.
func ExampleMW() {
	_ = lend
}
