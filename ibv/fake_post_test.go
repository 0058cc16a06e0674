package ibv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// promptly fails the test if f does not return.
func promptly(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(testutil.Patience):
		t.Fatalf("%s does not return", what)
	}
}

// Code between building and Post that panics leaves nothing locked: the QP is
// closed, used and built for as before.
func TestFake_PanicWhileBuilding(t *testing.T) {
	s := fakeLoop(t, nil, nil)
	build := func(qp *QP, close bool) (recovered any) {
		defer func() { recovered = recover() }()
		if close {
			defer func() { ok(t, qp.Close()) }()
		}
		b := qp.Batch()
		bufs := []SGE{s.mr.SGE(0, 8)}
		for i := range 2 {
			b.Write(uint64(i), Signaled, bufs[i], s.mr.Remote().At(4096))
		}
		ok(t, b.Post())
		return nil
	}
	promptly(t, "a QP that another batch was being built for", func() {
		if build(s.qp, false) == nil {
			t.Error("no panic")
		}
		post(t, s.qp, write(s, 3, Signaled))
		s.good(t, 3)
		b := s.qp.Batch()
		b.Write(4, Signaled, s.mr.SGE(0, 8), s.mr.Remote().At(4096))
		ok(t, b.Post())
		s.good(t, 4)
	})
	promptly(t, "Close", func() {
		if build(s.qp, true) == nil {
			t.Error("no panic")
		}
	})
}

// While a Batch is being built, everybody posts, the one who builds too.
func TestFake_PostWhileBuilding(t *testing.T) {
	s := fakeLoop(t, nil, nil)
	promptly(t, "posting while a batch is being built", func() {
		first, second := s.qp.Batch(), s.qp.Batch()
		to := s.mr.Remote().At(4096)
		first.Write(1, Signaled, s.mr.SGE(0, 8), to)
		post(t, s.qp, write(s, 2, Signaled))
		second.Write(3, Signaled, s.mr.SGE(0, 8), to)
		first.Write(4, Signaled, s.mr.SGE(0, 8), to)
		recv(t, s.qp, RecvWR{ID: 9})
		ok(t, second.Post())
		ok(t, first.Post())
		for _, id := range []uint64{2, 3, 1, 4} {
			s.good(t, id)
		}
		first.Write(5, Signaled, s.mr.SGE(0, 8), to) // and is never posted
		ok(t, s.qp.Modify(&QPAttr{State: StateReset}, MaskState))
	})
}

// TestFake_BatchMistakes: Post reports a zero Batch, and an Add of nil.
func TestFake_BatchMistakes(t *testing.T) {
	s := fakeLoop(t, nil, nil)
	var (
		none Batch
		pe   *PostError
		ae   *ArgError
	)
	if err := none.Post(); !errors.As(err, &pe) || !errors.As(err, &ae) || ae.Arg != "Batch" {
		t.Errorf("the zero Batch: %v", err)
	}
	none.Write(1, 0, s.mr.SGE(0, 8), s.mr.Remote().At(0))
	none.SendInline(2, 0, nil)
	none.LocalInv(3, 0, 4)
	none.Add(&SendWR{SGEs: make([]SGE, 3)})
	none.Add(nil)
	if err := none.Post(); !errors.As(err, &pe) || !errors.As(err, &ae) || none.Len() != 4 {
		t.Errorf("the zero Batch with %d work requests: %v", none.Len(), err)
	}
	none.Reset()

	b := s.qp.Batch()
	ok(t, b.Post()) // nothing is nothing to complain of
	b.Write(1, Signaled, s.mr.SGE(0, 8), s.mr.Remote().At(0))
	b.Add(nil)
	b.Write(2, Signaled, s.mr.SGE(0, 8), s.mr.Remote().At(0))
	for range 2 { // it stays so until it is built again
		if err := b.Post(); !errors.As(err, &pe) || !errors.As(err, &ae) || ae.Arg != "wr" || pe.Accepted != 0 ||
			b.Len() != 2 {
			t.Errorf("Add(nil): %v, and %d stay", err, b.Len())
		}
	}
	b.Reset()
	b.Write(3, Signaled, s.mr.SGE(0, 8), s.mr.Remote().At(0))
	ok(t, b.Post())
	s.good(t, 3)
	if n := drain(t, s.cq); n != 0 {
		t.Errorf("%d completions more", n)
	}
}

// Every range that MR.SGE and RemoteMemory.At are asked for is either exactly
// that, or refused by each post with what was asked.
func TestFake_Bounds(t *testing.T) {
	s := fakeLoop(t, nil, nil)
	const size, big = testMRSize, 1 << 62
	large := MR{length: 5 << 30, iova: s.mr.iova, lkey: s.mr.lkey, rkey: s.mr.rkey} // which is only described
	for _, c := range []struct {
		mr     *MR
		off, n int
		bad    string // what the error names
	}{
		{s.mr, 0, size, ""}, {s.mr, 0, 0, ""}, {s.mr, size, 0, ""}, {s.mr, size - 1, 1, ""}, {s.mr, 1, size - 1, ""},
		{s.mr, size, 1, fmt.Sprintf("MR.SGE(%d, 1)", size)},
		{s.mr, size + 1, 0, fmt.Sprintf("MR.SGE(%d, 0)", size+1)},
		{s.mr, 1, size, fmt.Sprintf("MR.SGE(1, %d)", size)},
		{s.mr, -1, 1, "MR.SGE(-1, 1)"},
		{s.mr, -big, 1, fmt.Sprintf("MR.SGE(%d, 1)", -big)},
		{s.mr, 5, -1, "MR.SGE(5, a negative length)"},
		{s.mr, -8, -8, "MR.SGE(-8, a negative length)"},
		{s.mr, big, big, fmt.Sprintf("MR.SGE(%d, 4 GiB or more)", big)},
		{s.mr, -1, size + 1, fmt.Sprintf("MR.SGE(-1, %d)", size+1)},
		{&large, 0, MaxSGELength, ""}, {&large, 3 << 30, MaxSGELength, ""},
		{&large, 0, 1 << 31, "MR.SGE(0, 2147483648)"},
		{&large, 7, 3 << 30, "MR.SGE(7, 3221225472)"},
		{&large, 0, 1<<32 - 1, "MR.SGE(0, 4 GiB or more)"},
		{&large, 0, 1 << 32, "MR.SGE(0, 4 GiB or more)"},
		{&large, 0, 1<<32 + 8, "MR.SGE(0, 4 GiB or more)"},
		{&large, 4<<30 + 1, MaxSGELength, fmt.Sprintf("MR.SGE(%d, %d)", 4<<30+1, MaxSGELength)},
	} {
		sge := c.mr.SGE(c.off, c.n)
		if c.bad == "" {
			if want := (SGE{Addr: c.mr.iova + uint64(c.off), Length: uint32(c.n), LKey: c.mr.lkey}); sge != want {
				t.Errorf("SGE(%d, %d) is %+v, want %+v", c.off, c.n, sge, want)
			}
			continue
		}
		b := s.qp.Batch()
		b.Write(1, 0, sge, s.mr.Remote().At(0))
		_, serr := s.qp.PostSend([]SendWR{{Opcode: OpSend, SGEs: []SGE{sge}}})
		_, rerr := s.qp.PostRecv([]RecvWR{{SGEs: []SGE{sge}}})
		for _, err := range []error{serr, rerr, b.Post()} {
			var ae *ArgError
			if !errors.As(err, &ae) || ae.Got != c.bad || ae.Arg != "SGE 0" {
				t.Errorf("SGE(%d, %d): %v, want %s", c.off, c.n, err, c.bad)
			}
		}
	}
	for _, n := range []uint32{1 << 31, 1<<31 + 1, 1<<32 - 1} { // by hand
		_, err := s.qp.PostSend([]SendWR{{Opcode: OpSend,
			SGEs: []SGE{{Addr: s.mr.Addr(), Length: n, LKey: s.mr.LKey()}}}})
		var le *LimitError
		if !errors.As(err, &le) || le.Asked != uint64(n) || le.Limit != MaxSGELength {
			t.Errorf("an SGE of %d bytes: %v", n, err)
		}
	}

	rem := s.mr.Remote()
	unknown := RemoteMemory{Addr: rem.Addr, RKey: rem.RKey}
	for _, c := range []struct {
		mem RemoteMemory
		off uint64
		bad bool
	}{
		{rem, 0, false}, {rem, size, false}, {rem, size + 1, true}, {rem, 1<<64 - 1, true},
		{unknown, 0, false}, {unknown, size + 1, false},
	} {
		at := c.mem.At(c.off)
		if at.Addr != c.mem.Addr+c.off || at.RKey != c.mem.RKey {
			t.Errorf("At(%d) is %+v", c.off, at)
		}
		wr := SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 0)}, Remote: at}
		_, err := s.qp.PostSend([]SendWR{wr})
		var ae *ArgError
		if c.bad != (errors.As(err, &ae) && ae.Arg == "Remote") || !c.bad && err != nil {
			t.Errorf("At(%d): %v", c.off, err)
		}
		drain(t, s.cq)
	}
}

func TestFake_BatchReuse(t *testing.T) {
	for seed := range uint64(20) {
		opt := &QPOptions{MaxSendWR: 16, MaxRecvWR: 128, MaxInline: 64, MaxSendSGE: 3, MaxRecvSGE: 1}
		a, b := fakePair(t, opt)
		c, d := fakePair(t, opt)
		testBatchReuse(t, seed, 7, false, func() uint64 { return 0 }, [2]*side{a, b}, [2]*side{c, d})
	}
}

var batchOps = []Opcode{OpSend, OpSendImm, OpWrite, OpWriteImm, OpRead, OpCompareSwap, OpFetchAdd}

// testBatchReuse posts random work requests on two pairs of QPs, on the first by
// one Batch that is used for all, on the other by PostSend: everything that comes
// of it is the same. Batches are often larger than the queue. With resent, reads
// are of what nothing writes: a response that was lost, or came too late, is read
// again, after the writes that were posted behind it. repeats counts requests that
// came twice, or before an earlier one. SoftRoCE then completes reads and atomics
// without their results now and then, which are not compared: it takes the ACK of a
// repeated request, or a NAK, for their response (check_ack in rxe_comp.c).
func testBatchReuse(t *testing.T, seed uint64, flags SendFlags, resent bool, repeats func() uint64, batch,
	plain [2]*side) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 11))
	pairs := [2][2]*side{batch, plain}
	for _, p := range pairs {
		for i, s := range p {
			fill(s.mr.Bytes()[:4096], int(seed)+i)
		}
	}
	b := batch[0].qp.Batch()
	id, repeated := uint64(0), repeats()
	for range 60 {
		var wrs [2][]SendWR
		recvs := 0
		for range 1 + r.IntN(40) {
			id++
			wr := SendWR{ID: id, Opcode: batchOps[r.IntN(len(batchOps))], Flags: Signaled | SendFlags(r.IntN(8))&flags,
				Imm: r.Uint32(), CompareAdd: r.Uint64(), Swap: r.Uint64()}
			at := uint64(1024 + 8*r.IntN(64))
			if resent && wr.Opcode == OpRead {
				at += 2048
			}
			var ranges [][2]int
			n, get := r.IntN(4), wr.Opcode == OpRead
			switch {
			case wr.Opcode == OpCompareSwap || wr.Opcode == OpFetchAdd:
				ranges = [][2]int{{2048 + 8*r.IntN(16), 8}}
			case n == 0 && !get:
				wr.Inline = make([]byte, r.IntN(65))
				fill(wr.Inline, int(id))
			default:
				for k := range max(n, 1) {
					ranges = append(ranges, [2]int{map[bool]int{true: 2048, false: 64}[get] + k*64 +
						r.IntN(8), r.IntN(50)})
				}
				if r.IntN(3) == 0 {
					for k := range ranges {
						ranges[k][1] /= 3
					}
					if !get {
						wr.Flags |= Inline
					}
				}
			}
			switch wr.Opcode {
			case OpSend, OpSendImm, OpWriteImm:
				recvs++
			}
			for i, p := range pairs {
				w := wr
				for _, x := range ranges {
					w.SGEs = append(w.SGEs, p[0].mr.SGE(x[0], x[1]))
				}
				w.Remote = p[1].mr.Remote().At(at)
				wrs[i] = append(wrs[i], w)
			}
		}
		for _, p := range pairs {
			for k := range recvs {
				recv(t, p[1].qp, RecvWR{ID: id<<8 + uint64(k), SGEs: []SGE{p[1].mr.SGE(8192+k*256, 256)}})
			}
		}
		var got [2][2][]WC // of both ends of both pairs
		take := func(i int) {
			for e, s := range pairs[i] {
				var wcs [16]WC
				for {
					n := must(s.cq.Poll(wcs[:]))(t)
					for _, wc := range wcs[:n] {
						ok(t, wc.Err())
						wc.QPN, wc.SrcQPN, wc.Timestamp = 0, 0, 0
						if wc.Opcode.IsRecv() {
							wc.Flags, wc.PKeyIndex, wc.SLID, wc.SL, wc.DLIDPathBits = wc.Flags&WCWithImm, 0, 0, 0, 0
						}
						got[i][e] = append(got[i][e], wc)
					}
					if n == 0 {
						break
					}
				}
			}
		}
		for k := range wrs[0] {
			wr := wrs[0][k]
			wr.Inline, wr.SGEs = slices.Clone(wr.Inline), slices.Clone(wr.SGEs)
			addTo(b, &wr, r.IntN(4) == 0)
			for j := range wr.Inline {
				wr.Inline[j] = 0xee
			}
			clear(wr.SGEs)
		}
		patience := time.Now().Add(testutil.Patience)
		grown := 0
		for left := len(wrs[0]); left > 0; {
			err := b.Post()
			n := left
			var pe *PostError
			if err != nil {
				if !errors.Is(err, ErrQueueFull) || !errors.As(err, &pe) || pe.Total != left {
					t.Fatalf("seed %d: %d of %d: %v", seed, left, len(wrs[0]), err)
				}
				n = pe.Accepted
			}
			if left -= n; b.Len() != left || time.Now().After(patience) {
				t.Fatalf("seed %d: %d work requests are left in the batch, want %d: %v", seed, b.Len(), left, err)
			}
			if left > 0 && grown < 2 && r.IntN(4) == 0 { // grow one that is partly posted
				grown++
				for range r.IntN(60) {
					id++
					extra := [2]SendWR{}
					for i, p := range pairs {
						extra[i] = SendWR{ID: id, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{p[0].mr.SGE(3, 5)},
							Remote: p[1].mr.Remote().At(1000)}
						wrs[i] = append(wrs[i], extra[i])
					}
					addTo(b, &extra[0], false)
					left++
				}
			}
			take(0)
		}
		for todo := wrs[1]; len(todo) > 0; {
			n, err := plain[0].qp.PostSend(todo)
			if err != nil && !errors.Is(err, ErrQueueFull) || time.Now().After(patience) {
				t.Fatal(err)
			}
			todo = todo[n:]
			take(1)
		}
		for i := range pairs {
			for len(got[i][0]) < len(wrs[i]) || len(got[i][1]) < recvs {
				take(i)
				if time.Now().After(patience) {
					t.Fatalf("seed %d: %d and %d completions, want %d and %d; next is that of %+v", seed,
						len(got[i][0]),
						len(got[i][1]), len(wrs[i]), recvs,
						wrs[i][min(len(got[i][0]), len(wrs[i])-1)])
				}
			}
		}
		if n := repeats(); n != repeated {
			repeated = n
			copy(batch[0].mr.Bytes()[2048:2304], plain[0].mr.Bytes()[2048:2304]) // the results
		}
		for e := range 2 {
			if !slices.Equal(got[0][e], got[1][e]) {
				t.Fatalf("seed %d: completions of end %d\nby Batch    %+v\nby PostSend %+v", seed, e,
					got[0][e], got[1][e])
			}
			if x, y := batch[e].mr.Bytes(), plain[e].mr.Bytes(); !bytes.Equal(x[:32768], y[:32768]) {
				at := 0
				for x[at] == y[at] {
					at++
				}
				t.Fatalf("seed %d: the memories of end %d differ from byte %d on: by Batch %x, by PostSend %x; work "+
					"requests %+v", seed, e, at, x[at:at+16], y[at:at+16], wrs[0])
			}
		}
	}
}

// addTo adds a work request by the method that says it, or by Add.
func addTo(b *Batch, wr *SendWR, add bool) {
	inline := wr.Inline != nil && len(wr.SGEs) == 0
	if add || !inline && len(wr.SGEs) != 1 || inline && wr.Opcode != OpSend && wr.Opcode != OpWrite {
		b.Add(wr)
		return
	}
	s := firstSGE(wr.SGEs)
	switch wr.Opcode {
	case OpSend:
		if inline {
			b.SendInline(wr.ID, wr.Flags, wr.Inline)
		} else {
			b.Send(wr.ID, wr.Flags, s)
		}
	case OpSendImm:
		b.SendImm(wr.ID, wr.Flags, s, wr.Imm)
	case OpWrite:
		if inline {
			b.WriteInline(wr.ID, wr.Flags, wr.Inline, wr.Remote)
		} else {
			b.Write(wr.ID, wr.Flags, s, wr.Remote)
		}
	case OpWriteImm:
		b.WriteImm(wr.ID, wr.Flags, s, wr.Remote, wr.Imm)
	case OpRead:
		b.Read(wr.ID, wr.Flags, s, wr.Remote)
	case OpCompareSwap:
		b.CompareSwap(wr.ID, wr.Flags, s, wr.Remote, wr.CompareAdd, wr.Swap)
	case OpFetchAdd:
		b.FetchAdd(wr.ID, wr.Flags, s, wr.Remote, wr.CompareAdd)
	default:
		panic(wr.Opcode)
	}
}

// A completion that MR.Close takes out of the CQ wakes who waits for it: the device may give no event for what is
// taken.
func TestFake_HeldWakes(t *testing.T) {
	s := fakeLoop(t, nil, nil)
	w := s.cq.sleepers.join()
	defer s.cq.sleepers.part(w)
	post(t, s.qp, write(s, 1, Signaled))
	ok(t, must(s.pd.AllocMR(4096, LocalWrite, nil))(t).Close())
	select {
	case <-w.ch:
	default:
		t.Error("who waits was not woken")
	}
	s.good(t, 1)
}

// What posts to a closed QP must not read its state, which lies in memory that libibverbs has freed.
func TestFake_PostClosed(t *testing.T) {
	s := fakeSide(t, nil)
	qp := must(s.pd.CreateQP(s.cq, s.cq, nil))(t)
	b := qp.Batch()
	b.Send(1, Signaled, s.mr.SGE(0, 8))
	ok(t, qp.Close())
	qp.handle = 0 // reading the state ends the test
	for name, post := range map[string]func() error{
		"PostSend":         func() error { _, err := qp.PostSend([]SendWR{{Opcode: OpSend}}); return err },
		"PostSend nothing": func() error { _, err := qp.PostSend(nil); return err },
		"PostRecv":         func() error { _, err := qp.PostRecv([]RecvWR{{}}); return err },
		"Batch":            b.Post,
	} {
		if err := post(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}
