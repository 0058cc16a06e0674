package ibv

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Drain ends QPs whose queues are full: each work request completes once, and nothing comes afterwards.
func TestRXE_Drain(t *testing.T) {
	const depth = 32
	for _, c := range []struct {
		srq, apart bool // apart: two CQs
		opt        QPOptions
	}{
		{false, false, QPOptions{}}, {false, true, QPOptions{}}, {true, false, QPOptions{}}, {true, true, QPOptions{}},
		{false, false, QPOptions{Type: UC}}, {false, false, QPOptions{SendOps: SendOpWrite}},
	} {
		typ := max(c.opt.Type, RC)
		t.Run(fmt.Sprintf("SRQ %v, two CQs %v, %v, %v", c.srq, c.apart, typ, c.opt.SendOps), func(t *testing.T) {
			rxe := testutil.NeedRXE(t)
			ctx, cancel := context.WithCancel(timeout(t))
			a, b := newSide(t, 0, nil), newSide(t, 1, nil)
			recvCQ := a.cq
			if c.apart {
				recvCQ = closing(t, must(a.dev.CreateCQ(512, nil))(t))
			}
			o := c.opt
			o.MaxSendWR, o.MaxRecvWR = depth, depth
			var srq *SRQ
			if c.srq {
				path, _ := a.cq.DataPath()
				srq = closing(t, must(a.pd.CreateSRQ(&SRQOptions{MaxWR: depth, DataPath: path}))(t))
				o.SRQ = srq
			}
			a.qp = closing(t, must(a.pd.CreateQP(a.cq, recvCQ, &o))(t))
			b.newQP(t, &QPOptions{Type: c.opt.Type})
			ea, eb := must(a.qp.Endpoint(rxe.Port, rxe.GID))(t), must(b.qp.Endpoint(rxe.Port, rxe.GID))(t)
			ok(t, a.qp.Connect(eb, nil))
			ok(t, b.qp.Connect(ea, nil))
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					if _, err := a.dev.AsyncEvent(ctx); err != nil {
						return
					}
				}
			}()
			defer func() { cancel(); <-done }()

			// Receives that the peer takes some of, and sends for which it has none.
			const taken = 3
			want := make(map[uint64]int)
			for i := range uint64(depth) {
				wr := RecvWR{ID: 1000 + i, SGEs: []SGE{a.mr.SGE(0, 64)}}
				if c.srq {
					must(srq.PostRecv([]RecvWR{wr}))(t)
				} else {
					recv(t, a.qp, wr)
				}
				if !c.srq || i < taken {
					want[wr.ID] = 1
				}
			}
			for i := range uint64(taken) {
				post(t, b.qp, SendWR{ID: i, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{b.mr.SGE(0, 64)}})
				b.good(t, i)
			}
			op := OpSend
			if c.opt.SendOps != 0 {
				op = OpWrite
			}
			for n := uint64(0); n < 4*depth; n++ { // SoftRoCE's queue is as long as the kernel is slow
				_, err := a.qp.PostSend([]SendWR{{ID: n, Opcode: op, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 64)},
					Remote: b.mr.Remote().At(0)}})
				if errors.Is(err, ErrQueueFull) {
					break
				}
				ok(t, err)
				want[n] = 1
			}
			take := func(wcs []WC) {
				for _, wc := range wcs {
					want[wc.ID]--
				}
			}
			ok(t, a.qp.Drain(ctx, take))
			for _, cq := range []*CQ{a.cq, recvCQ} {
				if n, err := cq.Poll(make([]WC, 1)); n != 0 || err != nil {
					t.Errorf("%d completions afterwards, %v", n, err)
				}
			}
			for id, n := range want {
				if n != 0 {
					t.Errorf("work request %d: %d completions, want 1", id, 1-n)
				}
			}
			ok(t, a.qp.Drain(ctx, nil)) // again
		})
	}
}

// TestRXE_DrainRefuses has what cannot be drained.
func TestRXE_DrainRefuses(t *testing.T) {
	a, b := newPair(t, nil, nil)
	var state *StateError
	if _, err := a.qp.Mark(timeout(t), 1); !errors.As(err, &state) {
		t.Errorf("Mark in RTS: %v", err)
	}
	var unsupported *UnsupportedError
	ud := closing(t, must(a.pd.CreateQP(a.cq, a.cq, &QPOptions{Type: UD}))(t))
	must(ud.Endpoint(testutil.NeedRXE(t).Port, testutil.NeedRXE(t).GID))(t)
	ok(t, ud.Init(nil))
	if err := ud.Drain(timeout(t), nil); !errors.As(err, &unsupported) || ud.State() != StateInit {
		t.Errorf("a UD QP: %v, and it is in %v", err, ud.State())
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	ok(t, a.qp.Rest(over)) // which does not wait
	ok(t, a.qp.Rest(over))
	if !soft(testutil.NeedRXE(t)) { // which has no such event
		path, _ := b.cq.DataPath()
		srq := closing(t, must(b.pd.CreateSRQ(&SRQOptions{DataPath: path}))(t))
		qp := closing(t, must(b.pd.CreateQP(b.cq, b.cq, &QPOptions{SRQ: srq}))(t))
		e := must(qp.Endpoint(testutil.NeedRXE(t).Port, testutil.NeedRXE(t).GID))(t)
		ok(t, qp.Connect(e, nil))
		short, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		wantErr(t, qp.Drain(short, nil), context.DeadlineExceeded, "AsyncEvent")
		must(b.dev.AsyncEvent(timeout(t)))(t)
		ok(t, qp.Drain(timeout(t), nil))
	}
	gone := must(a.pd.CreateQP(a.cq, a.cq, nil))(t)
	ok(t, gone.Close())
	wantErr(t, gone.Drain(timeout(t), nil), ErrClosed)
}

// TestRXE_SQD drains a send queue by its state: what was posted before completes, what is posted meanwhile waits, and
// attributes that RTS does not take may be changed. mlx5's driver has no such transition.
func TestRXE_SQD(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	a, b := newPair(t, nil, nil)
	ids := uint64(0)
	exchange := func() {
		recv(t, b.qp, RecvWR{ID: 100 + ids, SGEs: []SGE{b.mr.SGE(0, 64)}})
		post(t, a.qp, SendWR{ID: ids, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 64)}})
		ids++
	}
	for range 4 {
		exchange()
	}
	err := a.qp.Modify(&QPAttr{State: StateSQD, EnSQDAsyncNotify: true}, MaskState|MaskEnSQDAsyncNotify)
	if !soft(rxe) {
		wantErr(t, err, syscall.EINVAL, "the driver may have no such transition, as mlx5's has none")
		if s := must(a.qp.Query(MaskState))(t).State; s != StateRTS {
			t.Errorf("it is in %v afterwards", s)
		}
	} else {
		ok(t, err)
		if ev := waitEvent(t, a.dev, EventSQDrained); ev.QP != a.qp {
			t.Errorf("the event is of %v", ev.QP)
		}
	}
	done := uint64(0)
	wait := func() {
		for ; done < ids; done++ {
			a.good(t, done)
			b.good(t, 100+done)
		}
	}
	wait()
	if soft(rxe) {
		if s := must(a.qp.Query(MaskState))(t); s.State != StateSQD || s.SQDraining {
			t.Errorf("drained, it is in %v, draining %v", s.State, s.SQDraining)
		}
		ok(t, a.qp.Modify(&QPAttr{RetryCnt: 3}, MaskRetryCnt))
		if n := must(a.qp.Query(MaskRetryCnt))(t).RetryCnt; n != 3 {
			t.Errorf("the retry count is %d", n)
		}
		exchange()
		if n := must(a.cq.Poll(make([]WC, 1)))(t); n != 0 {
			t.Errorf("a work request was executed in SQD")
		}
		ok(t, a.qp.Modify(&QPAttr{State: StateRTS}, MaskState)) // SoftRoCE looks at its queue at the next post
	}
	exchange()
	wait()
}
