package ibv

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// fakeXRC is an XRC domain with a receiving QP, and a QP that sends to it, on one device.
func fakeXRC(t *testing.T) (s *side, x *XRCD, to *QP) {
	t.Helper()
	s = fakeSide(t, nil)
	x = closing(t, must(s.dev.OpenXRCD(nil, os.O_CREATE))(t))
	to = closing(t, must(x.CreateQP())(t))
	s.qp = closing(t, must(s.pd.CreateQP(s.cq, nil, &QPOptions{Type: XRCSend, MaxSendSGE: 2, MaxInline: 64}))(t))
	connect(t, s.qp, to)
	return s, x, to
}

func (s *side) xrcSRQ(t *testing.T, x *XRCD) (*SRQ, uint32) {
	t.Helper()
	srq := closing(t, must(s.pd.CreateSRQ(&SRQOptions{Type: SRQXRC, XRCD: x, CQ: s.cq}))(t))
	return srq, must(srq.Num())(t)
}

// The number of the SRQ gets to the library by every way of posting, and changes from one to the next.
func TestFake_XRC(t *testing.T) {
	s, x, to := fakeXRC(t)
	var srqs [3]*SRQ
	var nums [3]uint32
	for i := range srqs {
		srqs[i], nums[i] = s.xrcSRQ(t, x)
	}
	batch := s.qp.Batch()
	for i := range 12 {
		k := i % 3
		id := uint64(k*100 + i)
		if n, err := srqs[k].PostRecv([]RecvWR{{ID: id, SGEs: []SGE{s.mr.SGE(4096, 64)}}}); n != 1 || err != nil {
			t.Fatal(err)
		}
		fill(s.mr.Bytes()[:64], i)
		wr := SendWR{ID: 1000, Opcode: OpSendImm, Imm: uint32(i), RemoteSRQN: nums[k], SGEs: []SGE{s.mr.SGE(0, 64)}}
		switch i / 3 {
		case 0:
			post(t, s.qp, wr)
		case 1:
			wr.SGEs, wr.Inline = nil, s.mr.Bytes()[:64]
			post(t, s.qp, wr)
		case 2:
			wr.SGEs = []SGE{s.mr.SGE(0, 10), s.mr.SGE(10, 54)}
			post(t, s.qp, wr)
		default:
			batch.Add(&wr)
			ok(t, batch.Post())
		}
		if wc := s.good(t, id); wc.Imm != uint32(i) || wc.QPN != to.Num() {
			t.Errorf("message %d arrived as %+v", i, wc)
		}
		same(t, s.mr.Bytes()[4096:4096+64], i)
	}
	if to.PD() != nil || to.SendCQ() != nil || to.RecvCQ() != nil || s.qp.RecvCQ() != nil || to.Type() != XRCRecv {
		t.Error("an XRCRecv QP with a PD or a CQ")
	}
	if p, why := to.DataPath(); p != DataPathAuto || why == "" {
		t.Errorf("data path %v, %q", p, why)
	}
	opened := must(x.OpenQP(to.Num()))(t)
	if opened.Num() != to.Num() || opened.State() != StateUnknown {
		t.Errorf("opened %#x in state %v", opened.Num(), opened.State())
	}
	ok(t, opened.Close())
	// Another domain's SRQ is not reached.
	other := closing(t, must(s.dev.OpenXRCD(nil, 0))(t))
	_, num := s.xrcSRQ(t, other)
	post(t, s.qp, SendWR{ID: 7, Opcode: OpSend, Flags: Signaled, RemoteSRQN: num})
	if wc := s.next(t); wc.ID != 7 || wc.Status != WCRemInvReqErr {
		t.Errorf("to another domain: %+v", wc)
	}
}

func TestFake_XRCDFile(t *testing.T) {
	s := fakeSide(t, nil)
	f := must(os.Create(filepath.Join(t.TempDir(), "domain")))(t)
	fd := int(f.Fd())
	x := must(s.dev.OpenXRCD(f, os.O_CREATE|os.O_EXCL))(t)
	if get(t, "xrcd.fd") != fd || get(t, "xrcd.oflags") != os.O_CREATE|os.O_EXCL {
		t.Errorf("fd %d, flags %#x", get(t, "xrcd.fd"), get(t, "xrcd.oflags"))
	}
	if x.Device() != s.dev {
		t.Error("another device")
	}
	ok(t, x.Close())
	ok(t, x.Close())
	ok(t, f.Close())
	_, err := s.dev.OpenXRCD(f, 0)
	wantErr(t, err, nil, "open xrcd fake0", "closed file")
	ok(t, must(s.dev.OpenXRCD(nil, 0))(t).Close())
	if get(t, "xrcd.fd") != -1 {
		t.Errorf("without a file fd %d", get(t, "xrcd.fd"))
	}
	_, err = x.CreateQP()
	wantErr(t, err, ErrClosed)
	_, err = x.OpenQP(1)
	wantErr(t, err, ErrClosed)
}

// What is refused before the library is asked.
func TestFake_XRCArguments(t *testing.T) {
	s, x, to := fakeXRC(t)
	far := must(Open("fake1"))(t)
	defer far.Close()
	farX, farCQ := must(far.OpenXRCD(nil, 0))(t), must(far.CreateCQ(4, nil))(t)
	defer farX.Close()
	defer farCQ.Close()
	basic := closing(t, must(s.pd.CreateSRQ(nil))(t))
	srq, _ := s.xrcSRQ(t, x)
	qp := func(recv *CQ, o QPOptions) func() error {
		return func() error { _, err := s.pd.CreateQP(s.cq, recv, &o); return err }
	}
	shared := func(o SRQOptions) func() error {
		return func() error { _, err := s.pd.CreateSRQ(&o); return err }
	}
	for _, c := range []struct {
		name string
		call func() error
		want string
	}{
		{"flags", func() error { _, err := s.dev.OpenXRCD(nil, os.O_RDWR); return err }, "os.O_EXCL"},
		{"recv CQ", qp(s.cq, QPOptions{Type: XRCSend}), "nil with XRCSend"},
		{"no send CQ", func() error {
			_, err := s.pd.CreateQP(nil, nil, &QPOptions{Type: XRCSend})
			return err
		}, "send CQ"},
		{"SRQ of a sender", qp(nil, QPOptions{Type: XRCSend, SRQ: basic}), "receives nothing"},
		{"XRC SRQ of an RC QP", qp(s.cq, QPOptions{SRQ: srq}), "name an XRC SRQ in each message"},
		{"XRCRecv on a PD", qp(s.cq, QPOptions{Type: XRCRecv}), "XRCD.CreateQP"},
		{"no recv CQ", qp(nil, QPOptions{}), "recv CQ"},
		{"type", shared(SRQOptions{Type: 3}), "SRQBasic, SRQXRC or SRQTM"},
		{"CQ of a basic one", shared(SRQOptions{CQ: s.cq}), "nil with SRQBasic"},
		{"domain of a basic one", shared(SRQOptions{XRCD: x}), "nil with SRQBasic"},
		{"no CQ", shared(SRQOptions{Type: SRQXRC, XRCD: x}), "CQ is nil"},
		{"no domain", shared(SRQOptions{Type: SRQXRC, CQ: s.cq}), "XRCD is nil"},
		{"tags", shared(SRQOptions{Type: SRQXRC, CQ: s.cq, XRCD: x, MaxTags: 1}), "0 with SRQXRC"},
		{"far CQ", shared(SRQOptions{Type: SRQXRC, CQ: farCQ, XRCD: x}), "same Device"},
		{"far domain", shared(SRQOptions{Type: SRQXRC, CQ: s.cq, XRCD: farX}), "same Device"},
		{"data path", shared(SRQOptions{Type: SRQXRC, CQ: s.cq, XRCD: x, DataPath: DataPathDirect}), "that of the CQ"},
		{"open number", func() error { _, err := x.OpenQP(1 << 24); return err }, "qpn"},
		{"not of the domain", func() error { _, err := x.OpenQP(s.qp.Num()); return err }, "of this domain"},
		{"srqn", func() error {
			_, err := s.qp.PostSend([]SendWR{{Opcode: OpSend, RemoteSRQN: 1 << 24}})
			return err
		}, "remote srqn"},
		{"recv on a sender", func() error {
			_, err := s.qp.PostRecv(make([]RecvWR, 1))
			return err
		}, "receives nothing"},
		{"tag ops", func() error { _, err := srq.PostTagOps(make([]TagOp, 1)); return err }, "SRQTM"},
	} {
		t.Run(c.name, func(t *testing.T) { wantErr(t, c.call(), syscall.EINVAL, c.want) })
	}
	empty := s.qp.Batch()
	empty.ToSRQ(1)
	wantErr(t, empty.Post(), syscall.EINVAL, "ToSRQ")
	_, err := to.PostSend(make([]SendWR, 1))
	wantErr(t, err, ErrNotSupported, "an XRCSend QP")
	_, err = to.PostRecv(make([]RecvWR, 1))
	wantErr(t, err, ErrNotSupported, "an XRC SRQ")
	_, err = basic.Num()
	wantErr(t, err, ErrNotSupported, "the number of an SRQ")
	e := must(s.qp.Endpoint(1, 1))(t)
	wantErr(t, s.qp.Connect(e, nil), syscall.EINVAL, "XRCRecv")
	var busy *BusyError
	for _, o := range []interface{ Close() error }{x, s.cq, s.pd} {
		if err := o.Close(); !errors.As(err, &busy) {
			t.Errorf("close: %v", err)
		}
	}
}

// What fails in the library, or is missing in it.
func TestFake_XRCRefused(t *testing.T) {
	s, x, _ := fakeXRC(t)
	for _, c := range []struct {
		fn   string
		call func() error
	}{
		{"open_xrcd", func() error { _, err := s.dev.OpenXRCD(nil, 0); return err }},
		{"create_qp_ex", func() error { _, err := x.CreateQP(); return err }},
		{"open_qp", func() error { _, err := x.OpenQP(1); return err }},
		{"create_srq_ex", func() error {
			_, err := s.pd.CreateSRQ(&SRQOptions{Type: SRQXRC, XRCD: x, CQ: s.cq})
			return err
		}},
	} {
		t.Run(c.fn, func(t *testing.T) {
			failing(t, c.fn, syscall.EOPNOTSUPP)
			wantErr(t, c.call(), ErrNotSupported, "use RC QPs")
			failing(t, c.fn, syscall.EIO)
			wantErr(t, c.call(), syscall.EIO)
		})
	}
}

func TestFake_XRCMissing(t *testing.T) {
	set(t, "null.xrc", 1)
	s := fakeSide(t, nil)
	_, err := s.dev.OpenXRCD(nil, 0)
	wantErr(t, err, ErrNotSupported, "fake0", "DeviceXRC")
	srq := closing(t, must(s.pd.CreateSRQ(nil))(t))
	_, err = srq.Num()
	wantErr(t, err, ErrNotSupported)
}

// A domain that cannot be closed stays open.
func TestFake_XRCDStays(t *testing.T) {
	s := fakeSide(t, nil)
	x := must(s.dev.OpenXRCD(nil, 0))(t)
	failing(t, "close_xrcd", syscall.ENOENT)
	wantErr(t, x.Close(), syscall.ENOENT, "close xrcd")
	unset(t, "fail.close_xrcd")
	ok(t, x.Close())
}
