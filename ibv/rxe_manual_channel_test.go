package ibv

import (
	"errors"
	"os"
	"testing"
)

// TestRXE_ManualChannel reads the events of two CQs by hand, and has ReadEvents be interrupted and closed.
func TestRXE_ManualChannel(t *testing.T) {
	a, b := newPair(t, nil, nil)
	ch := must(b.dev.CreateManualCompChannel())(t)
	cq := must(b.dev.CreateCQ(8, &CQOptions{Channel: ch, Spin: None}))(t)
	other := must(b.dev.CreateCQ(8, &CQOptions{Channel: ch, Spin: None}))(t)
	qp := must(b.pd.CreateQP(cq, cq, nil))(t)
	sender := closing(t, must(a.pd.CreateQP(a.cq, a.cq, nil))(t))
	connectRXE(t, sender, qp)

	var wcs [2]WC
	round := func() {
		t.Helper()
		recv(t, qp, RecvWR{ID: 1, SGEs: []SGE{b.mr.SGE(0, 100)}})
		seen := cq.Events()
		ok(t, cq.Arm(false))
		post(t, sender, SendWR{ID: 2, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}})
		a.good(t, 2)
		for cq.Events() == seen {
			ok(t, ch.ReadEvents())
		}
		if n, err := cq.Poll(wcs[:]); n != 1 || err != nil || wcs[0].ID != 1 {
			t.Errorf("%d completions, %v: %+v", n, err, wcs[0])
		}
	}
	for range 3 {
		round()
	}
	if other.Events() != 0 {
		t.Errorf("%d events of the other CQ", other.Events())
	}

	// Closing another object takes completions out of the CQ, and no event is to come for them.
	gone := map[string]interface{ Close() error }{"QP": must(b.pd.CreateQP(cq, cq, nil))(t),
		"MR": must(b.pd.AllocMR(64, 0, nil))(t)}
	if x, err := b.dev.OpenXRCD(nil, os.O_CREATE); err == nil {
		closing(t, x)
		gone["SRQ"] = must(b.pd.CreateSRQ(&SRQOptions{Type: SRQXRC, XRCD: x, CQ: cq}))(t)
	}
	for name, o := range gone {
		recv(t, qp, RecvWR{ID: 1, SGEs: []SGE{b.mr.SGE(0, 100)}})
		post(t, sender, SendWR{ID: 2, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}})
		a.good(t, 2)
		seen := cq.Events()
		ok(t, o.Close())
		taken := name != "QP" || qp.sq.direct == nil
		if taken != (cq.held != nil) || taken && cq.Events() == seen {
			t.Errorf("closing the %s: taken out: %v, events: %d, before: %d", name, cq.held != nil, cq.Events(), seen)
		} else if taken {
			ok(t, ch.ReadEvents()) // returns
			ok(t, cq.WaitEvent(t.Context(), seen))
		}
		if n, err := cq.Poll(wcs[:]); n != 1 || err != nil || wcs[0].ID != 1 {
			t.Errorf("closing the %s: %d completions, %v: %+v", name, n, err, wcs[0])
		}
	}

	ch.Interrupt()
	ok(t, ch.ReadEvents())
	var busy *BusyError
	read := func() chan error {
		got := make(chan error, 1)
		go func() {
			err := ch.ReadEvents()
			for errors.As(err, &busy) { // because of the test's look
				err = ch.ReadEvents()
			}
			got <- err
		}()
		for ch.manual.mu.TryLock() { // it does not read yet
			ch.manual.mu.Unlock()
		}
		return got
	}
	got := read()
	var another *BusyError
	if err := ch.ReadEvents(); !errors.As(err, &another) {
		t.Errorf("a second reader: %v, want a BusyError", err)
	}
	ch.Interrupt()
	ok(t, <-got)
	round() // an interrupt is for one

	ok(t, qp.Close())
	ok(t, cq.Close())
	ok(t, other.Close())
	got = read()
	ok(t, ch.Close())
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Errorf("closed while it reads: %v", err)
	}
	if err := ch.ReadEvents(); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	ch.Interrupt()

	var arg *ArgError
	own := closing(t, must(b.dev.CreateCompChannel())(t))
	own.Interrupt()
	if err := own.ReadEvents(); !errors.As(err, &arg) {
		t.Errorf("a channel with a goroutine: %v, want an ArgError", err)
	}
}

// TestRXE_ManualChannelAllocs reads events without allocating.
func TestRXE_ManualChannelAllocs(t *testing.T) {
	a, b := newPair(t, nil, nil)
	ch := closing(t, must(b.dev.CreateManualCompChannel())(t))
	cq := closing(t, must(b.dev.CreateCQ(8, &CQOptions{Channel: ch, Spin: None}))(t))
	qp := closing(t, must(b.pd.CreateQP(cq, cq, nil))(t))
	sender := closing(t, must(a.pd.CreateQP(a.cq, a.cq, nil))(t))
	connectRXE(t, sender, qp)
	var wcs [2]WC
	recvs := []RecvWR{{SGEs: []SGE{b.mr.SGE(0, 100)}}}
	sends := []SendWR{{Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}}}
	if n := testing.AllocsPerRun(100, func() {
		_, _ = qp.PostRecv(recvs)
		seen := cq.Events()
		ok(t, cq.Arm(false))
		_, _ = sender.PostSend(sends)
		for cq.Events() == seen {
			ok(t, ch.ReadEvents())
		}
		for _, q := range []*CQ{cq, a.cq} {
			for n := 0; n == 0; {
				n, _ = q.Poll(wcs[:])
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
