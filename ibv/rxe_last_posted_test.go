package ibv

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_LastPosted lets a work request fail in each of the ways, between others, and looks at what the rings say.
func TestRXE_LastPosted(t *testing.T) {
	const (
		goodID  = 0x100 // many of these, then the one that fails, then some that are flushed
		badID   = 0x2a
		afterID = 0x1000
	)
	rxe := testutil.NeedRXE(t)
	for _, c := range []struct {
		status WCStatus
		flags  SendFlags
		bad    func(wr *SendWR, a, b *side)
		peer   func(b *side) // before it is posted
		gone   bool          // the peer does not answer what comes before either
	}{
		{status: WCRemAccessErr, flags: Fence, bad: func(wr *SendWR, a, b *side) {
			*wr = SendWR{Opcode: OpWrite, SGEs: []SGE{a.mr.SGE(64, 100)}, Remote: b.mr.Remote().At(4096)}
			wr.Remote.RKey ^= 0x5500
		}},
		{status: WCLocProtErr, bad: func(wr *SendWR, a, b *side) {
			*wr = SendWR{Opcode: OpSendImm, SGEs: []SGE{a.mr.SGE(0, 30), a.mr.SGE(512, 8)}, Imm: 0x01020304}
			wr.SGEs[1].LKey ^= 0x7700
		}},
		{status: WCRNRRetryExcErr, flags: Solicited, bad: func(wr *SendWR, a, b *side) {
			*wr = SendWR{Opcode: OpSend, SGEs: []SGE{a.mr.SGE(0, 5)}}
		}},
		{status: WCRetryExcErr, gone: true, bad: func(wr *SendWR, a, b *side) {
			*wr = SendWR{Opcode: OpFetchAdd, SGEs: []SGE{a.mr.SGE(8, 8)}, Remote: b.mr.Remote().At(16), CompareAdd: 7}
		}, peer: func(b *side) { ok(t, b.qp.Modify(&QPAttr{State: StateReset}, MaskState)) }},
	} {
		t.Run(c.status.String(), func(t *testing.T) {
			a, b := newPair(t, &QPOptions{MaxSendSGE: 2, MaxSendWR: 16, MaxRecvWR: 8},
				&ConnectOptions{RNRRetry: 1, RNRTimer: RNRTimer(1).Duration(), AckTimeout: TimeCode(8).Duration(),
					RetryCount: 1})
			if !rxe.Emulated && !rxe.Hardware {
				_, err := a.qp.LastPosted(3)
				wantErr(t, err, ErrNotSupported, "libmlx5", "ID")
				return
			}
			known := a.qp.path() == DataPathDirect
			write := func(id uint64) SendWR {
				return SendWR{ID: id, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)},
					Remote: b.mr.Remote().At(id)}
			}
			if p := must(a.qp.LastPosted(9))(t); len(p.Sends)+len(p.Recvs) > 0 {
				t.Errorf("nothing was posted, but there is %v", p)
			}
			recv(t, a.qp, RecvWR{ID: 71, SGEs: []SGE{a.mr.SGE(100, 10)}},
				RecvWR{ID: 72, SGEs: []SGE{a.mr.SGE(200, 20)}})
			var wrs []SendWR
			for range 40 { // the ring comes around
				from := len(wrs)
				for i := range 10 {
					wrs = append(wrs, write(goodID+uint64(from+i)))
				}
				post(t, a.qp, wrs[from:]...)
				for i := range 10 {
					a.good(t, goodID+uint64(from+i))
				}
			}
			if c.peer != nil {
				c.peer(b)
			}
			bad := SendWR{}
			c.bad(&bad, a, b)
			bad.ID, bad.Flags = badID, c.flags
			wrs = append(wrs, bad)
			post(t, a.qp, bad)
			var after []SendWR
			for i := range uint64(3) {
				after = append(after, write(afterID+i))
			}
			outstanding := must(a.qp.LastPosted(1))(t)
			if s := outstanding.Sends[0]; known && s.State != PostedOutstanding {
				t.Errorf("it was not polled: %v", s)
			}
			post(t, a.qp, after...)
			wrs = append(wrs, after...)
			wc := a.next(t)
			if wc.ID != badID || wc.Status != c.status {
				t.Fatalf("%+v, want that %#x fails with %v", wc, badID, c.status)
			}
			we := a.qp.Explain(&wc, 1).(*WCError)
			if e := we.Posted; (e != nil) != known {
				t.Errorf("%v explains nothing", we)
			} else if known && (len(e.Sends) != 3 || e.Sends[1].ID != badID || e.Sends[1].State != PostedFailed) {
				t.Errorf("around it is %v", e)
			}
			for range len(after) + 2 {
				if wc := a.next(t); wc.Status != WCWRFlushErr {
					t.Fatalf("%+v, want a flush", wc)
				}
			}

			p := must(a.qp.LastPosted(6))(t)
			t.Log(p)
			if len(p.Sends) != 6 || len(p.Recvs) != 2 {
				t.Fatalf("%d sends, %d receives", len(p.Sends), len(p.Recvs))
			}
			for i, s := range p.Sends {
				n := len(wrs) - 6 + i
				sent(t, s, &wrs[n], known)
				want := []PostedState{PostedCompleted, PostedCompleted, PostedFailed, PostedFlushed, PostedFlushed,
					PostedFlushed}[i]
				if !known {
					want = PostedUnknown
				}
				if s.State != want || s.Index != uint16(n) {
					t.Errorf("%v, want %v at %d", s, want, n)
				}
				if known && i == 2 && (s.Status != c.status || !strings.Contains(s.String(),
					fmt.Sprintf("%d id 0x2a FAILED with %v", n, c.status))) {
					t.Errorf("%v: it failed with %v", s, c.status)
				}
			}
			for i, r := range p.Recvs {
				state, id := PostedFlushed, uint64(71+i)
				if !known {
					state, id = PostedUnknown, 0
				}
				if r.ID != id || r.State != state || !slices.Equal(r.SGEs, []SGE{a.mr.SGE(100*(i+1), 10*(i+1))}) {
					t.Errorf("receive %d: %+v, want id %d, %v", i, r, id, state)
				}
			}
			// Of all that were posted the ring has the last ones.
			all := must(a.qp.LastPosted(1000))(t).Sends
			if len(all) < 16 || len(all) >= len(wrs) {
				t.Errorf("the ring of 16 has %d of %d", len(all), len(wrs))
			}
			for i, s := range all {
				sent(t, s, &wrs[len(wrs)-len(all)+i], known)
			}
			ok(t, a.qp.Modify(&QPAttr{State: StateReset}, MaskState))
			if p := must(a.qp.LastPosted(9))(t); known && len(p.Sends)+len(p.Recvs) > 0 || len(p.Sends) > 0 {
				t.Errorf("after a reset there is %v", p)
			}
		})
	}
}

// TestRXE_LastPostedAtWork looks at the rings again and again while others post and poll.
func TestRXE_LastPostedAtWork(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	a, b := newPair(t, &QPOptions{MaxSendWR: 16}, nil)
	if !rxe.Emulated && !rxe.Hardware {
		_, err := a.qp.LastPosted(12)
		wantErr(t, err, ErrNotSupported)
		return
	}
	known := a.qp.path() == DataPathDirect
	done := make(chan struct{})
	looks := 0
	go func() {
		defer close(done)
		for last := uint16(0); last < 799; looks++ {
			p, err := a.qp.LastPosted(12)
			if err != nil {
				t.Error(err)
				return
			}
			for i, s := range p.Sends {
				before := &p.Sends[max(i-1, 0)]
				if i > 0 && s.Index != before.Index+1 ||
					s.Opcode != OpWrite || s.Damaged || s.Len() != uint64(s.Index) ||
					known && (s.ID != uint64(s.Index) || s.State == PostedUnknown ||
						before.State == PostedOutstanding && s.State != PostedOutstanding) {
					t.Errorf("look %d: %v", looks, p)
					return
				}
				last = s.Index
			}
		}
	}()
	for i := 0; i < 800; i += 8 {
		var wrs []SendWR
		for k := i; k < i+8; k++ {
			wrs = append(wrs, SendWR{ID: uint64(k), Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, k)},
				Remote: b.mr.Remote().At(0)})
		}
		post(t, a.qp, wrs...)
		for k := i; k < i+8; k++ {
			a.good(t, uint64(k))
		}
	}
	<-done
	t.Logf("%d looks", looks)
}

// sent compares what a ring says with what was posted.
func sent(t *testing.T, s PostedSend, wr *SendWR, known bool) {
	t.Helper()
	id := wr.ID
	if !known {
		id = 0
	}
	if s.ID != id || s.Opcode != wr.Opcode || s.Flags != wr.Flags || !slices.Equal(s.SGEs, wr.SGEs) ||
		s.Remote != wr.Remote || s.Imm != wr.Imm || s.CompareAdd != wr.CompareAdd || s.Damaged || s.InlineLen != 0 {
		t.Errorf("%v\n%+v, want %+v", s, s, wr)
	}
}

// TestRXE_LastPostedRefused asks for what is not there.
func TestRXE_LastPostedRefused(t *testing.T) {
	s := newSide(t, 0, nil)
	qp := must(s.pd.CreateQP(s.cq, s.cq, nil))(t)
	for _, n := range []int{0, -1} {
		_, err := qp.LastPosted(n)
		wantErr(t, err, errInvalid, "n is", "1 or more")
	}
	ok(t, qp.Close())
	_, err := qp.LastPosted(1)
	wantErr(t, err, ErrClosed)
}
