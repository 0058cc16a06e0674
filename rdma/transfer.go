package rdma

import (
	"context"
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Transfer is a list of reads and writes of a region that are done together: with one doorbell and one
// completion for up to 24 work requests of at most 1 MiB, while the queue has room. They are ordered
// only as reads and writes of RC are: a write comes after the writes before it.
//
// It belongs to the caller, and is not safe for concurrent use. After Do or Wait it is empty, and may
// be filled again.
type Transfer struct {
	r    *Region
	o    *op // nil: nothing was added
	p    []byte
	imm  uint32
	last uint8 // flags of the message
	tell bool
	err  error // of what was added
	runs bool
}

// Transfer returns an empty transfer.
func (r *Region) Transfer() *Transfer { return &Transfer{r: r} }

func (t *Transfer) add(st step) {
	if t.runs {
		panic("rdma: the transfer has begun")
	}
	if t.o == nil {
		t.o = ops.Get().(*op)
		t.o.r = t.r
	}
	if st.to < 0 {
		st.to = 0 // an error: only Region.Read and Write take all of a buffer
	}
	if err := t.r.check(&st); err != nil {
		t.err = errors.Join(t.err, fmt.Errorf("descriptor %d: %w", len(t.o.steps), err))
	}
	t.o.steps = append(t.o.steps, st)
}

// Read adds reading the region from byte off on into the bytes of b from from to to.
func (t *Transfer) Read(b *Buffer, from, to int, off int64) {
	t.add(stepOf(ibv.OpRead, b, from, to, off))
}

// Write adds writing the bytes of b from from to to to the region, from byte off on.
func (t *Transfer) Write(b *Buffer, from, to int, off int64) {
	t.add(stepOf(ibv.OpWrite, b, from, to, off))
}

// Notify has the peer receive a message after the writes: when its Recv returns it, they are there. A
// copy of p is sent, of at most a block (PeerInfo.Block).
func (t *Transfer) Notify(p []byte) { t.notify(p, 0, 0) }

// NotifyImm is Notify with a number for Message.Imm.
func (t *Transfer) NotifyImm(imm uint32, p []byte) { t.notify(p, wire.FlagImm, imm) }

func (t *Transfer) notify(p []byte, last uint8, imm uint32) {
	if most := min(t.r.l.FrameMost(), int(t.r.l.Peer.MaxMessage)); len(p) > most {
		t.err = errors.Join(t.err, &ibv.LimitError{What: "bytes of a notification", Asked: uint64(len(p)),
			Limit: uint64(most), Where: "one frame"})
	}
	t.p, t.last, t.imm, t.tell = append(t.p[:0], p...), last, imm, true
}

// Do runs the transfer and waits for it.
func (t *Transfer) Do(ctx context.Context) error {
	if err := t.Start(ctx); err != nil {
		return err
	}
	return t.Wait(ctx)
}

// Start begins the transfer. If that fails, the transfer is empty.
func (t *Transfer) Start(ctx context.Context) error {
	if t.runs {
		panic("rdma: the transfer has begun")
	}
	err := t.start(ctx)
	if err != nil && t.o != nil {
		t.o.recycle()
		t.o = nil
	}
	t.err, t.tell = nil, false
	t.runs = err == nil
	return t.r.fail("transfer of", err)
}

func (t *Transfer) start(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case t.err != nil:
		return t.err
	case t.o == nil:
		return &ibv.ArgError{Arg: "transfer", Got: "no reads or writes", Want: "one or more; Conn.Send sends a message"}
	}
	if t.tell {
		wr, w := &t.r.l.Writer, turn.Bound{Ctx: ctx}
		if err := wr.Turn.Enter(w); err != nil {
			return err
		}
		defer wr.Turn.Leave()
		note, err := wr.Note(w, t.p, t.last, t.imm)
		if err != nil {
			return err
		}
		t.o.Note, t.o.Noting = note, true
	}
	if err := leasingOf(t.r.l).submit(t.o); err != nil {
		if t.o.Noting {
			t.r.l.GiveUp(t.o.Note.Held)
		}
		return err
	}
	return nil
}

// Wait waits for a transfer that has begun. If ctx ends first, operations under way continue, and the rest is not
// begun; the notification is sent if all of it has been begun.
func (t *Transfer) Wait(ctx context.Context) error {
	if !t.runs {
		panic("rdma: the transfer has not begun")
	}
	o := t.o
	t.o, t.runs = nil, false
	finished, err := leasingOf(t.r.l).await1(ctx, o)
	if finished {
		o.recycle()
	}
	return t.r.fail("transfer of", err)
}
