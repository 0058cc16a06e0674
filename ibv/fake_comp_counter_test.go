package ibv

import (
	"errors"
	"syscall"
	"testing"
)

func TestFake_CompCounters(t *testing.T) {
	inChild(t, variant(t, "OLD=65"), nil, func(t *testing.T) {
		s, other, up := fakeSide(t, nil), fakeSide(t, nil), fakeLoop(t, nil, nil)
		other.newQP(t, nil)
		caps := must(s.dev.QueryCompCounters())(t)
		if *caps != (CompCounterCaps{1 << 48, 7, allCompCounterOps}) {
			t.Errorf("%+v", caps)
		}
		c := must(s.dev.CreateCompCounter(CompCounterBytes))(t)
		if get(t, "comp_cntr.type") != 1 || c.Device() != s.dev {
			t.Errorf("type %d", get(t, "comp_cntr.type"))
		}
		ok(t, errors.Join(c.Set(1<<40), c.Add(2), c.SetErrors(1<<41), c.AddErrors(3)))
		n, e := must(c.Read())(t), must(c.ReadErrors())(t)
		if n != 1<<40+2 || e != 1<<41+3 {
			t.Errorf("%#x completions, %#x errors", n, e)
		}
		qp := must(s.pd.CreateQP(s.cq, s.cq, nil))(t)
		ok(t, c.Attach(qp, CompCounterSend|CompCounterRemoteWrite))
		wantErr(t, c.Attach(qp, CompCounterSend), syscall.EBUSY, "counter for some of Send")
		ok(t, c.Attach(qp, CompCounterRecv))
		wantErr(t, c.Attach(qp, 0), syscall.EINVAL, "ops is 0")
		wantErr(t, c.Attach(qp, 1<<6), syscall.EINVAL, "RemoteWrite")
		wantErr(t, c.Attach(nil, 1), syscall.EINVAL, "nil")
		wantErr(t, c.Attach(other.qp, 1), syscall.EINVAL, "another Device")
		uc := closing(t, must(up.dev.CreateCompCounter(CompCounterWRs))(t))
		wantErr(t, uc.Attach(up.qp, 1), syscall.EINVAL, "RESET or INIT")
		failing(t, "ibv_qp_attach_comp_cntr", syscall.EOPNOTSUPP)
		wantErr(t, uc.Attach(up.qp, CompCounterRead), ErrNotSupported, "completions of Read")
		wantErr(t, c.Close(), syscall.EBUSY, "close the QPs")
		ok(t, qp.Close())
		ok(t, c.Close())
		ok(t, c.Close())
		for _, err := range []error{c.Set(1), c.SetErrors(1), c.Add(1), c.AddErrors(1), c.Attach(qp, 1)} {
			wantErr(t, err, ErrClosed)
		}
		_, err := s.dev.CreateCompCounter(2)
		wantErr(t, err, syscall.EINVAL, "CompCounterType(2)")
		failing(t, "ibv_create_comp_cntr", syscall.EOPNOTSUPP)
		_, err = s.dev.CreateCompCounter(0)
		wantErr(t, err, ErrNotSupported, "Elastic Fabric Adapter", "in software")
		failing(t, "_ibv_query_comp_cntr_caps", syscall.EOPNOTSUPP)
		_, err = s.dev.QueryCompCounters()
		wantErr(t, err, ErrNotSupported, "fake0")
	})
}

// A library before v65 says so.
func TestFake_CompCountersMissing(t *testing.T) {
	s := fakeSide(t, nil)
	_, err := s.dev.CreateCompCounter(0)
	wantErr(t, err, ErrNotSupported, "rdma-core v65 or later", "without ibv_create_comp_cntr")
	_, err = s.dev.QueryCompCounters()
	wantErr(t, err, ErrNotSupported, "rdma-core v65 or later")
}
