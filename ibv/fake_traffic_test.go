package ibv

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

func TestFake_Devices(t *testing.T) {
	leavesNothing(t)
	devs := must(Devices())(t)
	if len(devs) != 2 || devs[1].Name != "fake1" || devs[1].Index != 8 || devs[1].GUID != 0x0002c90300000001 ||
		devs[1].NodeType != NodeCA {
		t.Fatalf("devices %+v", devs)
	}
	for _, open := range []func() (*Device, error){
		func() (*Device, error) { return Open("fake1") },
		func() (*Device, error) { return OpenIndex(1) },
		func() (*Device, error) { return OpenGUID(devs[1].GUID) },
		devs[1].Open,
	} {
		d := must(open())(t)
		if d.Name() != "fake1" || d.GUID() != devs[1].GUID || d.NumCompVectors() != 2 {
			t.Errorf("opened %s %v", d.Name(), d.GUID())
		}
		ok(t, d.Close())
	}
	d := must(Open(""))(t)
	ok(t, d.Close())
	_, err := Open("nothing")
	wantErr(t, err, ErrNoDevice, "nothing", "fake0, fake1")
}

func TestFake_Queries(t *testing.T) {
	s := fakeSide(t, nil)
	a := must(s.dev.QueryDevice())(t)
	if a.FirmwareVersion != "1.2.3" || a.MaxQPWR != 4096 || a.PhysPortCnt != 2 || a.NodeGUID != s.dev.GUID() ||
		a.Ex == nil || a.Ex.HCACoreClockKHz != 1000000 {
		t.Errorf("device %+v", a)
	}
	p := must(s.dev.QueryPort(1))(t)
	if p.State != PortActive || p.LinkLayer != LinkEthernet || p.ActiveMTU != MTU4096 || p.GIDTableLen != 8 {
		t.Errorf("port %+v", p)
	}
	if p := must(s.dev.QueryPort(2))(t); p.State != PortDown {
		t.Errorf("port 2 %+v", p)
	}
	table := must(s.dev.GIDTable())(t)
	back := must(s.dev.gidTableFallback())(t)
	if len(table) != 4 || len(back) != 4 {
		t.Fatalf("%d entries, %d one by one", len(table), len(back))
	}
	for i := range table {
		if table[i] != back[i] {
			t.Errorf("entry %+v, by itself %+v", table[i], back[i])
		}
	}
	if e := table[1]; e.Port != 1 || e.Index != 1 || e.GID.Addr().String() != "10.8.0.1" || e.Type != GIDTypeRoCEv2 {
		t.Errorf("entry %+v", e)
	}
	_, err := s.dev.QueryGIDEntry(1, 5)
	wantErr(t, err, ErrNotFound, "fake0/1", "index 5")
	if g := must(s.dev.QueryGID(1, 5))(t); !g.IsZero() {
		t.Errorf("empty entry %v", g)
	}
	if i := must(s.dev.PKeyIndex(1, 0xffff))(t); i != 0 {
		t.Errorf("pkey index %d", i)
	}
}

func TestFake_Write(t *testing.T) {
	a, b := fakePair(t, &QPOptions{MaxInline: 64, MaxSendSGE: 4})
	buf := a.mr.Bytes()
	fill(buf[:8192], 3)
	post(t, a.qp, SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 100), a.mr.SGE(100, 4000)},
		Remote: b.mr.Remote().At(512)})
	if wc := a.good(t, 1); wc.Opcode != WCWrite || wc.QPN != a.qp.Num() {
		t.Errorf("completion %+v", wc)
	}
	same(t, b.mr.Bytes()[512:512+4100], 3)

	inline := []byte("copied at once")
	post(t, a.qp, SendWR{ID: 2, Opcode: OpWrite, Flags: Signaled, Inline: inline, Remote: b.mr.Remote().At(0)})
	a.good(t, 2)
	if got := string(b.mr.Bytes()[:len(inline)]); got != string(inline) {
		t.Errorf("inline %q", got)
	}

	recv(t, b.qp, RecvWR{ID: 9})
	post(t, a.qp, SendWR{ID: 3, Opcode: OpWriteImm, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)},
		Remote: b.mr.Remote().At(8192), Imm: 0xdeadbeef})
	a.good(t, 3)
	if wc := b.good(t, 9); wc.Opcode != WCRecvImm || wc.Imm != 0xdeadbeef || wc.Flags != WCWithImm || wc.ByteLen != 8 {
		t.Errorf("receive %+v", wc)
	}

	binary.NativeEndian.PutUint64(b.mr.Bytes()[64:], 40)
	post(t, a.qp,
		SendWR{ID: 4, Opcode: OpFetchAdd, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}, Remote: b.mr.Remote().At(64),
			CompareAdd: 2},
		SendWR{ID: 5, Opcode: OpCompareSwap, Flags: Signaled, SGEs: []SGE{a.mr.SGE(8, 8)}, Remote: b.mr.Remote().At(64),
			CompareAdd: 42, Swap: 7},
		SendWR{ID: 6, Opcode: OpRead, Flags: Signaled, SGEs: []SGE{a.mr.SGE(16, 8)}, Remote: b.mr.Remote().At(64)})
	for id := uint64(4); id <= 6; id++ {
		a.good(t, id)
	}
	for i, want := range []uint64{40, 42, 7} {
		if got := binary.NativeEndian.Uint64(buf[8*i:]); got != want {
			t.Errorf("result %d is %d, want %d", i, got, want)
		}
	}
}

func TestFake_Batch(t *testing.T) {
	a, b := fakePair(t, &QPOptions{MaxInline: 64, MaxRecvSGE: 2})
	fill(a.mr.Bytes()[:4096], 5)
	for i := range uint64(4) {
		recv(t, b.qp, RecvWR{ID: i, SGEs: []SGE{b.mr.SGE(int(i)*1024, 500), b.mr.SGE(int(i)*1024+500, 524)}})
	}
	to := b.mr.Remote()
	ba := a.qp.Batch()
	ba.Send(10, 0, a.mr.SGE(0, 600))
	ba.SendImm(11, 0, a.mr.SGE(0, 1024), 77)
	ba.SendInv(12, 0, a.mr.SGE(0, 4), 0x1234)
	ba.SendInline(13, 0, []byte{1, 2, 3})
	ba.Write(14, 0, a.mr.SGE(0, 64), to.At(8192))
	ba.WriteInline(15, 0, []byte("inline"), to.At(16384))
	ba.Read(16, 0, a.mr.SGE(32768, 64), to.At(8192))
	ba.FetchAdd(17, 0, a.mr.SGE(65536, 8), to.At(128*1024), 9)
	ba.CompareSwap(18, Signaled, a.mr.SGE(65544, 8), to.At(128*1024), 9, 10)
	if ba.Len() != 9 {
		t.Errorf("%d work requests in the batch", ba.Len())
	}
	ok(t, ba.Post())
	a.good(t, 18)
	for i, want := range []struct {
		n, imm, inv uint32
		flags       WCFlags
	}{{n: 600}, {n: 1024, imm: 77, flags: WCWithImm}, {n: 4, inv: 0x1234, flags: WCWithInv}, {n: 3}} {
		wc := b.good(t, uint64(i))
		if wc.ByteLen != want.n || wc.Imm != want.imm || wc.InvalidatedRKey != want.inv || wc.Flags != want.flags {
			t.Errorf("receive %d: %+v", i, wc)
		}
	}
	same(t, b.mr.Bytes()[:600], 5)
	same(t, b.mr.Bytes()[1024:2048], 5)
	same(t, a.mr.Bytes()[32768:32768+64], 5)
	if got := b.mr.Bytes()[3072]; got != 1 {
		t.Errorf("inline send arrived as %d", got)
	}
	if got := string(b.mr.Bytes()[16384:16390]); got != "inline" {
		t.Errorf("inline write arrived as %q", got)
	}
	if got := binary.NativeEndian.Uint64(b.mr.Bytes()[128*1024:]); got != 10 {
		t.Errorf("after the atomics %d", got)
	}
	if ba.Len() != 0 {
		t.Errorf("%d work requests in the batch after Post", ba.Len())
	}
	ba.WriteInline(1, 0, make([]byte, 65), to.At(0))
	var pe *PostError
	if err := ba.Post(); !errors.As(err, &pe) || pe.Accepted != 0 || pe.Total != 1 || ba.Len() != 1 {
		t.Errorf("inline of 65 bytes: %v, and %d stay", err, ba.Len())
	}
	ba.Reset()
	ba.Write(2, Signaled, a.mr.SGE(0, 64), to.At(8192))
	ok(t, ba.Post())
	a.good(t, 2)
}

func TestFake_Datagram(t *testing.T) {
	a := fakeSide(t, nil)
	b := &side{dev: a.dev}
	b.more(t, nil)
	for _, s := range []*side{a, b} {
		s.newQP(t, &QPOptions{Type: UD, MaxInline: 32})
		must(s.qp.Endpoint(1, 1))(t)
		ok(t, s.qp.Connect(Endpoint{}, nil))
	}
	ah := closing(t, must(a.pd.CreateAH(&AHAttr{Port: 1, Global: true, SGIDIndex: 1}))(t))
	recv(t, b.qp, RecvWR{ID: 1, SGEs: []SGE{b.mr.SGE(0, 140)}}, RecvWR{ID: 2, SGEs: []SGE{b.mr.SGE(4096, 140)}})
	fill(a.mr.Bytes()[:100], 1)
	post(t, a.qp, SendWR{ID: 3, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 100)}, AH: ah,
		RemoteQPN: b.qp.Num(), RemoteQKey: DefaultQKey})
	a.good(t, 3)
	if wc := b.good(t, 1); wc.ByteLen != 140 || wc.SrcQPN != a.qp.Num() || wc.Flags != WCGRH {
		t.Errorf("receive %+v", wc)
	}
	same(t, b.mr.Bytes()[40:140], 1)

	ba := a.qp.Batch()
	ba.SendImmTo(4, Signaled, a.mr.SGE(0, 10), 5, ah, b.qp.Num(), DefaultQKey)
	ok(t, ba.Post())
	a.good(t, 4)
	if wc := b.good(t, 2); wc.Imm != 5 {
		t.Errorf("receive %+v", wc)
	}

	_, err := a.qp.PostSend([]SendWR{{Opcode: OpSend}})
	wantErr(t, err, nil, "AH")
	ba.Send(1, 0, a.mr.SGE(0, 1))
	wantErr(t, ba.Post(), nil, "SendTo")
	ba.Reset()
	ba.SendTo(1, 0, a.mr.SGE(0, 1), ah, 1<<24, 0)
	wantErr(t, ba.Post(), nil, "remote qpn")
	ba.Reset()
	ba.SendTo(1, 0, a.mr.SGE(0, 1), ah, 1, 0)
	ok(t, ah.Close())
	wantErr(t, ba.Post(), ErrClosed)
	_, err = a.qp.PostSend([]SendWR{{Opcode: OpSend, AH: ah}})
	wantErr(t, err, ErrClosed)
}

func TestFake_SRQ(t *testing.T) {
	a := fakeSide(t, nil)
	srq := closing(t, must(a.pd.CreateSRQ(&SRQOptions{MaxWR: 8, MaxSGE: 2}))(t))
	a.newQP(t, &QPOptions{SRQ: srq})
	ok(t, a.qp.Connect(must(a.qp.Endpoint(1, 1))(t), nil))
	wantErr(t, srq.Close(), nil, "1 qp")
	var wrs []RecvWR
	for i := range 9 {
		wrs = append(wrs, RecvWR{ID: uint64(i), SGEs: []SGE{a.mr.SGE(4096*i, 64)}})
	}
	n, err := srq.PostRecv(wrs)
	wantErr(t, err, ErrQueueFull)
	if n != 8 {
		t.Errorf("%d receives taken", n)
	}
	_, err = a.qp.PostRecv(wrs[:1])
	wantErr(t, err, nil, "SRQ")
	ok(t, srq.SetLimit(8))
	wantErr(t, srq.SetLimit(9), nil, "9")
	wantErr(t, srq.SetLimit(-1), nil, "-1")
	post(t, a.qp, SendWR{ID: 50, Opcode: OpSend, SGEs: []SGE{a.mr.SGE(65536, 16)}})
	ev := must(a.dev.AsyncEvent(timeout(t)))(t)
	if ev.Type != EventSRQLimitReached || ev.SRQ != srq {
		t.Errorf("event %v", ev)
	}
	a.good(t, 0)
	q := must(srq.Query())(t)
	if q.MaxWR != 8 || q.MaxSGE != 2 || q.Limit != 0 {
		t.Errorf("srq %+v", q)
	}
}

func TestFake_MemoryKeys(t *testing.T) {
	a, b := fakePair(t, nil)
	short := closing(t, must(b.pd.AllocMR(100, LocalWrite|RemoteWrite, nil))(t))
	post(t, a.qp, SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 101)},
		Remote: short.Remote().At(0)})
	wc := a.next(t)
	var we *WCError
	if err := wc.Err(); !errors.As(err, &we) || we.Status != WCRemAccessErr || wc.ID != 1 || wc.VendorErr != 0x81 {
		t.Errorf("completion %+v: %v", wc, err)
	}
	// The QP failed by itself: what is posted now is flushed.
	post(t, a.qp, write(a, 2, 0))
	if wc := a.next(t); wc.Status != WCWRFlushErr || wc.ID != 2 {
		t.Errorf("completion %+v", wc)
	}
	attr, err := a.qp.Query(MaskState)
	ok(t, err)
	if attr.State != StateErr || a.qp.State() != StateErr {
		t.Errorf("state %v, %v", attr.State, a.qp.State())
	}

	// A region under another address, then another memory and PD.
	mr := closing(t, must(b.pd.RegMemory(short.addr, 100, 0x1000, LocalWrite|RemoteWrite))(t))
	if mr.Addr() != 0x1000 || mr.Bytes() != nil {
		t.Errorf("mr at %#x", mr.Addr())
	}
	buf := make([]byte, 64)
	own := closing(t, must(b.pd.RegMR(buf, LocalWrite))(t))
	access := LocalWrite | RemoteWrite | RelaxedOrdering
	ok(t, own.Rereg(&ReregOptions{PD: a.pd, Buf: make([]byte, 32), Access: &access}))
	if own.Len() != 32 || len(own.Bytes()) != 32 {
		t.Errorf("%d bytes after rereg", own.Len())
	}
	ok(t, own.Rereg(&ReregOptions{}))
}

func TestFake_WaitSleepsAndWakes(t *testing.T) {
	s := fakeLoop(t, &CQOptions{Spin: None}, nil)
	ctx := timeout(t)
	got := make(chan WC)
	go func() {
		var wc [1]WC
		for range 3 {
			if _, err := s.cq.Wait(ctx, wc[:]); err != nil {
				t.Error(err)
			}
			got <- wc[0]
		}
	}()
	for id := range uint64(3) {
		time.Sleep(2 * time.Millisecond) // asleep by now, or about to be: both must work
		post(t, s.qp, write(s, id, Signaled))
		if wc := <-got; wc.ID != id {
			t.Errorf("completion of %d, want %d", wc.ID, id)
		}
	}
	short, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	if _, err := s.cq.Wait(short, make([]WC, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait of an idle CQ: %v", err)
	}
	_, err := s.cq.Wait(ctx, nil)
	wantErr(t, err, nil, "at least 1")
}

func TestFake_Completions(t *testing.T) {
	s := fakeLoop(t, nil, nil)
	go func() {
		for id := range uint64(100) {
			if n, err := s.qp.PostSend([]SendWR{write(s, id, Signaled)}); n != 1 || err != nil {
				t.Errorf("post %d: %v", id, err)
			}
		}
	}()
	id := uint64(0)
	for wc, err := range s.cq.Completions(timeout(t)) {
		ok(t, err)
		if wc.ID != id {
			t.Fatalf("completion of %d, want %d", wc.ID, id)
		}
		if id++; id == 100 {
			break
		}
	}
}

// Events that nobody waits for are acknowledged all the same: destroying the CQ
// would hang otherwise.
func TestFake_EventsWithoutWaiter(t *testing.T) {
	s := fakeLoop(t, nil, nil)
	for range 50 {
		ok(t, s.cq.Arm(false))
		post(t, s.qp, write(s, 1, Signaled))
	}
	if n := drain(t, s.cq); n != 50 {
		t.Errorf("%d completions", n)
	}
}

func TestFake_SolicitedEvents(t *testing.T) {
	s := fakeLoop(t, nil, nil)
	ok(t, s.cq.Arm(true))
	recv(t, s.qp, RecvWR{ID: 1, SGEs: []SGE{s.mr.SGE(0, 64)}}, RecvWR{ID: 2, SGEs: []SGE{s.mr.SGE(0, 64)}})
	w := s.cq.sleepers.join()
	defer s.cq.sleepers.part(w)
	post(t, s.qp, SendWR{ID: 3, Opcode: OpSend, SGEs: []SGE{s.mr.SGE(4096, 8)}})
	select {
	case <-w.ch:
		t.Error("an event for a completion that is not solicited")
	case <-time.After(10 * time.Millisecond):
	}
	post(t, s.qp, SendWR{ID: 4, Opcode: OpSend, Flags: Solicited, SGEs: []SGE{s.mr.SGE(4096, 8)}})
	select {
	case <-w.ch:
	case <-time.After(testutil.Patience):
		t.Error("no event for a solicited completion")
	}
}

func TestFake_Resize(t *testing.T) {
	s := fakeLoop(t, nil, nil)
	for id := range uint64(100) {
		post(t, s.qp, write(s, id, Signaled))
	}
	wantErr(t, s.cq.Resize(10), nil)
	wantErr(t, s.cq.Resize(0), nil, "cqe")
	var le *LimitError
	if err := s.cq.Resize(1 << 20); !errors.As(err, &le) || le.Asked != 1<<20 || le.Limit != 65536 {
		t.Errorf("resize beyond the device: %v", err)
	}
	ok(t, s.cq.Resize(2000))
	if s.cq.Cap().CQE != 2048 {
		t.Errorf("capacity %d", s.cq.Cap().CQE)
	}
	if n := drain(t, s.cq); n != 100 {
		t.Errorf("%d completions after the resize", n)
	}
}

func TestFake_AsyncEvents(t *testing.T) {
	s := fakeLoop(t, nil, nil)
	inject := func(typ AsyncEventType, element uintptr) {
		t.Helper()
		ok(t, needFake(t).Void("fv_async", s.dev.handle, uintptr(typ), element))
	}
	inject(EventQPFatal, s.qp.handle)
	inject(EventCQErr, s.cq.handle)
	inject(EventPortErr, 2)
	inject(AsyncEventType(99), 0)
	for _, want := range []AsyncEvent{
		{Type: EventQPFatal, QP: s.qp}, {Type: EventCQErr, CQ: s.cq}, {Type: EventPortErr, Port: 2}, {Type: 99},
	} {
		ev := must(s.dev.AsyncEvent(timeout(t)))(t)
		want.device = "fake0"
		if ev != want {
			t.Errorf("event %+v, want %+v", ev, want)
		}
		if ev.String() == "" || ev.Type.Explain() == "" {
			t.Errorf("no text for %v", ev.Type)
		}
	}
	short, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	if _, err := s.dev.AsyncEvent(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("idle: %v", err)
	}
	// An event after an interrupted wait, while several wait.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if ev, err := s.dev.AsyncEvent(timeout(t)); err != nil || ev.Type != EventGIDChange {
				t.Errorf("event %v: %v", ev.Type, err)
			}
		})
	}
	for range 4 {
		inject(EventGIDChange, 1)
	}
	wg.Wait()
}
