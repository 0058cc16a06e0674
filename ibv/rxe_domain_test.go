package ibv

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// onDomain gives s a parent domain with a thread domain of its own. SoftRoCE has
// none: there its refusal is looked at, and s stays as it is.
func (s *side) onDomain(t *testing.T) (ok bool) {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	td, err := s.dev.AllocThreadDomain()
	if soft(rxe) {
		wantErr(t, err, ErrNotSupported, "SingleThreaded")
		_, err = s.dev.AllocParentDomain(s.pd, nil)
		wantErr(t, err, ErrNotSupported, "SingleThreaded")
		return false
	}
	closing(t, must(td, err)(t))
	s.pd = closing(t, must(s.dev.AllocParentDomain(s.pd, td))(t))
	return true
}

// unlocked connects two QPs that take no locks: on thread domains where there are
// any, by the option elsewhere.
func unlocked(t *testing.T, opt QPOptions) (a, b *side) {
	t.Helper()
	single := &CQOptions{SingleThreaded: true}
	a, b = newSide(t, 0, single), newSide(t, 1, single)
	for _, s := range []*side{a, b} {
		opt.SingleThreaded = !s.onDomain(t)
		s.newQP(t, &opt)
		if !s.qp.sq.mu.Off || !s.cq.mu.Off {
			t.Fatal("a lock is left")
		}
	}
	connectRXE(t, a.qp, b.qp)
	return a, b
}

func connectRXE(t testing.TB, a, b *QP) {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	ea, eb := must(a.Endpoint(rxe.Port, rxe.GID))(t), must(b.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, a.Connect(eb, nil))
	ok(t, b.Connect(ea, nil))
}

// TestRXEThreadDomain posts work requests of all lengths around the ring, alone and
// in batches: alone they go by BlueFlame where that is possible, and the emulated
// device in strict mode compares each copy with the ring.
func TestRXEThreadDomain(t *testing.T) {
	a, b := unlocked(t, QPOptions{MaxSendWR: 16, MaxSendSGE: 8, MaxInline: 200})
	if path, why := a.qp.DataPath(); path == DataPathDirect && !strings.Contains(why, "BlueFlame: ") {
		t.Errorf("the data path is %v: %s", path, why)
	}
	src, dst := a.mr.Bytes(), b.mr.Bytes()
	id := uint64(0)
	for round := range 5 {
		for n := range 41 {
			inline := n >= 9 // 0 to 8 SGEs, then up to 199 bytes of inline data
			wr := SendWR{ID: id, Opcode: OpWrite, Flags: Signaled, Remote: b.mr.Remote().At(id * 256)}
			size := 16 * n
			if inline {
				size = (n - 9) * 199 / 31
				wr.Inline = src[:size]
			} else {
				for k := range n {
					wr.SGEs = append(wr.SGEs, a.mr.SGE(16*k, 16))
				}
			}
			fill(src[:size], int(id))
			post(t, a.qp, wr)
			a.good(t, id)
			same(t, dst[id*256:][:size], int(id))
			id++
		}
		batch := a.qp.Batch()
		for k := range round + 2 {
			batch.Write(id+uint64(k), Signaled, a.mr.SGE(0, 64), b.mr.Remote().At((id+uint64(k))*256))
		}
		fill(src[:64], round)
		ok(t, batch.Post())
		for range round + 2 {
			a.good(t, id)
			same(t, dst[id*256:][:64], round)
			id++
		}
	}
}

// TestRXETwoQPsOneDomain posts in turn to QPs that share a register, and so the
// order of its halves.
func TestRXETwoQPsOneDomain(t *testing.T) {
	a, b := newSide(t, 0, nil), newSide(t, 1, nil)
	a.onDomain(t)
	var qps [3]*QP
	for i := range qps {
		qps[i] = a.newQP(t, &QPOptions{MaxInline: 64})
		q := b.newQP(t, nil)
		connectRXE(t, qps[i], q)
	}
	for i := range 300 {
		data := fmt.Appendf(nil, "work request %d", i)
		post(t, qps[i*i%3], SendWR{ID: uint64(i), Opcode: OpWrite, Flags: Signaled, Inline: data,
			Remote: b.mr.Remote().At(uint64(i) * 64)})
		if i%2 == 1 {
			ids := a.next(t).ID + a.next(t).ID
			if want := uint64(2*i - 1); ids != want {
				t.Fatalf("completions add up to %d, want %d", ids, want)
			}
		}
	}
	for i := range 300 {
		want := fmt.Sprintf("work request %d", i)
		if got := string(b.mr.Bytes()[i*64:][:len(want)]); got != want {
			t.Fatalf("%d: %q", i, got)
		}
	}
}

// TestRXEDomainObjects uses an AH, an SRQ and memory of the PD with QPs of its
// parent domain: they are one protection domain.
func TestRXEDomainObjects(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	s := newSide(t, 0, nil)
	base := s.pd
	if !s.onDomain(t) {
		return // the refusal was the test
	}
	srq := closing(t, must(base.CreateSRQ(&SRQOptions{MaxWR: 8}))(t))
	qp := s.newQP(t, &QPOptions{Type: UD, SRQ: srq})
	me := must(qp.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, qp.Connect(me, nil))
	ah := closing(t, must(base.CreateAH(&AHAttr{Port: rxe.Port, Global: true, DGID: me.GID,
		SGIDIndex: uint8(rxe.GIDs[0]), HopLimit: 1}))(t))
	if n, err := srq.PostRecv([]RecvWR{{ID: 1, SGEs: []SGE{s.mr.SGE(0, 256)}}}); n != 1 || err != nil {
		t.Fatalf("post srq recv: %d, %v", n, err)
	}
	fill(s.mr.Bytes()[4096:][:100], 9)
	post(t, qp, SendWR{ID: 2, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{s.mr.SGE(4096, 100)}, AH: ah,
		RemoteQPN: qp.Num(), RemoteQKey: me.QKey})
	for range 2 {
		wc := s.next(t)
		ok(t, wc.Err())
		if wc.ID == 1 {
			same(t, s.mr.Bytes()[40:][:100], 9) // behind the GRH
		}
	}

	// An AH of another PD stays refused.
	other := closing(t, must(s.dev.AllocPD())(t))
	foreign := closing(t,
		must(other.CreateAH(&AHAttr{Port: rxe.Port, Global: true, DGID: me.GID, SGIDIndex: uint8(rxe.GIDs[0]),
			HopLimit: 1}))(t))
	_, err := qp.PostSend([]SendWR{{Opcode: OpSend, SGEs: []SGE{s.mr.SGE(0, 8)}, AH: foreign, RemoteQPN: qp.Num(),
		RemoteQKey: me.QKey}})
	wantErr(t, err, nil, "another PD")
}

// TestRXEDoorbells posts without a thread domain: no register is ours alone.
func TestRXEDoorbells(t *testing.T) {
	a, b := newPair(t, &QPOptions{MaxInline: 64}, nil)
	if path, why := a.qp.DataPath(); path == DataPathDirect && !strings.Contains(why, "doorbells of 8 bytes") {
		t.Errorf("the data path is %v: %s", path, why)
	}
	for i := range 20 {
		post(t, a.qp, SendWR{ID: uint64(i), Opcode: OpWrite, Flags: Signaled, Inline: a.mr.Bytes()[:48],
			Remote: b.mr.Remote().At(0)})
		a.good(t, uint64(i))
	}
}
