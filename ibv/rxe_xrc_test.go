package ibv

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// xrcSide is the receiving end of an XRC connection.
type xrcSide struct {
	*side
	xrcd *XRCD
	qp   *QP // receives
}

// newXRC connects an XRCSend QP on rxe0 with an XRCRecv QP on rxe1. SoftRoCE has no XRC: there the refusal is looked
// at, and a is nil.
func newXRC(t *testing.T, opt *QPOptions, conn *ConnectOptions) (a *side, b *xrcSide) {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	b = &xrcSide{side: newSide(t, 1, nil)}
	if !rxe.Emulated && !rxe.Hardware {
		_, err := b.dev.OpenXRCD(nil, 0)
		wantErr(t, err, ErrNotSupported, rxe.Dev[1], "use RC QPs")
		return nil, nil
	}
	b.xrcd = closing(t, must(b.dev.OpenXRCD(nil, os.O_CREATE))(t))
	b.qp = closing(t, must(b.xrcd.CreateQP())(t))
	if opt == nil {
		opt = &QPOptions{}
	}
	o := *opt
	o.Type = XRCSend
	a = newSide(t, 0, nil)
	a.qp = closing(t, must(a.pd.CreateQP(a.cq, nil, &o))(t))
	connectXRC(t, a.qp, b.qp, conn)
	return a, b
}

func connectXRC(t *testing.T, from, to *QP, conn *ConnectOptions) {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	ef := must(from.Endpoint(rxe.Port, rxe.GID))(t)
	et := must(to.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, to.Connect(ef, conn))
	ok(t, from.Connect(et, conn))
}

// xrcSRQ is an XRC SRQ with its number.
type xrcSRQ struct {
	*SRQ
	num uint32
}

func (b *xrcSide) newSRQ(t *testing.T, cq *CQ) xrcSRQ {
	t.Helper()
	s := closing(t, must(b.pd.CreateSRQ(&SRQOptions{Type: SRQXRC, XRCD: b.xrcd, CQ: cq, MaxSGE: 4}))(t))
	return xrcSRQ{s, must(s.Num())(t)}
}

func (s xrcSRQ) recv(t *testing.T, wrs ...RecvWR) {
	t.Helper()
	if n, err := s.PostRecv(wrs); err != nil || n != len(wrs) {
		t.Fatalf("post recv: %d of %d: %v", n, len(wrs), err)
	}
}

// TestRXE_XRCOpcodes sends each opcode to one of two SRQs, and looks at payload and completion.
func TestRXE_XRCOpcodes(t *testing.T) {
	a, b := newXRC(t, &QPOptions{MaxInline: 64, MaxSendSGE: 4}, nil)
	if a == nil {
		return
	}
	other := &side{dev: b.dev, cq: closing(t, must(b.dev.CreateCQ(512, nil))(t))}
	s1, s2 := b.newSRQ(t, b.cq), b.newSRQ(t, other.cq)
	if s1.num == s2.num || s1.Type() != SRQXRC || s1.CQ() != b.cq {
		t.Fatalf("srq %#x and %#x, %v", s1.num, s2.num, s1.Type())
	}
	from, to := a.mr.Bytes(), b.mr.Bytes()
	remote := b.mr.Remote()
	seed := 0
	for _, tc := range []struct {
		name string
		n    int
		wr   SendWR
		want WC // of the receive; Opcode 0 for none
	}{
		{"send", 10000, SendWR{Opcode: OpSend}, WC{Opcode: WCRecv}},
		{"send of 20", 20, SendWR{Opcode: OpSend}, WC{Opcode: WCRecv}}, // no payload in the completion
		{"send imm", 5000, SendWR{Opcode: OpSendImm, Imm: 0x01020304, Flags: Solicited},
			WC{Opcode: WCRecv, Imm: 0x01020304, Flags: WCWithImm}},
		{"inline", 60, SendWR{Opcode: OpSend, Inline: []byte{}}, WC{Opcode: WCRecv}},
		{"lists", 9000, SendWR{Opcode: OpSend, SGEs: make([]SGE, 3)}, WC{Opcode: WCRecv}},
		{"write", 10000, SendWR{Opcode: OpWrite, Remote: remote.At(0)}, WC{}},
		{"write inline", 33, SendWR{Opcode: OpWrite, Inline: []byte{}, Remote: remote.At(0)}, WC{}},
		{"write imm", 10000, SendWR{Opcode: OpWriteImm, Remote: remote.At(0), Imm: 7},
			WC{Opcode: WCRecvImm, Imm: 7, Flags: WCWithImm}},
	} {
		for i, srq := range []xrcSRQ{s1, s2} {
			seed++
			fill(from[:tc.n], seed)
			clear(to[:tc.n])
			wr := tc.wr
			wr.ID, wr.RemoteSRQN = uint64(seed), srq.num
			wr.Flags |= Signaled
			switch {
			case wr.Inline != nil:
				wr.Inline = from[:tc.n]
			case len(wr.SGEs) == 3:
				wr.SGEs = []SGE{a.mr.SGE(0, 100), a.mr.SGE(100, 1), a.mr.SGE(101, tc.n-101)}
			default:
				wr.SGEs = []SGE{a.mr.SGE(0, tc.n)}
			}
			if tc.want.Opcode != 0 {
				srq.recv(t, RecvWR{ID: uint64(1000 + seed), SGEs: []SGE{b.mr.SGE(0, 5), b.mr.SGE(5, tc.n)}})
			}
			post(t, a.qp, wr)
			a.good(t, wr.ID)
			if tc.want.Opcode != 0 {
				wc := []*side{b.side, other}[i].good(t, uint64(1000+seed))
				if wc.Opcode != tc.want.Opcode || wc.Imm != tc.want.Imm || wc.Flags != tc.want.Flags ||
					wc.ByteLen != uint32(tc.n) || wc.QPN != b.qp.Num() {
					t.Errorf("%s to srq %d arrived as %+v", tc.name, i, wc)
				}
			}
			same(t, to[:tc.n], seed)
		}
	}

	fill(to[:3000], 99)
	post(t, a.qp, SendWR{ID: 1, Opcode: OpRead, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 3000)}, Remote: remote.At(0),
		RemoteSRQN: s1.num})
	a.good(t, 1)
	same(t, from[:3000], 99)
	binary.NativeEndian.PutUint64(to, 100)
	post(t, a.qp,
		SendWR{Opcode: OpFetchAdd, SGEs: []SGE{a.mr.SGE(0, 8)}, Remote: remote.At(0), CompareAdd: 23,
			RemoteSRQN: s1.num},
		SendWR{ID: 2, Opcode: OpCompareSwap, Flags: Signaled, SGEs: []SGE{a.mr.SGE(8, 8)}, Remote: remote.At(0),
			CompareAdd: 123, Swap: 7, RemoteSRQN: s2.num})
	a.good(t, 2)
	if x, y, z := binary.NativeEndian.Uint64(from), binary.NativeEndian.Uint64(from[8:]),
		binary.NativeEndian.Uint64(to); x != 100 || y != 123 || z != 7 {
		t.Errorf("atomics: was %d, then %d, is %d", x, y, z)
	}
}

// TestRXE_XRCAndRC mixes, on one CQ, the receives of an XRC SRQ, those of an RC QP and sends.
func TestRXE_XRCAndRC(t *testing.T) {
	a, b := newXRC(t, nil, nil)
	if a == nil {
		return
	}
	rxe := testutil.NeedRXE(t)
	srq := b.newSRQ(t, b.cq)
	second := closing(t, must(b.xrcd.CreateQP())(t))
	sender := closing(t, must(a.pd.CreateQP(a.cq, nil, &QPOptions{Type: XRCSend}))(t))
	connectXRC(t, sender, second, nil)
	first := a.qp
	rc := a.newQP(t, nil)
	peer := closing(t, must(b.pd.CreateQP(b.cq, b.cq, nil))(t))
	ea, eb := must(rc.Endpoint(rxe.Port, rxe.GID))(t), must(peer.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, rc.Connect(eb, nil))
	ok(t, peer.Connect(ea, nil))

	const rounds, burst = 50, 8
	for round := range rounds {
		for i := range uint64(burst) {
			recv(t, peer, RecvWR{ID: 100 + i, SGEs: []SGE{b.mr.SGE(0, 64)}})
			wr := RecvWR{ID: 200 + i, SGEs: []SGE{b.mr.SGE(0, 64)}}
			srq.recv(t, wr, wr)
		}
		for i := range burst {
			n := (round + i) % 64
			for k, qp := range []*QP{first, rc, sender} {
				if qp == rc {
					post(t, qp, SendWR{ID: uint64(k), Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, n)}})
				} else {
					post(t, qp, SendWR{ID: uint64(k), Opcode: OpSendImm, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, n)},
						RemoteSRQN: srq.num, Imm: qp.Num()})
				}
			}
			post(t, peer, SendWR{ID: 300, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{b.mr.SGE(0, n)},
				Remote: a.mr.Remote().At(0)})
		}
		got := map[uint32]int{}
		for range 4 * burst {
			wc := b.next(t)
			ok(t, wc.Err())
			if wc.ID == 300 {
				got[0]++
				continue
			}
			got[wc.QPN]++
			switch {
			case wc.QPN == peer.Num() && wc.ID/100 == 1:
			case wc.QPN == b.qp.Num() && wc.ID/100 == 2 && wc.Imm == first.Num():
			case wc.QPN == second.Num() && wc.ID/100 == 2 && wc.Imm == sender.Num():
			default:
				t.Fatalf("round %d: %+v", round, wc)
			}
		}
		for range 3 * burst {
			if wc := a.next(t); wc.Err() != nil {
				t.Fatal(wc.Err())
			}
		}
		for _, n := range []uint32{0, peer.Num(), b.qp.Num(), second.Num()} {
			if got[n] != burst {
				t.Fatalf("round %d: %v", round, got)
			}
		}
	}
}

// TestRXE_XRCErrors: what a sender may name, and what becomes of it and of the receive.
func TestRXE_XRCErrors(t *testing.T) {
	for _, tc := range []struct {
		name string
		srqn func(t *testing.T, b *xrcSide, s xrcSRQ) uint32
		n    int
		want WCStatus
		got  WCStatus // of the receive; 0 for none
	}{
		{"no SRQ", func(*testing.T, *xrcSide, xrcSRQ) uint32 { return 0xabcdef }, 8, WCRemInvReqErr, 0},
		{"another domain's", func(t *testing.T, b *xrcSide, _ xrcSRQ) uint32 { return otherDomain(t, b).num }, 8,
			WCRemInvReqErr, 0},
		{"too long", func(_ *testing.T, _ *xrcSide, s xrcSRQ) uint32 { return s.num }, 64, WCRemInvReqErr, WCLocLenErr},
		{"an empty SRQ", nil, 8, WCRNRRetryExcErr, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := newXRC(t, nil, &ConnectOptions{RNRRetry: None})
			if a == nil {
				return
			}
			srq := b.newSRQ(t, b.cq)
			num := srq.num
			if tc.srqn != nil {
				srq.recv(t, RecvWR{ID: 5, SGEs: []SGE{b.mr.SGE(0, 32)}})
				num = tc.srqn(t, b, srq)
			}
			post(t, a.qp, SendWR{ID: 6, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, tc.n)},
				RemoteSRQN: num})
			if wc := a.next(t); wc.Status != tc.want || wc.ID != 6 {
				t.Errorf("the send completed as %+v, want %v", wc, tc.want)
			}
			if tc.got != 0 {
				if wc := b.next(t); wc.Status != tc.got || wc.ID != 5 || wc.QPN != b.qp.Num() {
					t.Errorf("the receive completed as %+v, want %v", wc, tc.got)
				}
			}
		})
	}
}

func otherDomain(t *testing.T, b *xrcSide) xrcSRQ {
	t.Helper()
	x := &xrcSide{side: b.side, xrcd: closing(t, must(b.dev.OpenXRCD(nil, os.O_CREATE))(t))}
	return x.newSRQ(t, closing(t, must(b.dev.CreateCQ(8, nil))(t)))
}

// TestRXE_XRCShared: two openings of the device share a domain by a file. The QP of one delivers to the SRQ of the
// other, also when the one has closed it, as long as the other has it open.
func TestRXE_XRCShared(t *testing.T) {
	a, b := newXRC(t, nil, nil)
	if a == nil {
		return
	}
	file := closing(t, must(os.Create(filepath.Join(t.TempDir(), "domain")))(t))
	_, err := b.dev.OpenXRCD(file, 0)
	wantErr(t, err, syscall.EAGAIN, "os.O_CREATE")
	first := must(b.dev.OpenXRCD(file, os.O_CREATE|os.O_EXCL))(t)
	c := newSide(t, 1, nil)
	_, err = c.dev.OpenXRCD(file, os.O_CREATE|os.O_EXCL)
	wantErr(t, err, syscall.EINVAL, "os.O_EXCL")
	shared := &xrcSide{side: c, xrcd: closing(t, must(c.dev.OpenXRCD(file, 0))(t))}

	qp := must(first.CreateQP())(t)
	sender := closing(t, must(a.pd.CreateQP(a.cq, nil, &QPOptions{Type: XRCSend}))(t))
	connectXRC(t, sender, qp, nil)
	srq := shared.newSRQ(t, c.cq)
	send := func(id uint64) {
		t.Helper()
		fill(a.mr.Bytes()[:100], int(id))
		srq.recv(t, RecvWR{ID: id, SGEs: []SGE{c.mr.SGE(0, 100)}})
		post(t, sender, SendWR{ID: id, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 100)},
			RemoteSRQN: srq.num})
		a.good(t, id)
		if wc := c.good(t, id); wc.QPN != qp.Num() {
			t.Errorf("it came by %#x, want %#x", wc.QPN, qp.Num())
		}
		same(t, c.mr.Bytes()[:100], int(id))
	}
	send(1)
	_, err = shared.xrcd.OpenQP(b.qp.Num())
	wantErr(t, err, syscall.EINVAL, "of this domain")
	opened := closing(t, must(shared.xrcd.OpenQP(qp.Num()))(t))
	if opened.Num() != qp.Num() || opened.Type() != XRCRecv || opened.PD() != nil || opened.SendCQ() != nil {
		t.Errorf("opened %v", opened)
	}
	if at := must(opened.Query(MaskState))(t); at.State != StateRTS || opened.State() != StateRTS {
		t.Errorf("state %v, %v", at.State, opened.State())
	}
	var busy *BusyError
	if err := first.Close(); !errors.As(err, &busy) {
		t.Errorf("closing a domain in use: %v", err)
	}
	ok(t, qp.Close())
	ok(t, first.Close())
	send(2)
}

// TestRXE_XRCClose: completions of an SRQ that is closed are not lost, nor those of others on its CQ, and the CQ takes
// another SRQ.
func TestRXE_XRCClose(t *testing.T) {
	a, b := newXRC(t, nil, nil)
	if a == nil {
		return
	}
	srq := must(b.pd.CreateSRQ(&SRQOptions{Type: SRQXRC, XRCD: b.xrcd, CQ: b.cq}))(t)
	if path, _ := b.cq.DataPath(); path == DataPathDirect {
		_, err := b.pd.CreateSRQ(&SRQOptions{Type: SRQXRC, XRCD: b.xrcd, CQ: b.cq})
		wantErr(t, err, ErrNotSupported, "a CQ for each", "DataPathOps")
	} else {
		ok(t, must(b.pd.CreateSRQ(&SRQOptions{Type: SRQXRC, XRCD: b.xrcd, CQ: b.cq}))(t).Close())
	}
	for name, o := range map[string]interface{ Close() error }{"domain": b.xrcd, "cq": b.cq, "pd": b.pd} {
		var busy *BusyError
		if err := o.Close(); !errors.As(err, &busy) {
			t.Errorf("closing the %s: %v", name, err)
		}
	}
	send := func(s xrcSRQ, n int) {
		t.Helper()
		for i := range n {
			s.recv(t, RecvWR{ID: uint64(i), SGEs: []SGE{b.mr.SGE(0, 100)}})
			post(t, a.qp, SendWR{Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 100)}, RemoteSRQN: s.num})
			a.good(t, 0)
		}
	}
	write := func(id uint64) {
		t.Helper()
		loop := b.newQP(t, nil)
		rxe := testutil.NeedRXE(t)
		ok(t, loop.Connect(must(loop.Endpoint(rxe.Port, rxe.GID))(t), nil))
		post(t, loop, SendWR{ID: id, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{b.mr.SGE(0, 8)},
			Remote: b.mr.Remote().At(64)})
	}
	send(xrcSRQ{srq, must(srq.Num())(t)}, 3)
	write(40)
	send(xrcSRQ{srq, must(srq.Num())(t)}, 3)
	ok(t, srq.Close())
	if _, err := srq.Num(); !errors.Is(err, ErrClosed) {
		t.Errorf("number of a closed srq: %v", err)
	}
	var received, written []uint64 // the two queue pairs have no order between them
	for range 7 {
		switch wc := b.next(t); {
		case wc.Status != WCSuccess:
			t.Fatalf("completion %+v", wc)
		case wc.Opcode == WCWrite:
			written = append(written, wc.ID)
		default:
			received = append(received, wc.ID)
		}
	}
	if !slices.Equal(received, []uint64{0, 1, 2, 0, 1, 2}) || !slices.Equal(written, []uint64{40}) {
		t.Errorf("completions of receives %v, of writes %v", received, written)
	}
	next := b.newSRQ(t, b.cq)
	send(next, 1)
	b.good(t, 0)
	if n, err := b.cq.Poll(make([]WC, 8)); n != 0 || err != nil {
		t.Errorf("%d more completions, %v", n, err)
	}
}
