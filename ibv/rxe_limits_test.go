package ibv

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_NumbersThatCCuts asks a provider for what would be little in 32 bits, or
// in its own arithmetic.
func TestRXE_NumbersThatCCuts(t *testing.T) {
	s := newSide(t, 0, nil)
	rxe := testutil.NeedRXE(t)
	for _, n := range []int{1<<32 + 5, 1<<31 + 5, math.MaxUint32, math.MaxInt32, 1<<28 + 1} {
		for name, err := range map[string]error{
			"cqe":             closed(s.dev.CreateCQ(n, nil)),
			"max_send_wr":     closed(s.pd.CreateQP(s.cq, s.cq, &QPOptions{MaxSendWR: n})),
			"max_recv_wr":     closed(s.pd.CreateQP(s.cq, s.cq, &QPOptions{MaxRecvWR: n})),
			"max_send_sge":    closed(s.pd.CreateQP(s.cq, s.cq, &QPOptions{MaxSendSGE: n})),
			"max_recv_sge":    closed(s.pd.CreateQP(s.cq, s.cq, &QPOptions{MaxRecvSGE: n})),
			"max_inline_data": closed(s.pd.CreateQP(s.cq, s.cq, &QPOptions{MaxInline: n})),
			"max_wr":          closed(s.pd.CreateSRQ(&SRQOptions{MaxWR: n})),
			"max_sge":         closed(s.pd.CreateSRQ(&SRQOptions{MaxSGE: n})),
			"gid index":       second(s.dev.QueryGID(rxe.Port, n)),
			"pkey index":      second(s.dev.QueryPKey(rxe.Port, n)),
		} {
			var le *LimitError
			if !errors.As(err, &le) || le.What != name || le.Asked != uint64(n) || le.Limit >= math.MaxInt32 {
				t.Errorf("%s %#x: %v", name, n, err)
			}
		}
	}
}

// TestRXE_None makes QPs without some of what a QP has; the rest works.
func TestRXE_None(t *testing.T) {
	s := newSide(t, 0, nil)
	rxe := testutil.NeedRXE(t)
	for _, o := range []QPOptions{{MaxSendWR: None}, {MaxRecvWR: None}, {MaxSendSGE: None}, {MaxRecvSGE: None},
		{MaxInline: None},
		{MaxSendSGE: None, MaxInline: 16}, {MaxSendWR: None, MaxRecvWR: None}, {MaxSendSGE: None, MaxRecvSGE: None}} {
		name := fmt.Sprintf("%+v", o)
		qp := must(s.pd.CreateQP(s.cq, s.cq, &o))(t)
		c := qp.Cap()
		for _, n := range []int{c.MaxSendWR, c.MaxRecvWR, c.MaxSendSGE, c.MaxRecvSGE, c.MaxInline} {
			if n < 0 || n > 4096 {
				t.Errorf("%s: granted %+v", name, c)
			}
		}
		attr, err := qp.Query(MaskState)
		ok(t, err)
		if attr.Cap.MaxInline > 4096 {
			t.Errorf("%s: %+v of a query", name, attr.Cap)
		}
		ok(t, qp.Connect(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
		if c.MaxSendWR > 0 {
			wr := SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, Remote: s.mr.Remote().At(0)}
			post(t, qp, wr)
			s.good(t, 1)
			wr.Inline = make([]byte, c.MaxInline+1)
			n, err := qp.PostSend([]SendWR{wr})
			wantErr(t, err, syscall.EINVAL, "inline")
			if n != 0 {
				t.Errorf("%s: %d bytes inline were taken", name, len(wr.Inline))
			}
		}
		ok(t, qp.Close())
	}
}

// TestRXE_RefusedValue connects with a value beyond the device.
func TestRXE_RefusedValue(t *testing.T) {
	s := newSide(t, 0, nil)
	rxe := testutil.NeedRXE(t)
	qp := s.newQP(t, nil)
	ep := must(qp.Endpoint(rxe.Port, rxe.GID))(t)
	if again := must(qp.Endpoint(rxe.Port, rxe.GID))(t); again != ep {
		t.Errorf("%v, before %v", again, ep)
	}
	wantErr(t, qp.Connect(ep, &ConnectOptions{MTU: 77}), syscall.EINVAL, "MTU(77)")
	err := qp.Connect(ep, &ConnectOptions{MaxDestRdAtomic: 200})
	var le *LimitError
	switch {
	case err == nil && soft(rxe): // SoftRoCE takes what it is given
		ok(t, qp.Modify(&QPAttr{State: StateReset}, MaskState))
		ep = must(qp.Endpoint(rxe.Port, rxe.GID))(t)
	case !errors.As(err, &le) || le.What != "max_dest_rd_atomic" || le.Asked != 200:
		t.Errorf("%v, want the limit of max_dest_rd_atomic", err)
	}
	ok(t, qp.Connect(ep, &ConnectOptions{MaxDestRdAtomic: None, MaxRdAtomic: None, Access: AccessNone}))
	attr, err := qp.Query(MaskAccessFlags | MaskMaxDestRdAtomic | MaskMaxQPRdAtomic)
	ok(t, err)
	if attr.Access&remoteAccess != 0 || attr.MaxDestRdAtomic > 1 || attr.MaxRdAtomic > 1 { // devices round 0 up
		t.Errorf("%+v", attr)
	}
	post(t, qp, SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 8)},
		Remote: s.mr.Remote().At(8)})
	if wc := s.next(t); wc.Err() == nil {
		t.Error("a write to a QP without remote access is a success")
	}
}

// TestRXE_ResizeSRQ: SoftRoCE can, mlx5 cannot.
func TestRXE_ResizeSRQ(t *testing.T) {
	s := newSide(t, 0, nil)
	path, _ := s.cq.DataPath()
	srq := closing(t, must(s.pd.CreateSRQ(&SRQOptions{MaxWR: 16, DataPath: path}))(t))
	before := srq.Cap().MaxWR
	want := 4 * before
	err := srq.Resize(want)
	if path == DataPathDirect {
		wantErr(t, err, ErrNotSupported, "Direct")
	}
	after := srq.Cap().MaxWR
	if err != nil && after != before || err == nil && after < want {
		t.Fatalf("resized from %d to %d, %v: %d", before, want, err, after)
	}
	if a := must(srq.Query())(t); a.MaxWR != after && path == DataPathOps && err == nil {
		t.Errorf("%d, the device has %d", after, a.MaxWR)
	}
	if n, err := srq.PostRecv(make([]RecvWR, after)); n != after {
		t.Errorf("%d receives of %d: %v", n, after, err)
	}
	// The kernel's drivers take a limit up to what Query has, which is more than libmlx5 grants.
	most := must(srq.Query())(t).MaxWR
	for _, n := range []int{-1, most + 1, 1 << 20} {
		err = srq.SetLimit(n)
		var le *LimitError
		if n < 0 {
			wantErr(t, err, syscall.EINVAL, fmt.Sprintf("0 to %d", most))
		} else if !errors.As(err, &le) || le.Limit != uint64(most) {
			t.Errorf("limit %d beyond %d: %v", n, most, err)
		}
	}
	ok(t, srq.SetLimit(most))
	t.Run("Ops", func(t *testing.T) {
		testutil.NeedControl(t)
		ops := closing(t, must(s.pd.CreateSRQ(&SRQOptions{MaxWR: 16, DataPath: DataPathOps}))(t))
		if s.dev.attr.CapFlags&DeviceSRQResize == 0 {
			wantErr(t, ops.Resize(64), ErrNotSupported, "SRQResize")
		} else {
			ok(t, ops.Resize(64))
		}
	})
}

// TestRXE_Refusals names the field that is wrong in what the kernel refuses without a reason.
func TestRXE_Refusals(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	s := newSide(t, 0, nil)
	good := AHAttr{Port: rxe.Port, Global: true, DGID: must(s.dev.QueryGID(rxe.Port, rxe.GID))(t),
		SGIDIndex: uint8(rxe.GID), HopLimit: 64}
	qp := closing(t, must(s.pd.CreateQP(s.cq, s.cq, nil))(t))
	changes := map[string]func(*AHAttr){
		"Port is 0; it must be 1 to 1":   func(a *AHAttr) { a.Port = 0 },
		"Port is 200; it must be 1 to 1": func(a *AHAttr) { a.Port = 200 },
	}
	if !rxe.IB { // which needs no GRH
		changes["Global is false"] = func(a *AHAttr) { a.Global = false }
	}
	for what, change := range changes {
		a := good
		change(&a)
		ok(t, qp.Modify(&QPAttr{}, MaskState))
		ok(t, qp.Modify(&QPAttr{State: StateInit, Port: rxe.Port},
			MaskState|MaskPKeyIndex|MaskPort|MaskAccessFlags))
		err := qp.Modify(&QPAttr{State: StateRTR, PathMTU: MTU1024, DestQPN: qp.Num(), MinRNRTimer: 12, AV: a},
			MaskState|MaskAV|MaskPathMTU|MaskDestQPN|MaskRQPSN|MaskMaxDestRdAtomic|MaskMinRNRTimer)
		wantErr(t, err, syscall.EINVAL, "AV."+what)
		_, err = s.pd.CreateAH(&a)
		wantErr(t, err, syscall.EINVAL, what)
	}
	if !rxe.IB { // which resolves nothing
		testBadPaths(t, s, qp, good)
	}
	for _, bits := range []AccessFlags{1 << 15, 1 << 30} {
		mr, err := s.pd.RegMR(make([]byte, 4096), LocalWrite|bits)
		if err == nil { // SoftRoCE looks at none of them
			ok(t, mr.Close())
		} else {
			wantErr(t, err, syscall.EINVAL, fmt.Sprintf("bits %#x", uint32(bits)))
		}
	}
	if !soft(rxe) {
		err := s.pd.Advise(Advice(7), true, s.mr.SGE(0, 8))
		wantErr(t, err, syscall.EINVAL, "Advice(7)", "AdvicePrefetchNoFault")
	}
}

// testBadPaths has addresses that lead nowhere: an address handle and a queue pair get the kernel's errno, and the two
// GIDs are named. Linux, drivers/infiniband/core: rdma_get_gid_attr, rdma_resolve_ip.
func testBadPaths(t *testing.T, s *side, qp *QP, a AHAttr) {
	ok(t, qp.Modify(&QPAttr{}, MaskState))
	ok(t, qp.Modify(&QPAttr{State: StateInit, Port: a.Port}, MaskState|MaskPKeyIndex|MaskPort|MaskAccessFlags))
	for _, c := range []struct {
		name string
		sgid uint8
		dgid string
		want syscall.Errno
	}{
		{"an empty GID", 250, "::ffff:192.0.2.1", errNoData},
		{"two families", a.SGIDIndex, "2001:db8::1", syscall.EINVAL},
		{"nobody", a.SGIDIndex, "::ffff:192.0.2.1", syscall.ETIMEDOUT},
	} {
		a.SGIDIndex, a.DGID = c.sgid, must(ParseGID(c.dgid))(t)
		_, err := s.pd.CreateAH(&a)
		var pe *PathError
		if !errors.As(err, &pe) || pe.Errno != c.want || pe.Remote != a.DGID {
			t.Errorf("%s: %v, want a *PathError of %v", c.name, err, c.want)
		}
		err = qp.Modify(&QPAttr{State: StateRTR, PathMTU: MTU1024, DestQPN: qp.Num(), MinRNRTimer: 12, AV: a},
			MaskState|MaskAV|MaskPathMTU|MaskDestQPN|MaskRQPSN|MaskMaxDestRdAtomic|MaskMinRNRTimer)
		if !errors.As(err, &pe) || pe.Errno != c.want {
			t.Errorf("%s, to RTR: %v, want a *PathError of %v", c.name, err, c.want)
		}
	}
}
