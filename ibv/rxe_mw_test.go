package ibv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/bind/libibverbs"
	"github.com/pureverbs/pureverbs/internal/level"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

const (
	windowAt  = 4096 // in the lender's MR
	windowLen = 1000
)

// lending is a borrower, who posts, and a lender, who has windows on an MR that peers cannot
// reach otherwise.
type lending struct {
	testing.TB
	a, b *side
	mr   *MR // the lender's
	opt  *QPOptions
	id   uint64
}

func newLending(t testing.TB, typ QPType) *lending {
	t.Helper()
	l := &lending{TB: t, opt: &QPOptions{Type: typ}}
	if os.Getenv(DataPathEnv) == "ops" && oldBinds(t) {
		l.Setenv(DataPathEnv, "direct") // see TestRXE_MWOldLibrary
	}
	l.a, l.b = newPair(t, l.opt, nil)
	l.mr = closing(t, must(l.b.pd.AllocMR(testMRSize, LocalWrite|MWBind, nil))(t))
	return l
}

// oldBinds reports whether libmlx5 writes behind the send queue.
func oldBinds(t testing.TB) bool {
	t.Helper()
	return level.BindMW.In(must(libibverbs.Open())(t).Version(), 0, runtime.GOARCH)
}

// pretend gives libmlx5 a fault until the test ends.
func pretend(t *testing.T, f *level.Fault) {
	was := *f
	t.Cleanup(func() { *f = was })
	*f = level.Fault{Fixed: "9999.0"}
}

// TestRXE_MWUnknownProvider has a libmlx5 that writes behind the send queue and is from before mlx5dv_is_supported.
func TestRXE_MWUnknownProvider(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	defer bind.Hide("v22", "mlx5dv_is_supported")()
	dev := closing(t, must(Open(rxe.Dev[0]))(t))
	if soft(rxe) {
		ok(t, dev.CanBindMW(MWType2, DataPathOps))
		return
	}
	pretend(t, &level.BindMW)
	err := dev.CanBindMW(MWType2, DataPathOps)
	wantErr(t, err, ErrNotSupported, "behind the send queue")
	if strings.Contains(err.Error(), "DataPathDirect") {
		t.Errorf("there is no such data path: %v", err)
	}
}

// Some releases of libmlx5 write behind the send queue: the ops engine refuses to bind with those.
func TestRXE_MWOldLibrary(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	old := !soft(rxe) && oldBinds(t)
	s := newSide(t, 0, &CQOptions{DataPath: DataPathOps})
	s.newQP(t, nil)
	ok(t, s.qp.Connect(must(s.qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
	mr := closing(t, must(s.pd.AllocMR(4096, LocalWrite|MWBind, nil))(t))
	if s.dev.MWBounds() == soft(rxe) {
		t.Errorf("MWBounds is %v", s.dev.MWBounds())
	}
	var ae *ArgError
	if err := s.dev.CanBindMW(3, DataPathAuto); !errors.As(err, &ae) {
		t.Errorf("windows of type 3: %v", err)
	}
	for _, typ := range []MWType{MWType1, MWType2} {
		if err := s.dev.CanBindMW(typ, DataPathOps); (err != nil) != old {
			t.Errorf("CanBindMW of %v: %v", typ, err)
		}
		mw := closing(t, must(s.pd.AllocMW(typ))(t))
		bind := func(n uint64) (err error) {
			b := &BindMW{MW: mw, RKey: NextRKey(mw.RKey()), MR: mr, Addr: mr.Addr(), Length: n}
			if typ == MWType1 {
				return s.qp.BindMW(1, Signaled, b)
			}
			_, err = s.qp.PostSend([]SendWR{{ID: 1, Opcode: OpBindMW, Flags: Signaled, Bind: b}})
			return err
		}
		var ue *UnsupportedError
		if err := bind(64); old != errors.As(err, &ue) || !old && err != nil {
			t.Fatalf("%v: %v", typ, err)
		}
		if !old {
			s.good(t, 1)
		} else if typ == MWType1 { // to nothing is all right
			ok(t, bind(0))
			s.good(t, 1)
		}
	}
}

// connect connects the pair anew after an error.
func (l *lending) connect() {
	l.Helper()
	rxe := testutil.NeedRXE(l)
	for _, s := range []*side{l.a, l.b} {
		ok(l, s.qp.Modify(&QPAttr{State: StateReset}, MaskState))
		for wcs := make([]WC, 16); must(s.cq.Poll(wcs))(l) > 0; {
		}
	}
	ea := must(l.a.qp.Endpoint(rxe.Port, rxe.GID))(l)
	eb := must(l.b.qp.Endpoint(rxe.Port, rxe.GID))(l)
	ok(l, l.a.qp.Connect(eb, nil))
	ok(l, l.b.qp.Connect(ea, nil))
}

func (l *lending) window(t MWType) *MW {
	l.Helper()
	return closing(l, must(l.b.pd.AllocMW(t))(l))
}

// bind describes mw as the usual part of the lender's MR, with the window's next key.
func (l *lending) bind(mw *MW, access AccessFlags) *BindMW {
	return &BindMW{MW: mw, RKey: NextRKey(mw.RKey()), MR: l.mr, Addr: l.mr.Addr() + windowAt, Length: windowLen,
		Access: access}
}

// post posts a bind on the lender's QP and returns its completion.
func (l *lending) post(b *BindMW) WC {
	l.Helper()
	l.id++
	if b.MW.Type() == MWType1 {
		ok(l, l.b.qp.BindMW(l.id, Signaled, b))
	} else {
		post(l, l.b.qp, SendWR{ID: l.id, Opcode: OpBindMW, Flags: Signaled, Bind: b})
	}
	return l.b.next(l)
}

// bound posts a bind that must succeed.
func (l *lending) bound(b *BindMW) *BindMW {
	l.Helper()
	if wc := l.post(b); wc.Status != WCSuccess || wc.Opcode != WCBindMW || wc.ID != l.id || wc.ByteLen != 0 ||
		wc.QPN != l.b.qp.Num() {
		l.Fatalf("bind: %+v", wc)
	}
	if b.MW.RKey() != b.RKey {
		l.Fatalf("the window's key is %#x, bound was %#x", b.MW.RKey(), b.RKey)
	}
	return b
}

func (l *lending) invalidate(rkey uint32) WC {
	l.Helper()
	l.id++
	post(l, l.b.qp, SendWR{ID: l.id, Opcode: OpLocalInv, Flags: Signaled, InvalidateRKey: rkey})
	return l.b.next(l)
}

func (l *lending) invalidated(rkey uint32) {
	l.Helper()
	if wc := l.invalidate(rkey); wc.Status != WCSuccess || wc.Opcode != WCLocalInv || wc.ID != l.id {
		l.Fatalf("invalidate: %+v", wc)
	}
}

// access reads or writes n bytes and returns the status.
func (l *lending) access(op Opcode, at RemoteAddr, n int) WCStatus {
	l.Helper()
	l.id++
	post(l, l.a.qp, SendWR{ID: l.id, Opcode: op, Flags: Signaled, SGEs: []SGE{l.a.mr.SGE(0, n)}, Remote: at})
	return l.a.next(l).Status
}

// allowed writes through the window and reads it back.
func (l *lending) allowed(r RemoteMemory, access AccessFlags) {
	l.Helper()
	l.id++
	seed := int(l.id)
	mem := l.mr.Bytes()[windowAt:][:windowLen]
	if access&RemoteWrite != 0 {
		fill(l.a.mr.Bytes()[:windowLen], seed)
		clear(mem)
		if s := l.access(OpWrite, r.At(0), windowLen); s != WCSuccess {
			l.Fatalf("write: %v", s)
		}
		if l.opt.Type == UC { // it is on its way
			l.ping()
		}
		same(l, mem, seed)
	}
	if access&RemoteRead != 0 {
		fill(mem, seed+1)
		if s := l.access(OpRead, r.At(0), windowLen); s != WCSuccess {
			l.Fatalf("read: %v", s)
		}
		same(l, l.a.mr.Bytes()[:windowLen], seed+1)
	}
	if access&RemoteAtomic != 0 {
		clear(mem[:8])
		post(l, l.a.qp, SendWR{ID: l.id, Opcode: OpFetchAdd, Flags: Signaled, SGEs: []SGE{l.a.mr.SGE(0, 8)},
			Remote: r.At(0), CompareAdd: 1})
		if s := l.a.next(l).Status; s != WCSuccess || mem[0] != 1 {
			l.Fatalf("fetch and add: %v, %v", s, mem[:8])
		}
	}
}

// ping returns when all that the borrower has posted has arrived.
func (l *lending) ping() {
	l.Helper()
	recv(l, l.b.qp, RecvWR{ID: 1, SGEs: []SGE{l.b.mr.SGE(0, 8)}})
	post(l, l.a.qp, SendWR{ID: 2, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{l.a.mr.SGE(0, 8)}})
	l.a.good(l, 2)
	l.b.good(l, 1)
}

// denied tries an access that must fail, and connects again. Nothing may have been written.
func (l *lending) denied(what string, op Opcode, at RemoteAddr, n int) {
	l.Helper()
	before := string(l.mr.Bytes()[:2*windowAt])
	fill(l.a.mr.Bytes()[:n], int(l.id)+99)
	if s := l.access(op, at, n); s != WCRemAccessErr {
		l.Errorf("%s: %v, want RemAccessErr", what, s)
	}
	if string(l.mr.Bytes()[:2*windowAt]) != before {
		l.Errorf("%s: something was written", what)
	}
	l.connect()
}

// A window gives what it was bound with, and nothing else, until it is invalidated.
func TestRXE_MW(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, typ := range []MWType{MWType1, MWType2} {
		t.Run(typ.String(), func(t *testing.T) {
			l := newLending(t, RC)
			mw := l.window(typ)
			if mw.Type() != typ || mw.PD() != l.b.pd || mw.RKey() == 0 {
				t.Fatalf("%v of %v with key %#x", mw.Type(), mw.PD(), mw.RKey())
			}
			l.denied("not yet bound", OpRead, RemoteAddr{Addr: l.mr.Addr() + windowAt, RKey: mw.RKey()}, 8)
			before := mw.RKey()
			for access := AccessFlags(0); access <= RemoteWrite|RemoteRead|RemoteAtomic; access += RemoteWrite {
				b := l.bound(l.bind(mw, access))
				if b.RKey != NextRKey(before) {
					t.Fatalf("key %#x after %#x", b.RKey, before)
				}
				l.allowed(b.Remote(), access)
				if access == RemoteRead {
					l.denied("write", OpWrite, b.Remote().At(0), 8)
				}
				if access == RemoteWrite {
					l.denied("read", OpRead, b.Remote().At(0), 8)
				}
				before = b.RKey
				if typ == MWType2 {
					l.invalidated(b.RKey)
				}
			}
			b := l.bound(l.bind(mw, RemoteRead|RemoteWrite))
			r := b.Remote()
			if !soft(rxe) { // which looks at the bounds of the MR only
				l.bounds(r)
			}
			l.denied("the MR's key", OpRead, RemoteAddr{Addr: r.Addr, RKey: l.mr.RKey()}, 8)
			l.denied("the key before", OpRead, RemoteAddr{Addr: r.Addr, RKey: before}, 8)
			l.allowed(r, b.Access)

			// To other memory.
			if typ == MWType2 {
				l.invalidated(b.RKey)
				l.denied("invalidated", OpRead, r.At(0), 8)
			}
			moved := l.bind(mw, RemoteRead)
			moved.Addr, moved.Length = l.mr.Addr(), 64
			l.bound(moved)
			if s := l.access(OpRead, moved.Remote().At(0), 64); s != WCSuccess {
				t.Errorf("after it was moved: %v", s)
			}
			if !soft(rxe) {
				l.denied("where it was", OpRead, RemoteAddr{Addr: r.Addr, RKey: moved.RKey}, 8)
			}
			if typ == MWType1 { // to nothing
				l.bound(&BindMW{MW: mw})
				l.denied("bound to nothing", OpRead, RemoteAddr{Addr: moved.Addr, RKey: mw.RKey()}, 8)
				l.bound(l.bind(mw, RemoteRead))
				l.allowed(l.bindOf(mw), RemoteRead)
			}

			// Closed while it is bound.
			other := must(l.b.pd.AllocMW(typ))(t)
			gone := l.bound(l.bind(other, RemoteRead)).Remote()
			l.allowed(gone, RemoteRead)
			ok(t, other.Close())
			l.denied("closed", OpRead, gone.At(0), 8)
			if typ == MWType2 {
				l.invalidated(moved.RKey)
			}
		})
	}
}

// bounds tries what is partly outside of a window.
func (l *lending) bounds(r RemoteMemory) {
	l.Helper()
	l.denied("one byte before", OpWrite, RemoteAddr{Addr: r.Addr - 1, RKey: r.RKey}, 8)
	l.denied("one byte behind", OpRead, r.At(windowLen-7), 8)
}

// soft reports whether the devices are SoftRoCE's.
func soft(r testutil.RXE) bool { return !r.Emulated && !r.Hardware }

// bindOf returns what a peer needs for the window where it is usually bound.
func (l *lending) bindOf(mw *MW) RemoteMemory {
	return RemoteMemory{Addr: l.mr.Addr() + windowAt, RKey: mw.RKey(), Length: windowLen}
}

// On an unreliable connection nobody is told of a refusal, but nothing is written.
func TestRXE_MWUC(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, typ := range []MWType{MWType1, MWType2} {
		t.Run(typ.String(), func(t *testing.T) {
			l := newLending(t, UC)
			mw := l.window(typ)
			b := l.bound(l.bind(mw, RemoteWrite))
			l.allowed(b.Remote(), RemoteWrite)
			switch {
			case typ == MWType1:
				l.bound(&BindMW{MW: mw})
			case soft(rxe):
				if wc := l.invalidate(b.RKey); wc.Status != WCLocQPOpErr {
					t.Errorf("%+v, want LocQPOpErr: SoftRoCE invalidates on RC only", wc)
				}
				return
			default:
				l.invalidated(b.RKey)
			}
			clear(l.mr.Bytes())
			if s := l.access(OpWrite, b.Remote().At(0), 8); s != WCSuccess {
				t.Errorf("write: %v", s)
			}
			l.ping()
			if got := l.mr.Bytes()[windowAt:][:8]; string(got) != string(make([]byte, 8)) {
				t.Errorf("%x was written", got)
			}
		})
	}
}

// Only the QP that bound a window of type 2 takes its key; any takes that of type 1.
func TestRXE_MWOfAnotherQP(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	l := newLending(t, RC)
	qa := closing(t, must(l.a.pd.CreateQP(l.a.cq, l.a.cq, nil))(t))
	qb := closing(t, must(l.b.pd.CreateQP(l.b.cq, l.b.cq, nil))(t))
	ea, eb := must(qa.Endpoint(rxe.Port, rxe.GID))(t), must(qb.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, qa.Connect(eb, nil))
	ok(t, qb.Connect(ea, nil))
	l.b.qp = qb // it binds
	one, two := l.bound(l.bind(l.window(MWType1), RemoteRead)), l.bound(l.bind(l.window(MWType2), RemoteRead))
	if s := l.access(OpRead, one.Remote().At(0), 8); s != WCSuccess {
		t.Errorf("type 1: %v", s)
	}
	if s := l.access(OpRead, two.Remote().At(0), 8); s != WCRemAccessErr {
		t.Errorf("type 2: %v, want RemAccessErr", s)
	}
	l.a.qp = qa
	if s := l.access(OpRead, two.Remote().At(0), 8); s != WCSuccess {
		t.Errorf("type 2, by the QP that bound it: %v", s)
	}
}

// The peer gives a window back by a send, which tells its key.
func TestRXE_MWSendInv(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	l := newLending(t, RC)
	mw := l.window(MWType2)
	for i := range 3 {
		b := l.bound(l.bind(mw, RemoteWrite))
		l.allowed(b.Remote(), RemoteWrite)
		recv(t, l.b.qp, RecvWR{ID: 5, SGEs: []SGE{l.b.mr.SGE(0, 64)}})
		post(t, l.a.qp, SendWR{ID: 6, Opcode: OpSendInv, Flags: Signaled, SGEs: []SGE{l.a.mr.SGE(0, 8)},
			InvalidateRKey: b.RKey})
		l.a.good(t, 6)
		wc := l.b.good(t, 5)
		if soft(rxe) { // it sets the kernel's bit for the key, which to user space means something else
			wc.Flags, wc.InvalidatedRKey = wc.Flags|WCWithInv, b.RKey
		}
		if wc.Opcode != WCRecv || wc.Flags&WCWithInv == 0 || wc.InvalidatedRKey != b.RKey {
			t.Errorf("%+v, want the key %#x invalidated", wc, b.RKey)
		}
		if i == 2 {
			l.denied("given back", OpWrite, b.Remote().At(0), 8)
		}
	}
	b := l.bound(l.bind(mw, RemoteWrite))
	recv(t, l.b.qp, RecvWR{ID: 7, SGEs: []SGE{l.b.mr.SGE(0, 64)}})
	post(t, l.a.qp, SendWR{ID: 8, Opcode: OpSendInv, Flags: Signaled, InvalidateRKey: NextRKey(b.RKey)})
	if wc := l.a.next(t); wc.Status == WCSuccess && !soft(rxe) { // which acknowledges first
		t.Errorf("another key was invalidated: %+v", wc)
	}
}

// A bind that the device refuses fails its QP, leaves the window as it was and flushes what
// follows.
func TestRXE_MWBindFails(t *testing.T) {
	testutil.NeedRXE(t)
	l := newLending(t, RC)
	mw := l.window(MWType2)
	b := l.bound(l.bind(mw, RemoteRead))
	fails := func(what string, do func() WC) {
		t.Helper()
		if wc := do(); wc.Status != WCMWBindErr || wc.ID != l.id {
			t.Errorf("%s: %+v, want MWBindErr", what, wc)
		}
		if attr, err := l.b.qp.Query(MaskState); err != nil || attr.State != StateErr {
			t.Errorf("%s: the QP is in %v: %v", what, attr.State, err)
		}
		post(t, l.b.qp, SendWR{ID: 3, Opcode: OpBindMW, Flags: Signaled, Bind: l.bind(mw, RemoteRead)})
		if wc := l.b.next(t); wc.Status != WCWRFlushErr || wc.ID != 3 {
			t.Errorf("after %s: %+v, want it flushed", what, wc)
		}
		mw.SetRKey(b.RKey)
		l.connect()
		l.allowed(b.Remote(), RemoteRead)
	}
	fails("a bind of a bound window", func() WC { return l.post(l.bind(mw, RemoteWrite)) })
	fails("an invalidate of another key", func() WC {
		wc := l.invalidate(NextRKey(b.RKey))
		if wc.Status == WCLocQPOpErr { // SoftRoCE's word for it
			wc.Status = WCMWBindErr
		}
		return wc
	})
	l.invalidated(b.RKey)
	b = l.bound(l.bind(mw, RemoteRead))
	l.allowed(b.Remote(), RemoteRead)
}

// In one post: bind, use by the QP's own order, invalidate, and bind again. The second bind
// follows from the first, whatever the provider knows of it.
func TestRXE_MWChain(t *testing.T) {
	testutil.NeedRXE(t)
	l := newLending(t, RC)
	mw := l.window(MWType2)
	one := l.bind(mw, RemoteRead)
	two := l.bind(mw, RemoteRead)
	two.RKey = NextRKey(one.RKey)
	recv(t, l.a.qp, RecvWR{ID: 1, SGEs: []SGE{l.a.mr.SGE(0, 64)}}, RecvWR{ID: 2, SGEs: []SGE{l.a.mr.SGE(0, 64)}})
	q := l.b.qp.Batch()
	q.BindMW(1, Signaled, one)
	q.Send(2, Signaled, l.b.mr.SGE(0, 8))
	q.LocalInv(3, Signaled, one.RKey)
	q.BindMW(4, Signaled, two)
	q.Add(&SendWR{ID: 5, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{l.b.mr.SGE(0, 8)}})
	ok(t, q.Post())
	for i, want := range []WCOpcode{WCBindMW, WCSend, WCLocalInv, WCBindMW, WCSend} {
		if wc := l.b.good(t, uint64(i+1)); wc.Opcode != want {
			t.Errorf("work request %d completed as %v, want %v", i+1, wc.Opcode, want)
		}
	}
	l.a.good(t, 1)
	l.a.good(t, 2)
	if mw.RKey() != two.RKey {
		t.Errorf("key %#x, want %#x", mw.RKey(), two.RKey)
	}
	l.allowed(two.Remote(), RemoteRead)

	// A mistake rejects all of a Batch, and the keys are as before.
	three := l.bind(mw, RemoteRead)
	q.LocalInv(6, Signaled, two.RKey)
	q.BindMW(7, Signaled, three)
	q.Send(8, Signaled, l.b.mr.SGE(-1, 8))
	var ae *ArgError
	if err := q.Post(); !errors.As(err, &ae) || ae.Arg != "SGE 0" {
		t.Errorf("%v, want an ArgError of SGE 0", err)
	}
	q.Reset()
	if mw.RKey() != two.RKey {
		t.Errorf("key %#x after a Batch that was refused, want %#x", mw.RKey(), two.RKey)
	}
	l.allowed(two.Remote(), RemoteRead)
}

// A region cannot be deregistered below a window.
func TestRXE_MWHoldsMR(t *testing.T) {
	testutil.NeedRXE(t)
	l := newLending(t, RC)
	mw := l.window(MWType2)
	mr := must(l.b.pd.AllocMR(4096, LocalWrite|MWBind, nil))(t)
	b := &BindMW{MW: mw, RKey: NextRKey(mw.RKey()), MR: mr, Addr: mr.Addr(), Length: 4096, Access: RemoteRead}
	l.bound(b)
	var busy *BusyError
	if err := mr.Close(); !errors.As(err, &busy) {
		t.Errorf("close of an MR with a window: %v, want a BusyError", err)
	}
	if s := l.access(OpRead, b.Remote().At(0), 64); s != WCSuccess {
		t.Errorf("after that: %v", s)
	}
	l.invalidated(b.RKey)
	ok(t, mr.Close())
}

// writes writes to a window, one at a time, until stop is closed, and three times after that.
func (l *lending) writes(ctx context.Context, to RemoteAddr, stop <-chan struct{}) error {
	var wcs [1]WC
	for n, left := 0, -1; left != 0; n++ {
		at := n % 8 * 64
		fill(l.a.mr.Bytes()[at:at+64], n)
		wr := []SendWR{{ID: uint64(n), Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{l.a.mr.SGE(at, 64)},
			Remote: RemoteAddr{Addr: to.Addr + uint64(at), RKey: to.RKey}}}
		if _, err := l.a.qp.PostSend(wr); err != nil {
			return err
		}
		if _, err := l.a.cq.Wait(ctx, wcs[:]); err != nil || wcs[0].Status != WCSuccess {
			return fmt.Errorf("write %d: %v, %w", n, wcs[0].Status, err)
		}
		if left > 0 {
			left--
			continue
		}
		select {
		case <-stop:
			left = 3
		default:
		}
	}
	return nil
}

// Whatever is under way when a window is invalidated, nothing is written after that completes.
// On an unreliable connection the peer goes on writing. SoftRoCE invalidates windows of reliable
// connections only, and lets a write end that it has begun.
func TestRXE_MWRevoked(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rounds := 300
	switch {
	case soft(rxe):
		rounds = 60
	case testutil.Full():
		rounds = 10_000
	}
	for _, typ := range []MWType{MWType1, MWType2} {
		if soft(rxe) && typ == MWType2 {
			break
		}
		l := newLending(t, UC)
		ctx, mw, wrote := timeout(t), l.window(typ), 0
		mem := l.mr.Bytes()[windowAt:][:512]
		for round := range rounds {
			b := l.bound(l.bind(mw, RemoteWrite))
			clear(mem)
			stop, result := make(chan struct{}), make(chan error, 1)
			go func() { result <- l.writes(ctx, b.Remote().At(0), stop) }()
			for range round % 50 {
				_, _ = l.b.cq.Poll(nil)
			}
			if typ == MWType2 {
				l.invalidated(b.RKey)
			} else {
				l.bound(&BindMW{MW: mw})
			}
			before := string(mem)
			close(stop)
			ok(t, <-result)
			l.ping()
			if soft(rxe) {
				before = string(mem)
				ok(t, l.writes(ctx, b.Remote().At(0), stop))
				l.ping()
			}
			if string(mem) != before {
				t.Fatalf("%v, round %d: bytes were written after the window was invalid", typ, round)
			}
			if before != string(make([]byte, len(mem))) {
				wrote++
			}
		}
		if wrote == 0 {
			t.Errorf("%v: nothing was ever written before the window was invalid", typ)
		}
		t.Logf("%v: %d rounds, in %d of them there were writes", typ, rounds, wrote)
	}
}

// What no device takes is refused before anything is posted.
func TestRXE_MWRefused(t *testing.T) {
	testutil.NeedRXE(t)
	l := newLending(t, RC)
	ud := closing(t, must(l.b.pd.CreateQP(l.b.cq, l.b.cq, &QPOptions{Type: UD}))(t))
	pd := closing(t, must(l.b.dev.AllocPD())(t))
	foreign := closing(t, must(pd.AllocMW(MWType2))(t))
	foreignMR := closing(t, must(pd.AllocMR(4096, LocalWrite|MWBind, nil))(t))
	readOnly := closing(t, must(l.b.pd.AllocMR(4096, MWBind, nil))(t))
	closed := map[MWType]*MW{}
	for _, typ := range []MWType{MWType1, MWType2} {
		closed[typ] = must(l.b.pd.AllocMW(typ))(t)
		ok(t, closed[typ].Close())
	}
	closedMR := must(l.b.pd.AllocMR(4096, LocalWrite|MWBind, nil))(t)
	ok(t, closedMR.Close())
	mw1, mw2 := l.window(MWType1), l.window(MWType2)
	for _, c := range []struct {
		what, arg string
		change    func(b *BindMW)
	}{
		{"no window", "Bind.MW", func(b *BindMW) { b.MW = nil }},
		{"the zero window", "Bind.MW", func(b *BindMW) { b.MW = new(MW) }},
		{"a window of another PD", "Bind.MW", func(b *BindMW) { b.MW = foreign }},
		{"no MR", "Bind.MR", func(b *BindMW) { b.MR = nil }},
		{"no MR, no length", "Bind.MR", func(b *BindMW) { b.MR, b.Length = nil, 0 }},
		{"the zero MR", "Bind.MR", func(b *BindMW) { b.MR = new(MR) }},
		{"an MR of another PD", "Bind.MR", func(b *BindMW) { b.MR = foreignMR }},
		{"an MR without MWBind", "Bind.MR", func(b *BindMW) { b.MR, b.Addr = l.b.mr, l.b.mr.Addr() }},
		{"writes on a read-only MR", "Bind.Access", func(b *BindMW) { b.MR, b.Addr = readOnly, readOnly.Addr() }},
		{"other rights", "Bind.Access", func(b *BindMW) { b.Access = LocalWrite | RemoteRead }},
		{"before the MR", "Bind.Addr and Length", func(b *BindMW) { b.Addr = l.mr.Addr() - 1 }},
		{"beyond the MR", "Bind.Addr and Length", func(b *BindMW) { b.Length = testMRSize - windowAt + 1 }},
		{"an overflow", "Bind.Addr and Length", func(b *BindMW) { b.Length = ^uint64(0) }},
		{"a closed window", "", func(b *BindMW) { b.MW = closed[b.MW.typ]; b.RKey = b.MW.RKey() }},
		{"a closed MR", "", func(b *BindMW) { b.MR, b.Addr, b.Length = closedMR, closedMR.Addr(), 64 }},
		{"a window of the other type", "Bind.MW", nil},
		{"another key", "Bind.RKey", func(b *BindMW) { b.RKey += 1 << 8 }},
		{"ZeroBased", "Bind.Access", func(b *BindMW) { b.Access |= ZeroBased }},
	} {
		for _, mw := range []*MW{mw1, mw2} {
			switch {
			case c.what == "another key" && mw == mw1, c.what == "ZeroBased" && mw == mw2:
				continue // a type 1 window gets its key from C, a type 2 may begin at 0
			}
			b := l.bind(mw, RemoteRead|RemoteWrite)
			if c.change != nil {
				c.change(b)
			}
			key, byPost := mw.RKey(), mw == mw2
			if c.change == nil {
				byPost = !byPost
			}
			var err error
			if byPost {
				q := l.b.qp.Batch()
				q.BindMW(1, Signaled, b)
				err = q.Post()
				if _, e := l.b.qp.PostSend([]SendWR{{Opcode: OpBindMW, Bind: b}}); e == nil {
					t.Errorf("%s, %v: PostSend took it", c.what, mw.Type())
				}
			} else {
				err = l.b.qp.BindMW(1, Signaled, b)
			}
			var ae *ArgError
			switch {
			case c.arg == "" && !errors.Is(err, ErrClosed):
				t.Errorf("%s, %v: %v, want ErrClosed", c.what, mw.Type(), err)
			case c.arg != "" && (!errors.As(err, &ae) || ae.Arg != c.arg):
				t.Errorf("%s, %v: %v, want an ArgError of %s", c.what, mw.Type(), err, c.arg)
			}
			if mw.RKey() != key {
				t.Errorf("%s, %v: the key has changed", c.what, mw.Type())
			}
		}
	}
	var ae *ArgError
	if err := l.b.qp.BindMW(1, 0, nil); !errors.As(err, &ae) || ae.Arg != "Bind" {
		t.Errorf("no bind: %v", err)
	}
	if err := l.b.qp.BindMW(1, Inline, l.bind(mw1, RemoteRead)); !errors.As(err, &ae) || ae.Arg != "Flags" {
		t.Errorf("Inline: %v", err)
	}
	extended, err := l.b.pd.CreateQP(l.b.cq, l.b.cq, &QPOptions{SendOps: SendOpSend | SendOpBindMW})
	if err == nil {
		err := closing(t, extended).BindMW(1, 0, l.bind(mw1, 0))
		if !errors.As(err, &ae) || ae.Got != "one with SendOps" {
			t.Errorf("a QP with SendOps: %v", err)
		}
	} else if !errors.Is(err, ErrNotSupported) { // a library before v24
		t.Error(err)
	}
	if err := ud.BindMW(1, 0, l.bind(mw1, RemoteRead)); !errors.As(err, &ae) || ae.Arg != "QP" {
		t.Errorf("a UD QP: %v", err)
	}
	if _, err := l.b.qp.PostSend([]SendWR{{Opcode: OpBindMW}}); !errors.As(err, &ae) || ae.Arg != "Bind" {
		t.Errorf("no bind: %v", err)
	}
	if _, err := l.b.pd.AllocMW(3); !errors.As(err, &ae) || ae.Got != "MWType(3)" {
		t.Errorf("type 3: %v", err)
	}
	l.connect()
	for _, mw := range []*MW{mw1, mw2} { // and nothing was posted
		l.allowed(l.bound(l.bind(mw, RemoteRead)).Remote(), RemoteRead)
	}
	if n := must(l.b.cq.Poll(make([]WC, 4)))(t); n != 0 {
		t.Errorf("%d completions of what was refused", n)
	}
	// Without a connection.
	idle := closing(t, must(l.b.pd.CreateQP(l.b.cq, l.b.cq, nil))(t))
	var se *StateError
	if err := idle.BindMW(1, 0, l.bind(mw1, RemoteRead)); !errors.As(err, &se) {
		t.Errorf("a QP in RESET: %v", err)
	}
	gone := must(l.b.pd.CreateQP(l.b.cq, l.b.cq, nil))(t)
	ok(t, gone.Close())
	if err := gone.BindMW(1, 0, l.bind(mw1, RemoteRead)); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed QP: %v", err)
	}
}

// Binding and invalidating allocates nothing.
func TestRXE_MWAllocs(t *testing.T) {
	testutil.NeedRXE(t)
	l := newLending(t, RC)
	mw := l.window(MWType2)
	b := l.bind(mw, RemoteRead)
	wrs := []SendWR{{Opcode: OpBindMW, Bind: b}, {Opcode: OpLocalInv, Flags: Signaled}}
	var wcs [2]WC
	if n := testing.AllocsPerRun(50, func() {
		b.RKey = NextRKey(mw.RKey())
		wrs[1].InvalidateRKey = b.RKey
		post(t, l.b.qp, wrs...)
		for n, err := 0, error(nil); n == 0; {
			if n, err = l.b.cq.Poll(wcs[:]); err != nil || n > 0 && wcs[0].Status != WCSuccess {
				t.Fatal(err, wcs[0])
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A full queue takes no bind, and tells so.
func TestRXE_MWQueueFull(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, typ := range []MWType{MWType1, MWType2} {
		l := newLending(t, RC)
		mw := l.window(typ)
		var err error
		posted := 0
		for err == nil && posted < 400 { // as many as the CQ takes
			b := l.bind(mw, RemoteRead)
			if typ == MWType1 {
				err = l.b.qp.BindMW(1, Signaled, b)
			} else if posted%2 == 0 {
				_, err = l.b.qp.PostSend([]SendWR{{Opcode: OpBindMW, Flags: Signaled, Bind: b}})
			} else {
				_, err = l.b.qp.PostSend([]SendWR{{Opcode: OpLocalInv, Flags: Signaled, InvalidateRKey: mw.RKey()}})
			}
			if err == nil {
				posted++
			}
		}
		if !errors.Is(err, ErrQueueFull) && !soft(rxe) { // whose queue is as long as the kernel is slow
			t.Errorf("%v: after %d: %v, want ErrQueueFull", typ, posted, err)
		}
		for range posted {
			if wc := l.b.next(t); wc.Status != WCSuccess {
				t.Fatal(fmt.Errorf("%v: %+v", typ, wc))
			}
		}
		if typ == MWType2 && posted%2 == 1 {
			l.invalidated(mw.RKey())
		}
		l.allowed(l.bound(l.bind(mw, RemoteRead)).Remote(), RemoteRead)
	}
}

// A zero-based window begins at address 0.
func TestRXE_MWZeroBased(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	l := newLending(t, RC)
	mw := l.window(MWType2)
	b := l.bind(mw, RemoteRead|RemoteWrite|ZeroBased)
	if wc := l.post(b); wc.Status != WCSuccess {
		t.Fatalf("%+v", wc)
	}
	r := b.Remote()
	if r.Addr != 0 || r.Length != windowLen {
		t.Fatalf("%+v", r)
	}
	l.allowed(r, RemoteRead|RemoteWrite)
	if !soft(rxe) {
		l.denied("beyond", OpRead, r.At(windowLen-7), 8)
	}
	l.denied("the MR's address", OpRead, RemoteAddr{Addr: b.Addr, RKey: r.RKey}, 8)
}
