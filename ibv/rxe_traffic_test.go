package ibv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_RCOpcodes sends each opcode of classic verbs from rxe0 to rxe1 by
// PostSend and by Batch, and checks the payload.
func TestRXE_RCOpcodes(t *testing.T) {
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprintf("batch=%v", batch), func(t *testing.T) {
			a, b := newPair(t, &QPOptions{MaxInline: 64, MaxSendSGE: 4, MaxRecvSGE: 4}, nil)
			remote := b.mr.Remote()
			seed := 0
			run := func(wr SendWR) {
				t.Helper()
				wr.Flags |= Signaled
				if !batch {
					post(t, a.qp, wr)
					return
				}
				q := a.qp.Batch()
				switch s := firstSGE(wr.SGEs); {
				case len(wr.SGEs) > 1:
					q.Add(&wr)
				case wr.Inline != nil && wr.Opcode == OpSend:
					q.SendInline(wr.ID, wr.Flags, wr.Inline)
				case wr.Inline != nil:
					q.WriteInline(wr.ID, wr.Flags, wr.Inline, wr.Remote)
				case wr.Opcode == OpSend:
					q.Send(wr.ID, wr.Flags, s)
				case wr.Opcode == OpSendImm:
					q.SendImm(wr.ID, wr.Flags, s, wr.Imm)
				case wr.Opcode == OpSendInv:
					q.SendInv(wr.ID, wr.Flags, s, wr.InvalidateRKey)
				case wr.Opcode == OpWrite:
					q.Write(wr.ID, wr.Flags, s, wr.Remote)
				case wr.Opcode == OpWriteImm:
					q.WriteImm(wr.ID, wr.Flags, s, wr.Remote, wr.Imm)
				case wr.Opcode == OpRead:
					q.Read(wr.ID, wr.Flags, s, wr.Remote)
				case wr.Opcode == OpCompareSwap:
					q.CompareSwap(wr.ID, wr.Flags, s, wr.Remote, wr.CompareAdd, wr.Swap)
				case wr.Opcode == OpFetchAdd:
					q.FetchAdd(wr.ID, wr.Flags, s, wr.Remote, wr.CompareAdd)
				default:
					t.Fatalf("no batch method for %v", wr.Opcode)
				}
				ok(t, q.Post())
			}
			prepare := func(n int) {
				seed++
				fill(a.mr.Bytes()[:n], seed)
				clear(b.mr.Bytes()[:n])
			}

			const n = 10000 // several packets
			prepare(n)
			recv(t, b.qp, RecvWR{ID: 1, SGEs: []SGE{b.mr.SGE(0, n)}})
			run(SendWR{ID: 2, Opcode: OpSend, SGEs: []SGE{a.mr.SGE(0, n)}})
			a.good(t, 2)
			if wc := b.good(t, 1); wc.Opcode != WCRecv || wc.ByteLen != n || wc.QPN != b.qp.Num() {
				t.Errorf("send arrived as %+v", wc)
			}
			same(t, b.mr.Bytes()[:n], seed)

			prepare(n)
			recv(t, b.qp, RecvWR{ID: 3, SGEs: []SGE{b.mr.SGE(0, n)}})
			run(SendWR{ID: 4, Opcode: OpSendImm, SGEs: []SGE{a.mr.SGE(0, n)}, Imm: 0x01020304, Flags: Solicited})
			a.good(t, 4)
			if wc := b.good(t, 3); wc.Flags&WCWithImm == 0 || wc.Imm != 0x01020304 {
				t.Errorf("send with imm arrived as %+v", wc)
			}
			same(t, b.mr.Bytes()[:n], seed)

			prepare(n)
			run(SendWR{ID: 5, Opcode: OpWrite, SGEs: []SGE{a.mr.SGE(0, n)}, Remote: remote.At(0)})
			a.good(t, 5)
			same(t, b.mr.Bytes()[:n], seed)

			prepare(n)
			recv(t, b.qp, RecvWR{ID: 6})
			run(SendWR{ID: 7, Opcode: OpWriteImm, SGEs: []SGE{a.mr.SGE(0, n)}, Remote: remote.At(0), Imm: 0xfffefdfc})
			a.good(t, 7)
			if wc := b.good(t, 6); wc.Opcode != WCRecvImm || wc.Imm != 0xfffefdfc || wc.ByteLen != n {
				t.Errorf("write with imm arrived as %+v", wc)
			}
			same(t, b.mr.Bytes()[:n], seed)

			seed++
			fill(b.mr.Bytes()[:n], seed)
			run(SendWR{ID: 8, Opcode: OpRead, SGEs: []SGE{a.mr.SGE(0, n)}, Remote: remote.At(0), Flags: Fence})
			if wc := a.good(t, 8); wc.Opcode != WCRead {
				t.Errorf("read completed as %+v", wc)
			}
			same(t, a.mr.Bytes()[:n], seed)

			word := b.mr.Bytes()[4096:]
			binary.NativeEndian.PutUint64(word, 100)
			run(SendWR{ID: 9, Opcode: OpFetchAdd, SGEs: []SGE{a.mr.SGE(0, 8)}, Remote: remote.At(4096), CompareAdd: 23})
			a.good(t, 9)
			if old, now := binary.NativeEndian.Uint64(a.mr.Bytes()), binary.NativeEndian.Uint64(word); old != 100 ||
				now != 123 {
				t.Errorf("fetch and add: was %d, is %d", old, now)
			}
			run(SendWR{ID: 10, Opcode: OpCompareSwap, SGEs: []SGE{a.mr.SGE(0, 8)}, Remote: remote.At(4096),
				CompareAdd: 123, Swap: 7})
			a.good(t, 10)
			if old, now := binary.NativeEndian.Uint64(a.mr.Bytes()), binary.NativeEndian.Uint64(word); old != 123 ||
				now != 7 {
				t.Errorf("compare and swap: was %d, is %d", old, now)
			}
			run(SendWR{ID: 11, Opcode: OpCompareSwap, SGEs: []SGE{a.mr.SGE(0, 8)}, Remote: remote.At(4096),
				CompareAdd: 123, Swap: 8})
			a.good(t, 11)
			if now := binary.NativeEndian.Uint64(word); now != 7 {
				t.Errorf("a compare that fails swapped to %d", now)
			}

			// Inline from a slice on the goroutine's stack.
			var small [48]byte
			seed++
			fill(small[:], seed)
			recv(t, b.qp, RecvWR{ID: 12, SGEs: []SGE{b.mr.SGE(0, 64)}})
			run(SendWR{ID: 13, Opcode: OpSend, Inline: small[:]})
			clear(small[:])
			a.good(t, 13)
			if wc := b.good(t, 12); wc.ByteLen != uint32(len(small)) {
				t.Errorf("inline send arrived as %+v", wc)
			}
			same(t, b.mr.Bytes()[:len(small)], seed)
			seed++
			fill(small[:], seed)
			run(SendWR{ID: 14, Opcode: OpWrite, Inline: small[:], Remote: remote.At(0)})
			a.good(t, 14)
			same(t, b.mr.Bytes()[:len(small)], seed)

			// Gather of three, scatter of two.
			seed++
			fill(a.mr.Bytes()[:600], seed)
			recv(t, b.qp, RecvWR{ID: 15, SGEs: []SGE{b.mr.SGE(0, 500), b.mr.SGE(500, 500)}})
			run(SendWR{ID: 16, Opcode: OpSend, SGEs: []SGE{a.mr.SGE(0, 100), a.mr.SGE(100, 200), a.mr.SGE(300, 300)}})
			a.good(t, 16)
			b.good(t, 15)
			same(t, b.mr.Bytes()[:600], seed)

			// Nothing but a message.
			recv(t, b.qp, RecvWR{ID: 17})
			run(SendWR{ID: 18, Opcode: OpSend, SGEs: []SGE{a.mr.SGE(0, 0)}})
			a.good(t, 18)
			if wc := b.good(t, 17); wc.ByteLen != 0 {
				t.Errorf("an empty message arrived as %+v", wc)
			}
		})
	}
}

func firstSGE(s []SGE) SGE {
	if len(s) == 0 {
		return SGE{}
	}
	return s[0]
}

// TestRXE_SendInv sends with invalidate. Kernels differ in whether an ordinary
// MR's key may be invalidated so; the emulated device refuses it.
func TestRXE_SendInv(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	a, b := newPair(t, nil, &ConnectOptions{RetryCount: 1})
	victim := closing(t, must(b.pd.AllocMR(4096, LocalWrite|RemoteWrite, nil))(t))
	recv(t, b.qp, RecvWR{ID: 1, SGEs: []SGE{b.mr.SGE(0, 64)}})
	fill(a.mr.Bytes()[:8], 1)
	post(t, a.qp, SendWR{ID: 2, Opcode: OpSendInv, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)},
		InvalidateRKey: victim.RKey()})
	wc := a.next(t)
	if wc.ID != 2 {
		t.Fatalf("completion of %d, want 2", wc.ID)
	}
	if rxe.Emulated && wc.Status != WCRemAccessErr {
		t.Fatalf("status %v, want RemAccessErr", wc.Status)
	}
	if err := wc.Err(); err != nil {
		t.Logf("the peer refuses to invalidate the key of an ordinary MR: %v", err)
		return
	}
	in := b.next(t)
	if err := in.Err(); err != nil {
		t.Logf("the receiver may not invalidate the key of an ordinary MR: %v", err)
		if in.ID != 1 {
			t.Errorf("completion of %d, want 1", in.ID)
		}
		return
	}
	if in.ID != 1 || in.Flags&WCWithInv == 0 || in.InvalidatedRKey != victim.RKey() ||
		in.Flags&WCWithImm != 0 || in.Imm != 0 {
		t.Errorf("arrived as %+v, want the key %#x", in, victim.RKey())
	}
	same(t, b.mr.Bytes()[:8], 1)
	post(t, a.qp, SendWR{ID: 3, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)},
		Remote: victim.Remote().At(0)})
	if wc := a.next(t); wc.Status != WCRemAccessErr {
		t.Errorf("a write with the invalidated key: %v", wc.Status)
	}
}

func TestRXE_UC(t *testing.T) {
	a, b := newPair(t, &QPOptions{Type: UC}, nil)
	fill(a.mr.Bytes()[:5000], 3)
	recv(t, b.qp, RecvWR{ID: 1, SGEs: []SGE{b.mr.SGE(0, 5000)}})
	post(t, a.qp, SendWR{ID: 2, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 5000)}})
	a.good(t, 2)
	b.good(t, 1)
	same(t, b.mr.Bytes()[:5000], 3)

	fill(a.mr.Bytes()[:5000], 4)
	recv(t, b.qp, RecvWR{ID: 3})
	post(t, a.qp, SendWR{ID: 4, Opcode: OpWriteImm, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 5000)},
		Remote: b.mr.Remote().At(0), Imm: 9})
	a.good(t, 4)
	if wc := b.good(t, 3); wc.Imm != 9 {
		t.Errorf("imm %d, want 9", wc.Imm)
	}
	same(t, b.mr.Bytes()[:5000], 4)
}

func TestRXE_UD(t *testing.T) {
	a, b := newPair(t, &QPOptions{Type: UD}, nil)
	rxe := testutil.NeedRXE(t)
	dgid := must(b.dev.QueryGID(rxe.Port, rxe.GIDs[1]))(t)
	way := must(a.qp.Address(Endpoint{GID: dgid}, nil))(t)
	if want := (AHAttr{Port: rxe.Port, Global: true, DGID: dgid, SGIDIndex: uint8(rxe.GIDs[0]),
		HopLimit: 64}); *way != want {
		t.Errorf("the way to the peer is %+v, want %+v", *way, want)
	}
	ah := closing(t, must(a.pd.CreateAH(way))(t))
	const grh = 40
	fill(a.mr.Bytes()[:900], 5)
	recv(t, b.qp, RecvWR{ID: 1, SGEs: []SGE{b.mr.SGE(0, grh+1000)}},
		RecvWR{ID: 2, SGEs: []SGE{b.mr.SGE(2000, grh+1000)}})
	post(t, a.qp, SendWR{ID: 3, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 900)}, AH: ah,
		RemoteQPN: b.qp.Num(), RemoteQKey: DefaultQKey})
	a.good(t, 3)
	wc := b.good(t, 1)
	if wc.ByteLen != grh+900 || wc.SrcQPN != a.qp.Num() || wc.Flags&WCGRH == 0 {
		t.Errorf("arrived as %+v", wc)
	}
	same(t, b.mr.Bytes()[grh:grh+900], 5)

	q := a.qp.Batch()
	q.SendImmTo(4, Signaled, a.mr.SGE(0, 10), 77, ah, b.qp.Num(), DefaultQKey)
	ok(t, q.Post())
	a.good(t, 4)
	if wc := b.good(t, 2); wc.Imm != 77 {
		t.Errorf("imm %d, want 77", wc.Imm)
	}

	// Mistakes are named, and nothing is posted.
	if _, err := a.qp.PostSend([]SendWR{{Opcode: OpSend, SGEs: []SGE{a.mr.SGE(0, 8)}}}); err == nil {
		t.Error("a UD send without an address was taken")
	} else {
		t.Log(err)
	}
	q = a.qp.Batch()
	q.Send(5, Signaled, a.mr.SGE(0, 8))
	if err := q.Post(); err == nil {
		t.Error("a UD send without an address was taken in a batch")
	}
	spare := must(a.pd.CreateAH(&AHAttr{Port: rxe.Port, Global: true, DGID: dgid, SGIDIndex: uint8(rxe.GIDs[0]),
		HopLimit: 64}))(t)
	ok(t, spare.Close())
	ok(t, spare.Close())
	if _, err := a.qp.PostSend([]SendWR{{Opcode: OpSend, SGEs: []SGE{a.mr.SGE(0, 8)}, AH: spare}}); !errors.Is(err,
		ErrClosed) {
		t.Errorf("a closed AH: %v", err)
	}
}

// TestRXE_Signatures runs tests of each kind of queue again in processes whose library signs its work requests: queues
// are laid out otherwise then, and are the library's.
func TestRXE_Signatures(t *testing.T) {
	testutil.NeedLogic(t)
	for _, name := range []string{"MLX5_QP_SIGNATURE", "MLX5_SRQ_SIGNATURE", "MLX5_RWQ_SIGNATURE"} {
		c := exec.Command(os.Args[0], "-test.run=^TestRXE_(UD|SRQ|Raw|WQ|SQD)$", "-test.v", "-test.count=1")
		c.Env = append(os.Environ(), name+"=1", "PUREVERBS_DATAPATH=") // direct is not to be had
		if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestRXE_SRQ")) {
			t.Errorf("with %s: %v\n%s", name, err, out)
		}
	}
}

// TestRXE_SRQ receives for two QPs from one SRQ and sees its limit event.
func TestRXE_SRQ(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	a, b := newSide(t, 0, nil), newSide(t, 1, nil)
	srq := closing(t, must(b.pd.CreateSRQ(&SRQOptions{MaxWR: 16, MaxSGE: 2}))(t))
	if wr, sge := srq.Cap().MaxWR, srq.Cap().MaxSGE; wr < 16 || sge < 2 {
		t.Fatalf("granted %d buffers of %d entries", wr, sge)
	}
	var qa, qb [2]*QP
	for i := range qa {
		qa[i] = closing(t, must(a.pd.CreateQP(a.cq, a.cq, nil))(t))
		qb[i] = closing(t, must(b.pd.CreateQP(b.cq, b.cq, &QPOptions{SRQ: srq}))(t))
		ea := must(qa[i].Endpoint(rxe.Port, rxe.GID))(t)
		eb := must(qb[i].Endpoint(rxe.Port, rxe.GID))(t)
		ok(t, qa[i].Connect(eb, nil))
		ok(t, qb[i].Connect(ea, nil))
	}
	if _, err := qb[0].PostRecv([]RecvWR{{ID: 1}}); err == nil {
		t.Error("a receive was posted to a QP with an SRQ")
	}
	if err := srq.Close(); err == nil {
		t.Error("an SRQ in use was closed")
	}
	var wrs [8]RecvWR
	for i := range wrs {
		wrs[i] = RecvWR{ID: uint64(i), SGEs: []SGE{b.mr.SGE(i*1000, 400), b.mr.SGE(i*1000+400, 600)}}
	}
	if n, err := srq.PostRecv(wrs[:]); n != len(wrs) || err != nil {
		t.Fatalf("post srq recv: %d: %v", n, err)
	}
	ok(t, srq.SetLimit(6))
	if at := must(srq.Query())(t); at.Limit != 6 {
		t.Errorf("limit %d, want 6", at.Limit)
	}
	for i := range 4 {
		fill(a.mr.Bytes()[:800], i)
		post(t, qa[i%2], SendWR{ID: uint64(i), Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 800)}})
		a.good(t, uint64(i))
		wc := b.good(t, uint64(i))
		if wc.QPN != qb[i%2].Num() {
			t.Errorf("message %d came to QP %#x, want %#x", i, wc.QPN, qb[i%2].Num())
		}
		same(t, b.mr.Bytes()[i*1000:i*1000+800], i)
	}
	ev := must(b.dev.AsyncEvent(timeout(t)))(t)
	if ev.Type != EventSRQLimitReached || ev.SRQ != srq {
		t.Errorf("event %v, want the limit of the SRQ", ev)
	}
	t.Log(ev)
}

// TestRXE_RegMR moves data from and to slices of the Go heap.
func TestRXE_RegMR(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	a, b := newPair(t, nil, nil)
	src, dst := make([]byte, 70000), make([]byte, 70000)
	fill(src, 1)
	ma := closing(t, must(a.pd.RegMR(src, 0))(t))
	mb := closing(t, must(b.pd.RegMR(dst, LocalWrite|RemoteWrite|RelaxedOrdering))(t))
	post(t, a.qp, SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{ma.SGE(0, len(src))},
		Remote: mb.Remote().At(0)})
	a.good(t, 1)
	same(t, dst, 1)

	// Another slice behind the same MR.
	other := make([]byte, 5000)
	fill(other, 2)
	if err := ma.Rereg(&ReregOptions{Buf: other}); err != nil {
		if rxe.Emulated || !errors.Is(err, ErrNotSupported) {
			t.Errorf("rereg: %v", err)
		}
		t.Logf("rereg: %v", err)
		return
	}
	post(t, a.qp, SendWR{ID: 2, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{ma.SGE(0, len(other))},
		Remote: mb.Remote().At(0)})
	a.good(t, 2)
	same(t, dst[:len(other)], 2)
}
