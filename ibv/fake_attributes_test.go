package ibv

import (
	"errors"
	"syscall"
	"testing"
)

// TestFake_GRHRequired connects on an InfiniBand port that requires a GRH, and on one that does not.
func TestFake_GRHRequired(t *testing.T) {
	set(t, "port.link_layer", 1)
	set(t, "port.lid", 5)
	gid := GID{0: 0xfe, 1: 0x80, 15: 9}
	for _, tc := range []struct {
		flags  int // of the local port
		peer   Endpoint
		global bool
		want   string // of an error
	}{
		{0, Endpoint{LID: 7, GID: gid}, false, ""},
		{0, Endpoint{LID: 7}, false, ""},
		{0, Endpoint{LID: 7, GID: gid, GRH: true}, true, ""},
		{0, Endpoint{LID: 7, GID: GID{0: 0xfe, 1: 0x81, 15: 9}}, true, ""}, // another subnet
		{0, Endpoint{LID: 7, GRH: true}, true, "requires a GRH"},
		{1, Endpoint{LID: 7, GID: gid}, true, ""},
		{1, Endpoint{LID: 7}, true, "the peer's GID is ::"},
	} {
		set(t, "port.flags", tc.flags)
		s := fakeSide(t, nil)
		qp := closing(t, must(s.pd.CreateQP(s.cq, s.cq, nil))(t))
		local := must(qp.Endpoint(1, 0))(t)
		if local.GRH != (tc.flags != 0) {
			t.Errorf("flags %d: %v", tc.flags, local)
		}
		tc.peer.Type, tc.peer.QPN = RC, 1
		av, err := qp.Address(tc.peer, nil)
		if tc.want != "" {
			wantErr(t, qp.Connect(tc.peer, nil), syscall.EINVAL, tc.want)
			wantErr(t, err, syscall.EINVAL, "the peer's GID is ::", "GRH")
			continue
		}
		ok(t, err)
		if av.Global != tc.global || av.DLID != 7 || tc.global && (av.DGID != tc.peer.GID || av.HopLimit == 0) {
			t.Errorf("flags %d, %v: %+v", tc.flags, tc.peer, av)
		}
		rtr, _, err := qp.conn.rtrAttr(&local, &tc.peer, &ConnectOptions{})
		ok(t, err)
		if rtr.AV != *av {
			t.Errorf("flags %d: connects to %+v, want %+v", tc.flags, rtr.AV, *av)
		}
		_, err = qp.Endpoint(1, 3)
		if tc.flags == 0 {
			ok(t, err)
		} else {
			wantErr(t, err, syscall.EINVAL, "an empty entry")
		}
		set(t, "fail.ibv_create_ah", int(syscall.EINVAL))
		_, err = s.pd.CreateAH(&AHAttr{Port: 1, DLID: 7})
		var arg *ArgError
		if named := errors.As(err, &arg) && arg.Arg == "Global"; named != (tc.flags != 0) {
			t.Errorf("flags %d: an address without a GRH: %v", tc.flags, err)
		}
		set(t, "fail.ibv_create_ah", 0)
	}
}

// TestFake_PathBits: the source LID is one of the port.
func TestFake_PathBits(t *testing.T) {
	s := fakeSide(t, nil)
	qp := closing(t, must(s.pd.CreateQP(s.cq, s.cq, nil))(t))
	attr := &AHAttr{Port: 1, DLID: 7, SrcPathBits: 4}
	ah := must(s.pd.CreateAH(attr))(t) // on Ethernet they mean nothing
	ok(t, ah.Close())
	set(t, "port.link_layer", 1)
	for lmc, want := range []bool{false, false, false, true} {
		set(t, "port.lmc", lmc)
		ah, err := s.pd.CreateAH(attr)
		if want {
			ok(t, err)
			ok(t, ah.Close())
			continue
		}
		wantErr(t, err, syscall.EINVAL, "src_path_bits 4 exceeds the limit", "PortAttr.LMC")
		for mask, a := range map[QPAttrMask]*QPAttr{MaskAV: {AV: *attr}, MaskAltPath: {AltAV: *attr}} {
			wantErr(t, qp.Modify(a, mask), syscall.EINVAL, "src_path_bits 4 exceeds the limit")
		}
	}
}

// TestFake_NoAtomics: nothing is posted that the device lacks.
func TestFake_NoAtomics(t *testing.T) {
	for limit, want := range map[int]string{1: "", 0: "atomics (DeviceAttr.AtomicCap)"} {
		set(t, "atomic_cap", limit)
		a, b := fakePair(t, nil)
		for _, op := range []Opcode{OpFetchAdd, OpCompareSwap} {
			wr := []SendWR{{Opcode: op, SGEs: []SGE{a.mr.SGE(0, 8)}, Remote: b.mr.Remote().At(0)}}
			n, err := a.qp.PostSend(wr)
			if want == "" {
				ok(t, err)
				continue
			}
			var u *UnsupportedError
			if !errors.As(err, &u) || n != 0 {
				t.Errorf("%v: %d posted, %v", op, n, err)
			}
			wantErr(t, err, ErrNotSupported, want)
		}
	}
}

// TestFake_ReadSGEs: a read has no more SGEs than the device reads into.
func TestFake_ReadSGEs(t *testing.T) {
	a, b := fakePair(t, &QPOptions{MaxSendSGE: 3})
	sges := []SGE{a.mr.SGE(0, 8), a.mr.SGE(8, 8), a.mr.SGE(16, 8)}
	for _, tc := range []struct {
		most int
		op   Opcode
		want string
	}{{0, OpRead, ""}, {3, OpRead, ""}, {2, OpWrite, ""}, {2, OpRead, "sge 3 exceeds the limit of a read on fake0"}} {
		a.dev.attr.MaxSGERead = tc.most
		_, err := a.qp.PostSend([]SendWR{{Opcode: tc.op, SGEs: sges, Remote: b.mr.Remote().At(64)}})
		if tc.want == "" {
			ok(t, err)
		} else {
			wantErr(t, err, syscall.EINVAL, tc.want)
		}
	}
}

// TestFake_UsualSizes: what the caller does not say is within the limits of the device.
func TestFake_UsualSizes(t *testing.T) {
	s := fakeSide(t, nil)
	for most, want := range map[int]int{0: 128, 4096: 128, 128: 128, 16: 16} {
		s.dev.attr.MaxQPWR, s.dev.attr.MaxSRQWR = most, most
		qp := must(s.pd.CreateQP(s.cq, s.cq, nil))(t)
		if c := qp.Cap(); c.MaxSendWR != want || c.MaxRecvWR != want {
			t.Errorf("at most %d: %+v", most, c)
		}
		ok(t, qp.Close())
		srq := must(s.pd.CreateSRQ(nil))(t)
		if c := srq.Cap(); c.MaxWR != want {
			t.Errorf("at most %d: %+v", most, c)
		}
		ok(t, srq.Close())
		if send, recv := (friends{}).QueueSizes(s.dev, &QPOptions{MaxRecvWR: None}); send != want || recv != 0 {
			t.Errorf("at most %d: %d sends and %d receives", most, send, recv)
		}
	}
}

// TestFake_LessGranted posts no more than was granted, whatever was asked for.
func TestFake_LessGranted(t *testing.T) {
	friends{}.GrantLess(func(c *QPCap) { *c = QPCap{MaxSendWR: 2, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1} })
	defer friends{}.GrantLess(nil)
	a, b := fakePair(t, &QPOptions{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 2, MaxInline: 64})
	if c := a.qp.Cap(); c.MaxInline != 0 || c.MaxSendWR != 2 {
		t.Fatalf("granted %+v", c)
	}
	wr := SendWR{Opcode: OpWrite, Inline: make([]byte, 8), Remote: b.mr.Remote().At(0)}
	_, err := a.qp.PostSend([]SendWR{wr})
	wantErr(t, err, syscall.EINVAL, "inline bytes 8 exceeds the limit", "(0)", "what was granted")
	wr.Inline, wr.SGEs = nil, []SGE{a.mr.SGE(0, 8), a.mr.SGE(8, 8)}
	_, err = a.qp.PostSend([]SendWR{wr})
	wantErr(t, err, syscall.EINVAL, "sge 2 exceeds the limit")
}
