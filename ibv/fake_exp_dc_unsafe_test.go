package ibv

import (
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// expDC is a DCT, a DCI that is connected, and the address of the DCT.
type expDC struct {
	*side
	srq      *SRQ
	dct, dci *QP
	ah       *AH
}

const expKey = 0x1122334455667788

func newExpDC(t *testing.T) *expDC {
	t.Helper()
	s := &expDC{side: fakeSide(t, nil)}
	s.srq = closing(t, must(s.pd.CreateSRQ(nil))(t))
	s.dct = s.newDCT(t)
	must(s.dct.Endpoint(1, 1))(t)
	ok(t, s.dct.Connect(Endpoint{}, &ConnectOptions{MTU: MTU2048, TrafficClass: 3, FlowLabel: 5, HopLimit: 9}))
	peer := must(s.dct.Endpoint(1, 1))(t)
	s.dci = s.newDCI(t)
	must(s.dci.Endpoint(1, 1))(t)
	ok(t, s.dci.Connect(Endpoint{}, nil))
	s.ah = closing(t, must(s.pd.CreateAH(must(s.dci.Address(peer, nil))(t)))(t))
	return s
}

func (s *expDC) newDCT(t *testing.T) *QP {
	t.Helper()
	return closing(t, must(friends{}.CreateExp(s.pd, s.cq, s.cq, &QPOptions{Type: DCT, SRQ: s.srq}, expKey, 0))(t))
}

func (s *expDC) newDCI(t *testing.T) *QP {
	t.Helper()
	return closing(t, must(friends{}.CreateExp(s.pd, s.cq, s.cq, &QPOptions{Type: DCI, MaxSendWR: 20}, 0, 0))(t))
}

// request returns a work request for the DCT.
func (s *expDC) request(id uint64, op Opcode, n int) SendWR {
	return SendWR{ID: id, Opcode: op, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, n)}, Remote: s.mr.Remote().At(4096),
		AH: s.ah, RemoteQPN: s.dct.Num(), DCKey: expKey}
}

// TestFake_ExpDC sends, writes, reads and adds from a DCI to a DCT, by the experimental verbs.
func TestFake_ExpDC(t *testing.T) {
	inExp(t, func(t *testing.T) {
		s := newExpDC(t)
		if s.dct.Num() == 0 || s.dct.State() != StateRTR || s.dci.State() != StateRTS {
			t.Fatalf("DCT %#x in %v, DCI in %v", s.dct.Num(), s.dct.State(), s.dci.State())
		}
		for id, op := range []Opcode{OpWrite, OpRead, OpFetchAdd, OpCompareSwap, OpSend, OpSendImm, OpWriteImm} {
			n := 64
			if op == OpFetchAdd || op == OpCompareSwap {
				n = 8
			}
			fill(s.mr.Bytes()[:n], id)
			wr := s.request(uint64(id), op, n)
			wr.Imm = 0xa1b2c3d4
			receives := op == OpSend || op == OpSendImm || op == OpWriteImm
			if receives {
				must(s.srq.PostRecv([]RecvWR{{ID: 100, SGEs: []SGE{s.mr.SGE(4096, 64)}}}))(t)
			}
			post(t, s.dci, wr)
			var wcs [3]WC
			if got := must(s.cq.Poll(wcs[:]))(t); got != 1 && !receives || got != 2 && receives {
				t.Fatalf("%v gave %d completions: %+v", op, got, wcs[:got])
			}
			if wc := wcs[0]; receives && (wc.ID != 100 || wc.QPN != s.dct.Num() || wc.Status != WCSuccess ||
				op != OpSend && wc.Imm != 0xa1b2c3d4) {
				t.Errorf("%v is received with %+v", op, wc)
			}
			last := wcs[0]
			if receives {
				last = wcs[1]
			}
			if last.ID != uint64(id) || last.Status != WCSuccess || last.QPN != s.dci.Num() {
				t.Errorf("%v ends with %+v", op, last)
			}
			if op != OpFetchAdd && op != OpCompareSwap && op != OpWriteImm && op != OpRead {
				same(t, s.mr.Bytes()[4096:4096+n], id)
			}
		}
		// A list of more than one, of which the last are refused.
		set(t, "post.at", 3)
		set(t, "post.errno", int(syscall.EINVAL))
		wr := s.request(1, OpWrite, 8)
		if n, err := s.dci.PostSend([]SendWR{wr, wr, wr, wr}); n != 2 || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%d posted, %v", n, err)
		}
		unset(t, "post.at")
		b := s.dci.Batch()
		b.Add(&wr)
		b.Write(1, Signaled, s.mr.SGE(0, 8), s.mr.Remote().At(4096))
		b.ToDCT(s.ah, s.dct.Num(), expKey)
		ok(t, b.Post())
		for name, to := range map[string]func(){
			"ToDCT":    func() { b.ToDCT(s.ah, 1, 1) },
			"OnStream": func() { b.OnStream(1) },
		} {
			to()
			wantErr(t, b.Post(), syscall.EINVAL, name)
			b.Reset()
		}
		b.Write(1, Signaled, s.mr.SGE(0, 8), s.mr.Remote().At(4096))
		b.ToDCT(s.ah, s.dct.Num(), expKey)
		b.OnStream(3)
		wantErr(t, b.Post(), syscall.EINVAL, "DCStream")
		for range 4 {
			s.good(t, 1)
		}
		// No room.
		wr.Flags = 0
		for err := error(nil); err == nil; {
			if _, err = s.dci.PostSend([]SendWR{wr}); err != nil {
				wantErr(t, err, ErrQueueFull)
			}
		}
		ok(t, s.dci.Modify(&QPAttr{State: StateReset}, MaskState))
		s.wrongKey(t)
	})
}

// wrongKey breaks the DCI and not the DCT.
func (s *expDC) wrongKey(t *testing.T) {
	t.Helper()
	ok(t, s.dci.Connect(Endpoint{}, nil))
	wr := s.request(5, OpWrite, 8)
	wr.DCKey++
	post(t, s.dci, wr)
	var wcs [4]WC
	if n := must(s.cq.Poll(wcs[:]))(t); n != 1 || wcs[0].Status != WCRetryExcErr {
		t.Errorf("a wrong key gives %+v", wcs[:n])
	}
	if s.dct.State() != StateRTR {
		t.Errorf("the DCT is in %v", s.dct.State())
	}
}

// TestFake_ExpDCT has the life of a DCT: what it is created with, what it refuses, failures.
func TestFake_ExpDCT(t *testing.T) {
	inExp(t, func(t *testing.T) {
		s := newExpDC(t)
		a := must(s.dct.Query(dctQuery))(t)
		if a.State != StateRTR || a.Access != RemoteWrite|RemoteRead|RemoteAtomic || a.Port != 1 ||
			a.PathMTU != MTU2048 || a.MinRNRTimer != 12 || a.AV.SGIDIndex != 1 || a.AV.TrafficClass != 3 ||
			a.AV.FlowLabel != 5 || a.AV.HopLimit != 9 || !a.AV.Global {
			t.Errorf("the DCT has %+v", a)
		}
		set(t, "exp.dct_state", 1)
		if a := must(s.dct.Query(MaskState))(t); a.State != StateErr {
			t.Errorf("one that is drained is in %v", a.State)
		}
		_, err := s.dct.Query(MaskTimeout)
		wantErr(t, err, nil, "Timeout")
		failing(t, "query_dct", syscall.EIO)
		_, err = s.dct.Query(MaskState)
		wantErr(t, err, syscall.EIO)
		_, err = s.dct.PostSend([]SendWR{s.request(1, OpSend, 8)})
		wantErr(t, err, nil, "DCT")
		_, err = s.dct.PostRecv([]RecvWR{{}})
		wantErr(t, err, nil, "SRQ")
		wantErr(t, s.dct.AttachMcast(GID{}, 0), nil, "DCT")

		n := s.newDCT(t)
		_, err = n.Query(MaskState)
		wantErr(t, err, nil, "RTR")
		init := &QPAttr{State: StateInit, Port: 1, Access: RemoteRead}
		const initMask = MaskState | MaskPort | MaskPKeyIndex | MaskAccessFlags
		for _, c := range []struct {
			attr *QPAttr
			mask QPAttrMask
			want string
		}{
			{init, initMask &^ MaskPort, "Port"},
			{init, initMask | MaskQKey, "QKey"},
			{&QPAttr{State: StateRTS}, MaskState, "RTS"},
			{&QPAttr{State: StateErr}, MaskState, "ERR"},
			{&QPAttr{State: StateInit, Port: 1, PKeyIndex: 256}, initMask, "pkey index 256"},
		} {
			wantErr(t, n.Modify(c.attr, c.mask), nil, c.want)
		}
		if n.State() != StateReset || n.Num() != 0 {
			t.Errorf("a refused change left %v, %#x", n.State(), n.Num())
		}
		ok(t, n.Modify(init, initMask))
		ok(t, n.Control(func(h unsafe.Pointer) {
			if h != nil {
				t.Error("a DCT has a handle before RTR")
			}
		}))
		rtr := &QPAttr{State: StateRTR, PathMTU: MTU1024, AV: AHAttr{Port: 1, Global: true, SGIDIndex: 1}}
		const rtrMask = MaskState | MaskPathMTU | MaskAV | MaskMinRNRTimer
		for _, e := range []syscall.Errno{syscall.ENOMEM, syscall.ENOSYS} {
			failing(t, "create_dct", e)
			err := n.Modify(rtr, rtrMask)
			if e == syscall.ENOSYS {
				wantErr(t, err, ErrNotSupported, "DC", "MLNX_OFED 4")
			} else {
				wantErr(t, err, e)
			}
		}
		unset(t, "fail.create_dct")
		ok(t, n.Modify(rtr, rtrMask))
		ok(t, n.Control(func(h unsafe.Pointer) {
			if h == nil {
				t.Error("a DCT has no handle")
			}
		}))
		failing(t, "destroy_dct", syscall.EBUSY)
		wantErr(t, n.Close(), syscall.EBUSY)
		unset(t, "fail.destroy_dct")
		ok(t, n.Close())
		ok(t, n.Close())
		_, err = n.PostSend([]SendWR{{}})
		wantErr(t, err, ErrClosed)
	})
}

// TestFake_ExpDCI has what a DCI refuses, and failures.
func TestFake_ExpDCI(t *testing.T) {
	inExp(t, func(t *testing.T) {
		s := newExpDC(t)
		for _, c := range []struct {
			want string
			edit func(wr *SendWR)
		}{
			{"AH", func(wr *SendWR) { wr.AH = nil }},
			{"remote qpn", func(wr *SendWR) { wr.RemoteQPN = 1 << 24 }},
			{"DCStream", func(wr *SendWR) { wr.DCStream = 1 }},
			{"invalidating a key", func(wr *SendWR) { wr.Opcode = OpSendInv }},
			{"Opcode", func(wr *SendWR) { wr.Opcode = OpBindMW }},
			{"sge", func(wr *SendWR) { wr.SGEs = make([]SGE, 40) }},
		} {
			wr := s.request(1, OpWrite, 8)
			c.edit(&wr)
			n, err := s.dci.PostSend([]SendWR{wr})
			if n != 0 || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %d, %v", c.want, n, err)
			}
		}
		d := s.newDCI(t)
		must(d.Endpoint(1, 1))(t)
		ok(t, d.Init(nil))
		wantErr(t, d.Modify(&QPAttr{State: StateRTR, PathMTU: MTU1024}, MaskState|MaskPathMTU), ErrNotSupported, "AV",
			"MLNX_OFED 4")
		failing(t, "exp_modify_qp", syscall.EIO)
		wantErr(t, d.Connect(Endpoint{}, nil), syscall.EIO)
		unset(t, "fail.exp_modify_qp")
		ok(t, d.Connect(Endpoint{}, nil))
		if a := must(d.Query(MaskState))(t); a.State != StateRTS {
			t.Errorf("the DCI is in %v", a.State)
		}
		failing(t, "ibv_create_qp", syscall.EINVAL)
		_, err := friends{}.CreateExp(s.pd, s.cq, s.cq, &QPOptions{Type: DCI, MaxSendWR: math.MaxInt32}, 0, 0)
		wantErr(t, err, syscall.EINVAL, "max_send_wr")
		failing(t, "ibv_create_qp", syscall.ENOSYS)
		_, err = friends{}.CreateExp(s.pd, s.cq, s.cq, &QPOptions{Type: DCI}, 0, 0)
		wantErr(t, err, ErrNotSupported, "DC", "MLNX_OFED 4")
		unset(t, "fail.ibv_create_qp")
		for slot, typ := range map[string]QPType{"exp_post_send": DCI, "create_dct": DCT} {
			set(t, "null."+slot, 1)
			dev := must(Open("fake1"))(t)
			pd := must(dev.AllocPD())(t)
			cq := must(dev.CreateCQ(8, nil))(t)
			srq := must(pd.CreateSRQ(nil))(t)
			o := &QPOptions{Type: typ}
			if typ == DCT {
				o.SRQ = srq
			}
			_, err := friends{}.CreateExp(pd, cq, cq, o, 0, 0)
			wantErr(t, err, ErrNotSupported)
			for _, c := range []interface{ Close() error }{srq, cq, pd, dev} {
				ok(t, c.Close())
			}
			unset(t, "null."+slot)
		}
		wrs := []SendWR{s.request(1, OpWrite, 8)}
		set(t, "sink", 1)
		if a := testing.AllocsPerRun(100, func() { _, _ = s.dci.PostSend(wrs) }); a != 0 {
			t.Errorf("PostSend allocates %v times", a)
		}
	})
}
