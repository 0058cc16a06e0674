package ibv

import (
	"errors"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// What is sent from a null MR is zeros, and what arrives there is lost.
func TestRXE_NullMR(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	a, b := newPair(t, &QPOptions{MaxSendSGE: 3, MaxRecvSGE: 3}, nil)
	var nulls [2]*MR
	for i, s := range []*side{a, b} {
		mr, err := s.pd.AllocNullMR()
		if soft(rxe) {
			var ue *UnsupportedError
			if !errors.As(err, &ue) {
				t.Errorf("%v, want an UnsupportedError", err)
			}
			continue
		}
		nulls[i] = closing(t, must(mr, err)(t))
	}
	if soft(rxe) {
		return
	}
	const n = 500 // more than a completion carries
	src, dst := a.mr.Bytes(), b.mr.Bytes()
	fill(src[:3*n], 1)
	fill(dst[:3*n], 2)
	recv(t, b.qp, RecvWR{ID: 1, SGEs: []SGE{b.mr.SGE(0, n), nulls[1].SGE(1<<40, n), b.mr.SGE(n, n)}})
	post(t, a.qp, SendWR{ID: 2, Opcode: OpSend, Flags: Signaled,
		SGEs: []SGE{a.mr.SGE(0, 2*n), nulls[0].SGE(7, n-3), a.mr.SGE(9, 3)}})
	a.good(t, 2)
	if wc := b.good(t, 1); wc.ByteLen != 3*n {
		t.Errorf("%d bytes", wc.ByteLen)
	}
	same(t, dst[:n], 1)
	if got := string(dst[n : 2*n-3]); got != string(make([]byte, n-3)) {
		t.Errorf("%x was sent from a null MR", got)
	}
	if string(dst[2*n-3:2*n]) != string(src[9:12]) {
		t.Error("what follows the null MR is wrong")
	}
	for i, s := range dst[2*n : 3*n] {
		if want := byte((2*n+i)*7 + (2*n+i)>>8 + 2); s != want {
			t.Fatalf("byte %d was written", 2*n+i)
		}
	}
	// A read into it, and none of it by a peer.
	post(t, a.qp, SendWR{ID: 3, Opcode: OpRead, Flags: Signaled, SGEs: []SGE{nulls[0].SGE(0, n)},
		Remote: b.mr.Remote().At(0)})
	a.good(t, 3)
	post(t, a.qp, SendWR{ID: 4, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)},
		Remote: nulls[1].Remote().At(0)})
	if wc := a.next(t); wc.Status != WCRemAccessErr {
		t.Errorf("%+v, want RemAccessErr", wc)
	}
}

// Registration with options, where the library has it.
func TestRXE_RegMREx(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	a, b := newPair(t, nil, nil)
	buf := make([]byte, 8192)
	h, err := b.dev.AllocDMAHandle(TPHTarget, nil)
	if !soft(rxe) && err == nil {
		closing(t, must(b.pd.RegMREx(&MROptions{Buf: buf, DMA: closing(t, h)}))(t))
	} else {
		wantErr(t, err, ErrNotSupported, "v59")
	}
	mr, err := b.pd.RegMREx(&MROptions{Buf: buf, Access: LocalWrite | RemoteWrite | MWBind})
	if lacks(t, err, 59) {
		return
	}
	closing(t, must(mr, err)(t))
	fill(a.mr.Bytes()[:8192], 3)
	post(t, a.qp, SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8192)},
		Remote: mr.Remote().At(0)})
	a.good(t, 1)
	same(t, mr.Bytes(), 3)
	if _, err := b.pd.RegMREx(&MROptions{Buf: buf, Access: RemoteWrite}); err == nil {
		t.Error("RemoteWrite without LocalWrite was registered")
	}
}

// TestRXE_SRQEmptySGE receives by an SRQ into two SGEs with one of no bytes between them. To an adapter that one would
// be 2 GiB: strict mode of the emulated device reports it (rule srq-empty-segment).
func TestRXE_SRQEmptySGE(t *testing.T) {
	testutil.NeedRXE(t)
	a, b := newSide(t, 0, nil), newSide(t, 1, nil)
	srq := closing(t, must(b.pd.CreateSRQ(&SRQOptions{MaxWR: 8, MaxSGE: 3}))(t))
	a.newQP(t, nil)
	b.newQP(t, &QPOptions{SRQ: srq})
	connectRXE(t, a.qp, b.qp)
	src, dst := a.mr.Bytes(), b.mr.Bytes()
	fill(src[:200], 1)
	fill(dst[:700], 9)
	between := string(dst[100:500])
	must(srq.PostRecv([]RecvWR{{ID: 1, SGEs: []SGE{b.mr.SGE(0, 100), b.mr.SGE(200, 0), b.mr.SGE(500, 100)}}}))(t)
	post(t, a.qp, SendWR{ID: 2, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 200)}})
	a.good(t, 2)
	b.good(t, 1)
	if string(dst[:100]) != string(src[:100]) || string(dst[500:600]) != string(src[100:200]) {
		t.Error("the message is not in the other two SGEs")
	}
	if string(dst[100:500]) != between {
		t.Error("memory between the SGEs was written")
	}
}
