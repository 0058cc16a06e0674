package program

import (
	"context"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// Exchange is the messages of one queue pair. Its memory has a place for each message that comes, with a header, and
// behind them one for each that goes.
type Exchange struct {
	*Messages
	QP     *ibv.QP
	MR     *ibv.MR
	Header int
	Wait   func(context.Context) (ibv.WC, error) // for the next completion

	sent, received int
}

// Exchange is that of an endpoint.
func (e *Endpoint) Exchange(m *Messages, header int) *Exchange {
	wait := func(ctx context.Context) (ibv.WC, error) { return m.Next(ctx, e.CQ) }
	return &Exchange{Messages: m, QP: e.QP, MR: e.MR, Header: header, Wait: wait}
}

// Expect posts a receive for every message, before the peer can send.
func (x *Exchange) Expect() error {
	wrs := make([]ibv.RecvWR, x.Count)
	for n := range wrs {
		wrs[n] = ibv.RecvWR{ID: uint64(n), SGEs: []ibv.SGE{x.MR.SGE(n*(x.Header+x.Size), x.Header+x.Size)}}
	}
	_, err := x.QP.PostRecv(wrs)
	return err
}

// Send posts all messages, each by add.
func (x *Exchange) Send(add func(*ibv.Batch, ibv.SGE)) error {
	batch := x.QP.Batch()
	for n := range x.Count {
		at := x.Count*(x.Header+x.Size) + n*x.Size
		x.Fill(x.MR.Bytes()[at:], n)
		add(batch, x.MR.SGE(at, x.Size))
	}
	return batch.Post()
}

// Finish waits until so many messages have been sent, and so many received. It checks each that was received, and then
// calls each with the completion, and with the message and its header.
func (x *Exchange) Finish(ctx context.Context, sent, received int, each func(*ibv.WC, []byte) error) error {
	for x.sent < sent || x.received < received {
		wc, err := x.Wait(ctx)
		switch {
		case err != nil && x.received < received:
			return fmt.Errorf("%d %ss received of %d: %w", x.received, x.Kind, received, err)
		case err != nil:
			return fmt.Errorf("%d %ss sent of %d: %w", x.sent, x.Kind, sent, err)
		case wc.Opcode == ibv.WCSend:
			x.sent++
			continue
		}
		b := x.MR.Bytes()[int(wc.ID)*(x.Header+x.Size):][:wc.ByteLen]
		if err := x.Check(b[x.Header:], x.received); err != nil {
			return err
		}
		if each != nil {
			if err := each(&wc, b); err != nil {
				return fmt.Errorf("%s %d: %w", x.Kind, x.received, err)
			}
		}
		x.received++
	}
	return nil
}

// Report is the last line of a program that sends and receives, over so many connections.
func (m *Messages) Report(connections int) string {
	return fmt.Sprintf("%d %ss sent and as many received%s\n", connections*m.Count, m.Kind, Checked(m.Verify))
}
