package mlx5dv

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

const dcKey = 0xfeedbeef01234567

// dcSide is one end: DCTs with an SRQ, or a DCI.
type dcSide struct {
	t   testing.TB
	dev *ibv.Device
	pd  *ibv.PD
	cq  *ibv.CQ
	mr  *ibv.MR
}

func newDCSide(t testing.TB, dev *ibv.Device, path ibv.DataPath) *dcSide {
	s := &dcSide{t: t, dev: dev, pd: closing(t, must(dev.AllocPD())(t))}
	s.cq = closing(t, must(dev.CreateCQ(64, &ibv.CQOptions{DataPath: path}))(t))
	s.mr = closing(t, must(s.pd.AllocMR(1<<16, ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead|ibv.RemoteAtomic, nil))(t))
	return s
}

// dct makes a DCT that is in RTR.
func (s *dcSide) dct(srq *ibv.SRQ, opt *ibv.ConnectOptions) *ibv.QP {
	s.t.Helper()
	q := closing(s.t, must(CreateQP(s.pd, nil, s.cq, &QPOptions{
		QPOptions: ibv.QPOptions{Type: ibv.DCT, SRQ: srq}, DC: &DCOptions{AccessKey: dcKey}}))(s.t))
	s.up(q, opt)
	return q
}

// dci makes a DCI that is in RTS.
func (s *dcSide) dci(opt *QPOptions, connect *ibv.ConnectOptions) *ibv.QP {
	s.t.Helper()
	opt.Type = ibv.DCI
	q := closing(s.t, must(CreateQP(s.pd, s.cq, nil, opt))(s.t))
	s.up(q, connect)
	return q
}

func (s *dcSide) up(q *ibv.QP, opt *ibv.ConnectOptions) {
	s.t.Helper()
	rxe := testutil.NeedRXE(s.t)
	must(q.Endpoint(rxe.Port, rxe.GID))(s.t)
	ok(s.t, q.Connect(ibv.Endpoint{}, opt))
}

// reach returns the path from a DCI to a DCT.
func (s *dcSide) reach(dci, dct *ibv.QP) *ibv.AH {
	s.t.Helper()
	rxe := testutil.NeedRXE(s.t)
	to := must(dct.Endpoint(rxe.Port, rxe.GID))(s.t)
	return closing(s.t, must(s.pd.CreateAH(must(dci.Address(to, nil))(s.t)))(s.t))
}

func (s *dcSide) wait() ibv.WC {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testutil.Patience)
	defer cancel()
	var wc [1]ibv.WC
	if _, err := s.cq.Wait(ctx, wc[:]); err != nil {
		s.t.Fatal(err)
	}
	return wc[0]
}

func (s *dcSide) recv(srq *ibv.SRQ, id uint64, sges ...ibv.SGE) {
	s.t.Helper()
	if _, err := srq.PostRecv([]ibv.RecvWR{{ID: id, SGEs: sges}}); err != nil {
		s.t.Fatal(err)
	}
}

func post(t testing.TB, q *ibv.QP, wrs ...ibv.SendWR) {
	t.Helper()
	if n, err := q.PostSend(wrs); err != nil || n != len(wrs) {
		t.Fatalf("posted %d of %d: %v", n, len(wrs), err)
	}
}

var dcPaths = []ibv.DataPath{ibv.DataPathDirect, ibv.DataPathOps}

// A DCI sends to two DCTs by turns, all opcodes, and each engine understands the other.
func TestRXEDC(t *testing.T) {
	a, b := open(t, 0), open(t, 1)
	if a == nil {
		return
	}
	for _, from := range dcPaths {
		for _, to := range dcPaths {
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) { testDC(t, newDCSide(t, a, from), newDCSide(t, b, to)) })
		}
	}
}

func testDC(t *testing.T, a, b *dcSide) {
	srq := closing(t, must(b.pd.CreateSRQ(&ibv.SRQOptions{MaxWR: 16}))(t))
	dcts := []*ibv.QP{b.dct(srq, nil), b.dct(srq, nil)}
	if dcts[0].Num() == 0 || dcts[0].Num() == dcts[1].Num() || dcts[0].State() != ibv.StateRTR {
		t.Fatalf("numbers %#x and %#x, in %v", dcts[0].Num(), dcts[1].Num(), dcts[0].State())
	}
	dci := a.dci(&QPOptions{QPOptions: ibv.QPOptions{MaxSendSGE: 3, MaxInline: 200}}, nil)
	ah := a.reach(dci, dcts[0])
	ours, theirs := a.mr.Bytes(), b.mr.Bytes()
	for i := range ours {
		ours[i] = byte(i*7 + i>>8)
	}
	at := func(k int, wr ibv.SendWR) ibv.SendWR {
		wr.AH, wr.RemoteQPN, wr.DCKey, wr.Flags = ah, dcts[k].Num(), dcKey, wr.Flags|ibv.Signaled
		return wr
	}
	lists := [][]ibv.SGE{{a.mr.SGE(0, 1)}, {a.mr.SGE(100, 5000)}, {a.mr.SGE(3, 10), a.mr.SGE(50, 1), a.mr.SGE(9000, 700)}}
	for round := range 12 {
		k := round % 2
		b.recv(srq, uint64(round), b.mr.SGE(4096, 8192))
		wr := ibv.SendWR{ID: uint64(100 + round), Opcode: ibv.OpSendImm, Imm: uint32(round), SGEs: lists[round%3]}
		var want []byte
		for _, s := range wr.SGEs {
			from := int(s.Addr - a.mr.SGE(0, 1).Addr)
			want = append(want, ours[from:from+int(s.Length)]...)
		}
		if round%4 == 3 {
			wr.Opcode, wr.SGEs, wr.Inline = ibv.OpSend, nil, ours[:150]
			want = ours[:150]
		}
		clear(theirs)
		post(t, dci, at(k, wr))
		if wc := a.wait(); wc.Status != ibv.WCSuccess || wc.ID != wr.ID || wc.QPN != dci.Num() {
			t.Fatalf("send %d: %+v", round, wc)
		}
		wc := b.wait()
		if wc.Status != ibv.WCSuccess || wc.ID != uint64(round) || wc.QPN != dcts[k].Num() || int(wc.ByteLen) != len(want) ||
			wr.Opcode == ibv.OpSendImm && wc.Imm != uint32(round) {
			t.Errorf("receive %d of DCT %#x: %+v", round, dcts[k].Num(), wc)
		}
		if !bytes.Equal(theirs[4096:4096+len(want)], want) {
			t.Errorf("payload of message %d", round)
		}
	}
	// Remote memory: written, read back, and added to, in one list to both.
	remote := b.mr.Remote()
	b.recv(srq, 99)
	post(t, dci,
		at(0, ibv.SendWR{ID: 1, Opcode: ibv.OpWrite, SGEs: []ibv.SGE{a.mr.SGE(0, 3000)}, Remote: remote.At(1000)}),
		at(1, ibv.SendWR{ID: 2, Opcode: ibv.OpWriteImm, Imm: 77, SGEs: []ibv.SGE{a.mr.SGE(3000, 1000)}, Remote: remote.At(4000)}),
		at(0, ibv.SendWR{ID: 3, Opcode: ibv.OpRead, SGEs: []ibv.SGE{a.mr.SGE(20000, 3000), a.mr.SGE(30000, 1000)},
			Remote: remote.At(1000)}),
		at(1, ibv.SendWR{ID: 4, Opcode: ibv.OpFetchAdd, CompareAdd: 5, SGEs: []ibv.SGE{a.mr.SGE(40000, 8)}, Remote: remote.At(1000)}),
		at(0, ibv.SendWR{ID: 5, Opcode: ibv.OpCompareSwap, CompareAdd: 1, Swap: 2, SGEs: []ibv.SGE{a.mr.SGE(40008, 8)},
			Remote: remote.At(1008)}),
	)
	for id := uint64(1); id <= 5; id++ {
		if wc := a.wait(); wc.Status != ibv.WCSuccess || wc.ID != id {
			t.Fatalf("work request %d: %+v", id, wc)
		}
	}
	if wc := b.wait(); wc.ID != 99 || wc.Imm != 77 || wc.Opcode != ibv.WCRecvImm || wc.QPN != dcts[1].Num() {
		t.Errorf("write with immediate: %+v", wc)
	}
	if !bytes.Equal(ours[20000:23000], ours[:3000]) || !bytes.Equal(ours[30000:31000], ours[3000:4000]) ||
		!bytes.Equal(ours[40000:40008], ours[:8]) || !bytes.Equal(ours[40008:40016], ours[8:16]) ||
		!bytes.Equal(theirs[1008:2000], ours[8:1000]) || theirs[1000] != ours[0]+5 {
		t.Error("what was written, read or added differs")
	}
}
