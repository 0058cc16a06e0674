package mlx5dv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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
	testutil.NeedControl(t)
	s := &dcSide{t: t, dev: dev, pd: closing(t, must(dev.AllocPD())(t))}
	s.cq = closing(t, must(dev.CreateCQ(64, &ibv.CQOptions{DataPath: path}))(t))
	s.mr = closing(t, must(s.pd.AllocMR(1<<16, ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead|ibv.RemoteAtomic, nil))(t))
	return s
}

func (s *dcSide) srq() *ibv.SRQ {
	s.t.Helper()
	path, _ := s.cq.DataPath()
	return closing(s.t, must(s.pd.CreateSRQ(&ibv.SRQOptions{MaxWR: 16, DataPath: path}))(s.t))
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

// engines returns the data paths that post on the device's control path.
func engines(dev *ibv.Device) []ibv.DataPath {
	if native(dev) {
		return []ibv.DataPath{ibv.DataPathDirect}
	}
	return []ibv.DataPath{ibv.DataPathDirect, ibv.DataPathOps}
}

// A DCI sends to two DCTs by turns, all opcodes, and each engine understands the other.
func TestRXEDC(t *testing.T) {
	a, b := open(t, 0), open(t, 1)
	if a == nil {
		return
	}
	for _, from := range engines(a) {
		for _, to := range engines(b) {
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				testDC(t, newDCSide(t, a, from), newDCSide(t, b, to))
			})
		}
	}
}

func testDC(t *testing.T, a, b *dcSide) {
	srq := b.srq()
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
	lists := [][]ibv.SGE{{a.mr.SGE(0, 1)}, {a.mr.SGE(100, 5000)},
		{a.mr.SGE(3, 10), a.mr.SGE(50, 1), a.mr.SGE(9000, 700)}}
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
		if wc.Status != ibv.WCSuccess || wc.ID != uint64(round) || wc.QPN != dcts[k].Num() ||
			int(wc.ByteLen) != len(want) || wr.Opcode == ibv.OpSendImm && wc.Imm != uint32(round) {
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
		at(1, ibv.SendWR{ID: 2, Opcode: ibv.OpWriteImm, Imm: 77, SGEs: []ibv.SGE{a.mr.SGE(3000, 1000)},
			Remote: remote.At(4000)}),
		at(0, ibv.SendWR{ID: 3, Opcode: ibv.OpRead, SGEs: []ibv.SGE{a.mr.SGE(20000, 3000), a.mr.SGE(30000, 1000)},
			Remote: remote.At(1000)}),
		at(1, ibv.SendWR{ID: 4, Opcode: ibv.OpFetchAdd, CompareAdd: 5, SGEs: []ibv.SGE{a.mr.SGE(40000, 8)},
			Remote: remote.At(1000)}),
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

// quickly makes a request that nobody answers fail soon.
var quickly = &ibv.ConnectOptions{AckTimeout: 10 * time.Microsecond, RetryCount: 1, RNRRetry: 1}

// Requests that find no DCT, or no right, and what becomes of both ends.
func TestRXEDC_Failures(t *testing.T) {
	ad, bd := open(t, 0), open(t, 1)
	if ad == nil {
		return
	}
	for _, path := range engines(ad) {
		a, b := newDCSide(t, ad, path), newDCSide(t, bd, path)
		srq := b.srq()
		b.recv(srq, 1, b.mr.SGE(0, 10))
		dct := b.dct(srq, &ibv.ConnectOptions{Access: ibv.RemoteRead})
		gone := must(CreateQP(b.pd, nil, b.cq, &QPOptions{QPOptions: ibv.QPOptions{Type: ibv.DCT, SRQ: srq},
			DC: &DCOptions{AccessKey: dcKey}}))(t)
		b.up(gone, nil)
		number := gone.Num()
		ok(t, gone.Close())
		remote := b.mr.Remote()
		badRemote := remote.At(0)
		badRemote.RKey ^= 1 << 20
		for _, c := range []struct {
			name   string
			wr     ibv.SendWR
			status ibv.WCStatus
			recv   ibv.WCStatus // of b's receive, if there is one
		}{
			{"wrong key", ibv.SendWR{RemoteQPN: dct.Num(), DCKey: dcKey ^ 1<<63, Opcode: ibv.OpSend}, ibv.WCRetryExcErr,
				0},
			{"closed DCT", ibv.SendWR{RemoteQPN: number, DCKey: dcKey, Opcode: ibv.OpSend}, ibv.WCRetryExcErr, 0},
			{"no QP", ibv.SendWR{RemoteQPN: 0xfffff0, DCKey: dcKey, Opcode: ibv.OpSend}, ibv.WCRetryExcErr, 0},
			{"no right", ibv.SendWR{RemoteQPN: dct.Num(), DCKey: dcKey, Opcode: ibv.OpWrite, Remote: remote.At(0)},
				ibv.WCRemInvReqErr, 0},
			{"wrong rkey", ibv.SendWR{RemoteQPN: dct.Num(), DCKey: dcKey, Opcode: ibv.OpRead,
				Remote: badRemote}, ibv.WCRemAccessErr, 0},
			{"receive too short", ibv.SendWR{RemoteQPN: dct.Num(), DCKey: dcKey, Opcode: ibv.OpSend},
				ibv.WCRemInvReqErr, ibv.WCLocLenErr},
			{"no receive", ibv.SendWR{RemoteQPN: dct.Num(), DCKey: dcKey, Opcode: ibv.OpSend}, ibv.WCRNRRetryExcErr, 0},
		} {
			t.Run(fmt.Sprintf("%v, %s", path, c.name), func(t *testing.T) {
				dci := a.dci(&QPOptions{}, quickly)
				c.wr.AH, c.wr.SGEs, c.wr.Flags = a.reach(dci, dct), []ibv.SGE{a.mr.SGE(0, 100)}, ibv.Signaled
				post(t, dci, c.wr)
				if wc := a.wait(); wc.Status != c.status {
					t.Errorf("%+v, want %v", wc, c.status)
				}
				if c.recv != 0 {
					if wc := b.wait(); wc.Status != c.recv || wc.ID != 1 || wc.QPN != dct.Num() {
						t.Errorf("receive: %+v, want %v", wc, c.recv)
					}
				}
				must(dci.Query(ibv.MaskState))(t)
				must(dct.Query(ibv.MaskState))(t)
				if dci.State() != ibv.StateErr || dct.State() != ibv.StateRTR {
					t.Errorf("the DCI is in %v, the DCT in %v", dci.State(), dct.State())
				}
			})
		}
	}
}

// A failed work request stops its stream, and the DCI only when there are as many such streams as it says.
func TestRXEDC_Streams(t *testing.T) {
	ad, bd := open(t, 0), open(t, 1)
	if ad == nil {
		return
	}
	attr := must(QueryDevice(ad))(t)
	for _, path := range engines(ad) {
		t.Run(path.String(), func(t *testing.T) {
			a, b := newDCSide(t, ad, path), newDCSide(t, bd, path)
			create := func(o DCOptions) (*ibv.QP, error) {
				return CreateQP(a.pd, a.cq, nil, &QPOptions{QPOptions: ibv.QPOptions{Type: ibv.DCI}, DC: &o})
			}
			if attr.Has&HasDCIStreams == 0 || attr.DCIStreams.MaxLogConcurrent == 0 {
				var u *ibv.UnsupportedError
				if _, err := create(DCOptions{LogStreams: 2}); !errors.As(err, &u) || u.Need == "" {
					t.Errorf("streams without support: %v", err)
				}
				return
			}
			most := attr.DCIStreams
			for _, o := range []DCOptions{{LogStreams: most.MaxLogConcurrent + 1},
				{LogStreams: 1, LogErrored: most.MaxLogErrored + 1}} {
				var l *ibv.LimitError
				if _, err := create(o); !errors.As(err, &l) || l.Asked != l.Limit+1 {
					t.Errorf("%+v: %v", o, err)
				}
			}
			srq := b.srq()
			dct := b.dct(srq, nil)
			dci := closing(t, must(create(DCOptions{LogStreams: 2, LogErrored: 1}))(t))
			a.up(dci, quickly)
			ah := a.reach(dci, dct)
			wr := func(stream uint16, key uint64) ibv.SendWR {
				return ibv.SendWR{ID: uint64(stream), Opcode: ibv.OpWrite, Flags: ibv.Signaled,
					SGEs: []ibv.SGE{a.mr.SGE(0, 100)}, Remote: b.mr.Remote().At(0), AH: ah,
					RemoteQPN: dct.Num(), DCKey: key, DCStream: stream}
			}
			post(t, dci, wr(0, dcKey), wr(1, 0), wr(1, dcKey), wr(0, dcKey), wr(2, dcKey), wr(2, 0))
			for i, want := range []ibv.WCStatus{0, ibv.WCRetryExcErr, ibv.WCWRFlushErr, 0, 0, ibv.WCRetryExcErr} {
				if wc := a.wait(); wc.Status != want {
					t.Errorf("work request %d: %+v, want %v", i, wc, want)
				}
			}
			must(dci.Query(ibv.MaskState))(t)
			if dci.State() != ibv.StateErr {
				t.Errorf("with two streams in error the DCI is in %v", dci.State())
			}
			ok(t, dci.Modify(&ibv.QPAttr{State: ibv.StateReset}, ibv.MaskState))
			a.up(dci, quickly)
			post(t, dci, wr(1, dcKey))
			if wc := a.wait(); wc.Status != ibv.WCSuccess {
				t.Errorf("after RESET: %+v", wc)
			}
			post(t, dci, wr(1, 0), wr(1, dcKey))
			for _, want := range []ibv.WCStatus{ibv.WCRetryExcErr, ibv.WCWRFlushErr} {
				if wc := a.wait(); wc.Status != want {
					t.Errorf("stream 1: %+v, want %v", wc, want)
				}
			}
			var arg *ibv.ArgError
			if err := ResetDCIStream(dci, 4); !errors.As(err, &arg) || arg.Arg != "stream" {
				t.Errorf("resetting stream 4 of 4: %v", err)
			}
			ok(t, ResetDCIStream(dci, 1))
			post(t, dci, wr(1, dcKey))
			if wc := a.wait(); wc.Status != ibv.WCSuccess {
				t.Errorf("after the stream was reset: %+v", wc)
			}
		})
	}
}

// What is wrong with DC QPs and their work requests, told before the device is asked.
func TestRXEDC_BadInput(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	for _, path := range engines(dev) {
		t.Run(path.String(), func(t *testing.T) { badDC(t, newDCSide(t, dev, path)) })
	}
}

func badDC(t *testing.T, s *dcSide) {
	srq := s.srq()
	argument := func(what, arg string, err error) {
		t.Helper()
		var e *ibv.ArgError
		if !errors.As(err, &e) || e.Arg != arg || e.Want == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	unsupported := func(what string, err error) {
		t.Helper()
		var e *ibv.UnsupportedError
		if !errors.As(err, &e) || e.Need == "" || !errors.Is(err, ibv.ErrNotSupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	create := func(typ ibv.QPType, srq *ibv.SRQ, o QPOptions) error {
		o.Type, o.SRQ = typ, srq
		q, err := CreateQP(s.pd, s.cq, s.cq, &o)
		if err == nil {
			err = errors.Join(errors.New("it was created"), q.Close())
		}
		return err
	}
	argument("a DCT without SRQ", "SRQ", create(ibv.DCT, nil, QPOptions{}))
	argument("a DCI with SRQ", "SRQ", create(ibv.DCI, srq, QPOptions{}))
	argument("a DCI with a key", "AccessKey", create(ibv.DCI, nil, QPOptions{DC: &DCOptions{AccessKey: 1}}))
	argument("a DCT with streams", "LogStreams", create(ibv.DCT, srq, QPOptions{DC: &DCOptions{LogStreams: 1}}))
	argument("errored streams alone", "LogErrored", create(ibv.DCI, nil, QPOptions{DC: &DCOptions{LogErrored: 1}}))
	argument("DC on RC", "DC", create(0, nil, QPOptions{DC: &DCOptions{}}))
	argument("Driver", "Type", create(ibv.Driver, nil, QPOptions{}))
	argument("a DCT that posts", "SendOps", create(ibv.DCT, srq, QPOptions{QPOptions: ibv.QPOptions{SendOps: 1}}))
	argument("a DCI with a read only", "SendOps", create(ibv.DCI, nil,
		QPOptions{QPOptions: ibv.QPOptions{SendOps: ibv.SendOpFlush}}))
	unsupported("AllowScatterToCQE", create(ibv.DCI, nil, QPOptions{Flags: AllowScatterToCQE}))
	_, err := s.pd.CreateQP(s.cq, s.cq, &ibv.QPOptions{Type: ibv.DCI})
	unsupported("ibv's CreateQP of a DCI", err)
	_, err = CreateQP(s.pd, nil, nil, &QPOptions{QPOptions: ibv.QPOptions{Type: ibv.DCI}})
	argument("no CQ", "send CQ", err)

	dct := must(CreateQP(s.pd, nil, s.cq, &QPOptions{QPOptions: ibv.QPOptions{Type: ibv.DCT, SRQ: srq}}))(t)
	besideXRC(t, s, srq)
	if dct.Num() != 0 || dct.Type() != ibv.DCT {
		t.Errorf("a new %v has the number %#x", dct.Type(), dct.Num())
	}
	var state *ibv.ModifyError
	if err := dct.Modify(&ibv.QPAttr{State: ibv.StateRTR}, ibv.MaskState); !errors.As(err, &state) || state.Legal {
		t.Errorf("a DCT from RESET to RTR: %v", err)
	}
	if err := dct.Modify(&ibv.QPAttr{State: ibv.StateReset}, ibv.MaskState); !errors.As(err, &state) || state.Legal {
		t.Errorf("a DCT in RESET to RESET: %v", err)
	}
	var early *ibv.StateError
	if _, err := dct.Query(ibv.MaskState); !errors.As(err, &early) || early.State != ibv.StateReset {
		t.Errorf("a query of a DCT in RESET: %v", err)
	}
	s.up(dct, nil)
	s.up(dct, nil) // nothing is left to do
	number := dct.Num()
	_, err = dct.Query(ibv.MaskState | ibv.MaskSQPSN)
	argument("a query for what a DCT has not", "mask", err)
	if err := dct.Modify(&ibv.QPAttr{State: ibv.StateReset}, ibv.MaskState); !errors.As(err, &state) || state.Legal ||
		dct.Num() != number {
		t.Errorf("a DCT to RESET: %v", err)
	}
	wrs := []ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled, SGEs: []ibv.SGE{s.mr.SGE(0, 8)}}}
	_, err = dct.PostSend(wrs)
	argument("sending from a DCT", "qp", err)
	if _, err := dct.PostRecv([]ibv.RecvWR{{}}); err == nil {
		t.Error("a DCT takes receives")
	}
	var busy *ibv.BusyError
	if err := srq.Close(); !errors.As(err, &busy) {
		t.Errorf("the SRQ of a DCT is closed: %v", err)
	}

	dci := s.dci(&QPOptions{QPOptions: ibv.QPOptions{MaxInline: 32}}, nil)
	_, err = dci.PostRecv([]ibv.RecvWR{{}})
	argument("a receive of a DCI", "qp", err)
	other := closing(t, must(s.dev.AllocPD())(t))
	to := must(dci.Address(must(dct.Endpoint(testutil.NeedRXE(t).Port, testutil.NeedRXE(t).GID))(t), nil))(t)
	foreign := closing(t, must(other.CreateAH(to))(t))
	closed := must(s.pd.CreateAH(to))(t)
	ok(t, closed.Close())
	ah := s.reach(dci, dct)
	for _, c := range []struct {
		name, arg string
		change    func(wr *ibv.SendWR)
	}{
		{"no AH", "AH", func(wr *ibv.SendWR) { wr.AH = nil }},
		{"AH of another PD", "AH", func(wr *ibv.SendWR) { wr.AH = foreign }},
		{"a stream", "DCStream", func(wr *ibv.SendWR) { wr.DCStream = 1 }},
		{"an opcode", "Opcode", func(wr *ibv.SendWR) { wr.Opcode = ibv.OpDriver1 }},
		{"an AH for nothing", "AH", func(wr *ibv.SendWR) { wr.Opcode, wr.SGEs = ibv.OpLocalInv, nil }},
	} {
		wrs[0].Opcode, wrs[0].SGEs, wrs[0].AH, wrs[0].RemoteQPN = ibv.OpSend, []ibv.SGE{s.mr.SGE(0, 8)}, ah, number
		wrs[0].DCStream = 0
		c.change(&wrs[0])
		_, err := dci.PostSend(wrs)
		argument(c.name, c.arg, err)
	}
	wrs[0] = ibv.SendWR{Opcode: ibv.OpSend, AH: closed, SGEs: []ibv.SGE{s.mr.SGE(0, 8)}}
	if _, err := dci.PostSend(wrs); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("a closed AH: %v", err)
	}
	var limit *ibv.LimitError
	wrs[0].AH, wrs[0].RemoteQPN = ah, 1<<24
	if _, err := dci.PostSend(wrs); !errors.As(err, &limit) || limit.Asked != 1<<24 {
		t.Errorf("a DCT number of 25 bits: %v", err)
	}
	ok(t, dct.Close())
	if _, err := dct.PostSend(wrs); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("sending from a closed DCT: %v", err)
	}
	argument("resetting a stream of nothing", "qp", ResetDCIStream(nil, 1))
	argument("resetting a stream of a DCT", "qp", ResetDCIStream(dct, 1))
	if err := ResetDCIStream(dci, 1); !errors.Is(err, ibv.ErrNotSupported) { // a libmlx5 before v37 has no streams
		argument("resetting a stream of a DCI without streams", "stream", err)
	}
}

// Posting to a DCT allocates nothing.
// besideXRC has a DCT and an XRC SRQ complete on one CQ, first on s.cq, which a DCT uses: the direct data path refuses
// the second of them, in either order.
func besideXRC(t *testing.T, s *dcSide, srq *ibv.SRQ) {
	path, _ := s.cq.DataPath()
	xrcd := must(s.dev.OpenXRCD(nil, 0))(t)
	other := must(s.dev.CreateCQ(16, &ibv.CQOptions{DataPath: path}))(t)
	dct := func() (*ibv.QP, error) {
		return CreateQP(s.pd, nil, other, &QPOptions{QPOptions: ibv.QPOptions{Type: ibv.DCT, SRQ: srq}})
	}
	xrc := func(cq *ibv.CQ) (*ibv.SRQ, error) {
		return s.pd.CreateSRQ(&ibv.SRQOptions{Type: ibv.SRQXRC, XRCD: xrcd, CQ: cq})
	}
	verdict := func(what string, close func() error, err error) {
		t.Helper()
		var e *ibv.UnsupportedError
		switch {
		case path != ibv.DataPathDirect && err == nil:
			ok(t, close())
		case path != ibv.DataPathDirect || !errors.As(err, &e) || e.Need == "":
			t.Errorf("%s: %v", what, err)
		}
	}
	x, err := xrc(s.cq)
	verdict("an XRC SRQ beside a DCT", x.Close, err)
	first := must(xrc(other))(t)
	d, err := dct()
	verdict("a DCT beside an XRC SRQ", d.Close, err)
	ok(t, first.Close())
	ok(t, must(dct())(t).Close())
	ok(t, must(xrc(other))(t).Close()) // the DCT is gone
	ok(t, errors.Join(other.Close(), xrcd.Close()))
}

func TestRXEDC_Allocs(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	for _, path := range engines(dev) {
		s := newDCSide(t, dev, path)
		srq := s.srq()
		dct := s.dct(srq, nil)
		dci := s.dci(&QPOptions{QPOptions: ibv.QPOptions{MaxSendWR: 256}}, nil)
		wrs := []ibv.SendWR{{Opcode: ibv.OpWrite, SGEs: []ibv.SGE{s.mr.SGE(0, 8)}, Remote: s.mr.Remote().At(64),
			AH: s.reach(dci, dct), RemoteQPN: dct.Num(), DCKey: dcKey}}
		if n := testing.AllocsPerRun(100, func() {
			if _, err := dci.PostSend(wrs); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: posting allocates %v times", path, n)
		}
		wrs[0].Flags = ibv.Signaled
		post(t, dci, wrs...)
		if wc := s.wait(); wc.Status != ibv.WCSuccess {
			t.Errorf("%v: %+v", path, wc)
		}
	}
}
