package ibv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_CloseWhilePolled closes QPs with completions that carry their payload,
// while another goroutine polls the CQ. In a process of its own, where the memory
// of rings that are freed is unmapped at once.
func TestRXE_CloseWhilePolled(t *testing.T) {
	testutil.NeedRXE(t)
	inChild(t, "", []string{"MALLOC_MMAP_THRESHOLD_=65536"}, testCloseWhilePolled)
}

func testCloseWhilePolled(t *testing.T) {
	n, rounds, pace := 4096, 6, 2*time.Microsecond // the poller is slow, so that some are left
	if rxe := testutil.NeedRXE(t); !rxe.Emulated {
		n, rounds, pace = 512, 2, 500*time.Microsecond
	}
	const stride = 64
	for _, kind := range []string{"receive", "SRQ", "read", "atomic"} {
		t.Run(kind, func(t *testing.T) {
			rxe := testutil.NeedRXE(t)
			a, b := newSide(t, 0, nil), newSide(t, 1, nil)
			left, all := 0, 0
			for round := 0; round < rounds || left == 0 && round < 20*rounds; round++ { // a busy machine closes late
				acq, bcq := must(a.dev.CreateCQ(n+16, nil))(t), must(b.dev.CreateCQ(n+16, nil))(t)
				oa, ob := &QPOptions{MaxSendWR: n, MaxRecvWR: 16, MaxInline: 16},
					&QPOptions{MaxSendWR: 16, MaxRecvWR: n}
				var srq *SRQ
				post := func(wrs []RecvWR) (int, error) { return srq.PostRecv(wrs) }
				switch kind {
				case "SRQ":
					srq = must(b.pd.CreateSRQ(&SRQOptions{MaxWR: n}))(t)
					ob.SRQ = srq
				case "read", "atomic":
					ob.MaxSendWR, ob.SignalAll, ob.MaxRecvWR = n+1, true, 16
				}
				qa, qb := must(a.pd.CreateQP(acq, acq, oa))(t), must(b.pd.CreateQP(bcq, bcq, ob))(t)
				if srq == nil {
					post = qb.PostRecv
				}
				ea, eb := must(qa.Endpoint(rxe.Port, rxe.GID))(t), must(qb.Endpoint(rxe.Port, rxe.GID))(t)
				ok(t, qa.Connect(eb, nil))
				ok(t, qb.Connect(ea, nil))
				clear(b.mr.Bytes())
				switch kind {
				case "receive", "SRQ":
					rwrs, swrs := make([]RecvWR, n), make([]SendWR, n)
					for i := range rwrs {
						rwrs[i] = RecvWR{ID: uint64(i), SGEs: []SGE{b.mr.SGE(i*stride, 16)}}
						swrs[i] = SendWR{Opcode: OpSend, Inline: binary.NativeEndian.AppendUint64(make([]byte, 8,
							16), uint64(i+1))}
					}
					swrs[n-1].Flags = Signaled
					must(post(rwrs))(t)
					must(qa.PostSend(swrs))(t)
				default:
					wrs := make([]SendWR, n)
					for i := range wrs {
						binary.NativeEndian.PutUint64(a.mr.Bytes()[i*stride+8:], uint64(i+1))
						wrs[i] = SendWR{ID: uint64(i), Opcode: OpRead, SGEs: []SGE{b.mr.SGE(i*stride, 16)},
							Remote: a.mr.Remote().At(uint64(i * stride))}
						if kind == "atomic" {
							wrs[i].Opcode, wrs[i].SGEs, wrs[i].Remote = OpFetchAdd, []SGE{b.mr.SGE(i*stride+8, 8)},
								a.mr.Remote().At(uint64(i*stride+8))
						}
					}
					must(qa.PostRecv([]RecvWR{{ID: 1}}))(t)
					must(qb.PostSend(append(wrs, SendWR{ID: uint64(n), Opcode: OpSend})))(t)
				}
				(&side{dev: a.dev, cq: acq}).next(t) // all has come

				var stop atomic.Bool
				polled, first := uint64(0), make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					var wcs [1]WC
					for !stop.Load() {
						k, err := bcq.Poll(wcs[:])
						if err != nil {
							t.Errorf("poll: %v", err)
							break
						}
						if k == 0 {
							continue
						}
						wc := wcs[0]
						if wc.Status != WCSuccess || wc.ID != polled {
							t.Errorf("completion %d is %+v", polled, wc)
						} else if got := binary.NativeEndian.Uint64(b.mr.Bytes()[wc.ID*stride+8:]); wc.ID < uint64(n) &&
							got != wc.ID+1 {
							t.Errorf("completion %d left %d in its memory", wc.ID, got)
						}
						if polled++; polled == 10 {
							close(first)
						}
						for from := time.Now(); time.Since(from) < pace; {
						}
					}
				})
				<-first
				ok(t, qb.Close())
				stop.Store(true)
				wg.Wait()
				left += n - int(polled)
				all += n
				if k := must(bcq.Poll(make([]WC, 4)))(t); k != 0 {
					t.Errorf("%d completions after Close", k)
				}
				ok(t, qa.Close())
				if srq != nil {
					ok(t, srq.Close())
				}
				ok(t, acq.Close())
				ok(t, bcq.Close())
			}
			t.Logf("%d of %d completions were there when the QP was closed", left, all)
			if left <= 0 {
				t.Error("no completion was left when the QP was closed: nothing was tested")
			}
		})
	}
}

// TestRXE_ResetWhilePosting moves QPs to RESET while others post to them and
// poll: on the next connection everything arrives, in order, and nothing of the
// one before.
func TestRXE_ResetWhilePosting(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if !rxe.Emulated && !rxe.Hardware {
		// Linux 6.1's rxe now and then sends nothing any more on the next connection.
		t.Skip("RESET under traffic stalls SoftRoCE: runs on the emulated device only")
	}
	const rounds = 60
	a, b := newSide(t, 0, nil), newSide(t, 1, nil)
	const depth, messages = 512, 40
	a.newQP(t, &QPOptions{MaxSendWR: depth / 4, MaxInline: 16})
	b.newQP(t, &QPOptions{MaxRecvWR: depth})
	to := b.mr.Remote()
	reset := func(s *side) { ok(t, s.qp.Modify(&QPAttr{State: StateReset}, MaskState)) }
	for round := range rounds {
		connectRXE(t, a.qp, b.qp)
		var (
			stop   atomic.Bool
			wg     sync.WaitGroup
			posted atomic.Int64
		)
		forever := func(what string, f func() error) {
			wg.Go(func() {
				for !stop.Load() {
					err := f()
					var se *StateError
					if err != nil && !errors.Is(err, ErrQueueFull) && !errors.As(err, &se) {
						t.Errorf("%s: %v", what, err)
						return
					}
					posted.Add(1)
				}
			})
		}
		old := []SendWR{
			{ID: 1, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 16)}},
			{ID: 2, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 100)}, Remote: to.At(4096)},
		}
		forever("post send", func() error { _, err := a.qp.PostSend(old); return err })
		q := a.qp.Batch()
		forever("batch", func() error {
			if q.Len() == 0 {
				q.SendInline(3, Signaled, []byte("old"))
				q.Write(4, 0, a.mr.SGE(0, 8), to.At(8192))
			}
			return q.Post()
		})
		receive := []RecvWR{{ID: 5, SGEs: []SGE{b.mr.SGE(16384, 64)}}, {ID: 6, SGEs: []SGE{b.mr.SGE(16448, 64)}}}
		forever("post recv", func() error { _, err := b.qp.PostRecv(receive); return err })
		for _, s := range []*side{a, b} {
			forever("poll", func() error { _, err := s.cq.Poll(make([]WC, 8)); return err })
		}
		for posted.Load() < int64(50+round*7) {
			time.Sleep(10 * time.Microsecond)
		}
		if round%2 == 0 {
			reset(a)
			reset(b)
		} else {
			reset(b)
			reset(a)
		}
		stop.Store(true)
		wg.Wait()
		if t.Failed() {
			return
		}
		for _, s := range []*side{a, b} {
			if n := drain(t, s.cq); n != 0 {
				t.Fatalf("round %d: %d completions after RESET", round, n)
			}
		}
		connectRXE(t, a.qp, b.qp)
		clear(b.mr.Bytes()[:32768])
		var rwrs []RecvWR
		var swrs []SendWR
		for i := range messages {
			fill(a.mr.Bytes()[1024+i*64:][:20], round+i)
			rwrs = append(rwrs, RecvWR{ID: uint64(1000*round + i), SGEs: []SGE{b.mr.SGE(i*64, 64)}})
			swrs = append(swrs, SendWR{ID: uint64(1000*round + i), Opcode: OpSend, Flags: Signaled,
				SGEs: []SGE{a.mr.SGE(1024+i*64, 20)}})
		}
		recv(t, b.qp, rwrs...)
		post(t, a.qp, swrs...)
		for i := range messages {
			a.good(t, uint64(1000*round+i))
			b.good(t, uint64(1000*round+i))
			same(t, b.mr.Bytes()[i*64:][:20], round+i)
		}
		for i, v := range b.mr.Bytes()[4096:32768] {
			if v != 0 {
				t.Fatalf("round %d: byte %d was written by the connection before", round, 4096+i)
			}
		}
		for _, s := range []*side{a, b} {
			if n := drain(t, s.cq); n != 0 {
				t.Fatalf("round %d: %d completions more", round, n)
			}
			reset(s)
		}
	}
}

// carried makes one completion at b whose payload of 16 or 8 bytes may be in it, for memory of mr from off on.
func carried(t testing.TB, kind string, a, b *side, srq *SRQ, mr *MR, off int, id uint64) {
	t.Helper()
	n := 16
	switch kind {
	case "receive", "SRQ":
		wrs := []RecvWR{{ID: id, SGEs: []SGE{mr.SGE(off, n)}}}
		if srq != nil {
			must(srq.PostRecv(wrs))(t)
		} else {
			recv(t, b.qp, wrs...)
		}
		post(t, a.qp, SendWR{ID: 500, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, n)}})
		a.good(t, 500)
		return
	case "read":
		post(t, b.qp, SendWR{ID: id, Opcode: OpRead, SGEs: []SGE{mr.SGE(off, n)}, Remote: a.mr.Remote().At(0)})
	case "atomic":
		post(t, b.qp, SendWR{ID: id, Opcode: OpFetchAdd, SGEs: []SGE{mr.SGE(off, 8)}, Remote: a.mr.Remote().At(0)})
	}
	// What comes after it at the other end says that it is done.
	recv(t, a.qp, RecvWR{ID: 501})
	post(t, b.qp, SendWR{ID: id + 1, Opcode: OpSend})
	a.good(t, 501)
}

// TestRXE_MRClosedBeforePoll closes MRs, whose QP is in ERR, before completions
// that carry payload for them are polled. Their memory, where it is still there,
// has the payload; whoever got the memory meanwhile does not.
func TestRXE_MRClosedBeforePoll(t *testing.T) {
	for _, kind := range []string{"receive", "SRQ", "read", "atomic"} {
		t.Run(kind, func(t *testing.T) {
			a, b := newSide(t, 0, nil), newSide(t, 1, nil)
			opt := &QPOptions{SignalAll: true}
			var srq *SRQ
			if kind == "SRQ" {
				srq = closing(t, must(b.pd.CreateSRQ(nil))(t))
				opt.SRQ = srq
			}
			b.newQP(t, opt)
			a.newQP(t, nil)
			fill(a.mr.Bytes()[:16], 9)
			want := slices.Clone(a.mr.Bytes()[:16])
			if kind == "atomic" {
				want = want[:8]
			}
			check := func(id uint64) {
				t.Helper()
				b.good(t, id)
				for wc := (WC{}); kind == "read" || kind == "atomic"; { // that of the send
					if wc = b.next(t); wc.ID == id+1 {
						break
					}
					t.Errorf("%+v, want %d", wc, id+1)
				}
				if n := drain(t, b.cq); n != 0 {
					t.Errorf("%d completions more", n)
				}
			}
			fail := func() { ok(t, b.qp.Modify(&QPAttr{State: StateErr}, MaskState)) }

			for i := range 3 {
				// A slice stays, whatever becomes of its registration.
				connectRXE(t, a.qp, b.qp)
				slice := make([]byte, 4096)
				mr := must(b.pd.RegMR(slice, LocalWrite))(t)
				copy(a.mr.Bytes(), want)
				carried(t, kind, a, b, srq, mr, 100, 7)
				fail()
				ok(t, mr.Close())
				check(7)
				if got := slice[100:][:len(want)]; !slices.Equal(got, want) {
					t.Errorf("round %d: the slice has % x, want % x", i, got, want)
				}
				reconnect(t, a, b)

				// Memory that goes with the MR, and then is another one's.
				mine := must(b.pd.AllocMR(4096, LocalWrite, nil))(t)
				at := mine.Addr()
				copy(a.mr.Bytes(), want)
				carried(t, kind, a, b, srq, mine, 200, 17)
				fail()
				ok(t, mine.Close())
				var others []*MR
				for len(others) == 0 || others[len(others)-1].Addr() != at && len(others) < 64 {
					m := must(b.pd.AllocMR(4096, LocalWrite, nil))(t)
					fill(m.Bytes(), 33)
					others = append(others, m)
				}
				if others[len(others)-1].Addr() != at {
					t.Logf("round %d: no other MR got the memory", i)
				}
				check(17)
				for _, m := range others {
					same(t, m.Bytes(), 33)
					ok(t, m.Close())
				}
				for _, s := range []*side{a, b} {
					ok(t, s.qp.Modify(&QPAttr{State: StateReset}, MaskState))
				}
			}
		})
	}
}

func TestRXE_HeldCompletions(t *testing.T) {
	a, b := newSide(t, 0, nil), newSide(t, 1, nil)
	testHeld(t, a, b, func(x, y *QP) { connectRXE(t, x, y) })
}

func TestFake_HeldCompletions(t *testing.T) {
	a := fakeSide(t, nil)
	b := &side{dev: a.dev}
	b.more(t, nil)
	testHeld(t, a, b, func(x, y *QP) { connect(t, x, y) })
}

// testHeld sees that completions which MR.Close took out of the CQ come first, in
// their order, once, by Poll and by Wait, and that they go when their QP is closed
// or reset.
func testHeld(t *testing.T, a, b *side, connect func(x, y *QP)) {
	t.Helper()
	one := func() (x, y *QP) {
		t.Helper()
		x, y = must(a.pd.CreateQP(a.cq, a.cq, nil))(t), must(b.pd.CreateQP(b.cq, b.cq, nil))(t)
		connect(x, y)
		return x, y
	}
	hold := func() {
		t.Helper()
		ok(t, must(a.pd.AllocMR(64, LocalWrite, nil))(t).Close())
	}
	id := uint64(0)
	send := func(x, y *QP, n int) {
		t.Helper()
		for range n {
			id++
			recv(t, y, RecvWR{ID: id, SGEs: []SGE{b.mr.SGE(int(id)*64, 64)}})
			fill(a.mr.Bytes()[int(id)*64:][:24], int(id))
			post(t, x, SendWR{ID: id, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(int(id)*64, 24)}})
			b.good(t, id)
			same(t, b.mr.Bytes()[int(id)*64:][:24], int(id))
		}
	}
	poll := func(size int, want ...uint64) {
		t.Helper()
		var got []uint64
		end := time.Now().Add(testutil.Patience)
		for wcs := make([]WC, size); len(got) < len(want) && time.Now().Before(end); {
			n := must(a.cq.Poll(wcs))(t)
			if n == 0 {
				time.Sleep(100 * time.Microsecond) // the receiver's completion may have come before this end's
			}
			for _, wc := range wcs[:n] {
				ok(t, wc.Err())
				got = append(got, wc.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("completions of %v, want %v", got, want)
		}
	}
	x, y := one()
	for _, size := range []int{1, 2, 3, 64} {
		from := id
		send(x, y, 3)
		hold()
		send(x, y, 2)
		hold()
		send(x, y, 2)
		ids := []uint64{}
		for k := from + 1; k <= id; k++ {
			ids = append(ids, k)
		}
		poll(size, ids...)
		if n := drain(t, a.cq); n != 0 {
			t.Fatalf("%d completions more", n)
		}
	}
	send(x, y, 2)
	hold()
	a.good(t, id-1) // by Wait
	a.good(t, id)
	send(x, y, 100) // more than are taken at once
	hold()
	for k := id - 99; k <= id; k++ {
		a.good(t, k)
	}

	// A slice of no length takes nothing.
	send(x, y, 1)
	hold()
	if n, err := a.cq.Poll(nil); n != 0 || err != nil {
		t.Errorf("Poll(nil): %d, %v", n, err)
	}
	poll(4, id)

	// Held completions of the QP are dropped, those of others are kept.
	for i, end := range []func(qp *QP){
		func(qp *QP) { ok(t, qp.Close()) },
		func(qp *QP) { ok(t, qp.Modify(&QPAttr{State: StateReset}, MaskState)) },
	} {
		u, v := one()
		send(x, y, 1)
		send(u, v, 2)
		hold()
		send(x, y, 1)
		send(u, v, 1)
		mine := []uint64{id - 4, id - 1}
		end(u)
		poll(1+i, mine...)
		if n := drain(t, a.cq); n != 0 {
			t.Errorf("%d completions of a QP that has ended", n)
		}
		ok(t, u.Close())
		ok(t, v.Close())
	}
	ok(t, x.Close())
	ok(t, y.Close())
}

// TestRXE_HeldError sees that a corrupt completion which MR.Close met is told by
// Poll, in its place.
func TestRXE_HeldError(t *testing.T) {
	a, b := newSide(t, 0, nil), newSide(t, 1, nil)
	if path, _ := a.cq.DataPath(); path != DataPathDirect {
		t.Skip("libmlx5 or the kernel finds what is corrupt: runs on the direct data path only")
	}
	x, y := must(a.pd.CreateQP(a.cq, a.cq, nil))(t), must(a.pd.CreateQP(a.cq, a.cq, nil))(t)
	u, v := must(b.pd.CreateQP(b.cq, b.cq, nil))(t), must(b.pd.CreateQP(b.cq, b.cq, nil))(t)
	connectRXE(t, x, u)
	connectRXE(t, y, v)
	for i, qp := range []*QP{y, x, y} {
		peer := v
		if qp == x {
			peer = u
		}
		recv(t, peer, RecvWR{ID: 9})
		post(t, qp, SendWR{ID: uint64(i), Opcode: OpSend, Flags: Signaled})
		b.good(t, 9)
	}
	a.dev.direct.qps.Remove(x.sq.direct) // its completion now names no QP
	ok(t, must(a.pd.AllocMR(64, LocalWrite, nil))(t).Close())
	a.dev.direct.qps.Add(x.sq.direct)
	var got []string
	for len(got) < 3 {
		var wcs [8]WC
		n, err := a.cq.Wait(timeout(t), wcs[:])
		var ce *CompletionError
		if err != nil && !errors.As(err, &ce) {
			t.Fatal(err)
		}
		if err != nil {
			got = append(got, "corrupt")
		}
		for _, wc := range wcs[:n] {
			got = append(got, fmt.Sprint(wc.ID))
		}
	}
	if want := []string{"0", "corrupt", "2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n := drain(t, a.cq); n != 0 {
		t.Errorf("%d completions more", n)
	}
	for _, qp := range []*QP{x, y, u, v} {
		ok(t, qp.Close())
	}
}
