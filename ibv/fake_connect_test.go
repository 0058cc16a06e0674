package ibv

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// connectAttrs are the attributes that Connect gives a QP, of all its steps.
func connectAttrs(t *testing.T, qp *QP, opt *ConnectOptions) QPAttr {
	t.Helper()
	ep := must(qp.Endpoint(1, 1))(t)
	init, _ := qp.conn.initAttr(&ep, opt)
	rtr, _, err := qp.conn.rtrAttr(&ep, &ep, opt)
	ok(t, err)
	rts, _ := qp.conn.rtsAttr(&ep, &ep, opt)
	rtr.Access = init.Access
	rtr.Timeout, rtr.RetryCnt, rtr.RNRRetry, rtr.MaxRdAtomic = rts.Timeout, rts.RetryCnt, rts.RNRRetry, rts.MaxRdAtomic
	return *rtr
}

func TestFake_AccessNone(t *testing.T) {
	a := fakeSide(t, nil)
	qa := a.newQP(t, nil)
	b := &side{dev: a.dev}
	b.more(t, nil)
	qb := b.newQP(t, nil)
	ea, eb := must(qa.Endpoint(1, 1))(t), must(qb.Endpoint(1, 1))(t)
	ok(t, qa.Connect(eb, &ConnectOptions{Access: AccessNone}))
	ok(t, qb.Init(&ConnectOptions{Access: AccessNone | LocalWrite}))
	ok(t, qb.Connect(ea, &ConnectOptions{Access: AccessNone}))

	for opt, want := range map[AccessFlags]AccessFlags{
		0:                       LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic,
		AccessNone:              0,
		AccessNone | LocalWrite: LocalWrite,
		RemoteRead:              RemoteRead,
	} {
		attr := connectAttrs(t, qa, &ConnectOptions{Access: opt})
		if got := AccessFlags(attr.toC().QPAccessFlags); got != want {
			t.Errorf("access %v is sent as %v", opt, got)
		}
	}
	_, err := a.pd.AllocMR(64, LocalWrite|AccessNone, nil)
	wantErr(t, err, syscall.EINVAL, "AccessNone", "LocalWrite")
	_, err = a.pd.RegMR(make([]byte, 64), AccessNone)
	wantErr(t, err, syscall.EINVAL, "AccessNone")
	_, err = a.pd.RegMemory(a.mr.addr, 64, 0, AccessNone)
	wantErr(t, err, syscall.EINVAL, "AccessNone")
	access := AccessNone
	wantErr(t, a.mr.Rereg(&ReregOptions{Access: &access}), syscall.EINVAL, "AccessNone")
	idle := closing(t, must(a.pd.CreateQP(a.cq, a.cq, nil))(t))
	must(idle.Endpoint(1, 1))(t)
	wantErr(t, idle.Init(&ConnectOptions{Access: AccessNone | RemoteRead}), syscall.EINVAL,
		"RemoteRead|AccessNone")
	wantErr(t, idle.Modify(&QPAttr{State: StateInit, Port: 1, Access: AccessNone | RemoteWrite},
		MaskState|MaskPort|MaskPKeyIndex|MaskAccessFlags), syscall.EINVAL, "AccessNone")
}

// What Connect is given for INIT is not dropped when Init came first.
func TestFake_LateOptions(t *testing.T) {
	s := fakeSide(t, nil)
	opt := &ConnectOptions{Access: AccessNone, PKeyIndex: 3, QKey: 7}
	for _, c := range []struct {
		typ      QPType
		rtr, rts QPAttrMask
	}{
		{RC, MaskAccessFlags | MaskPKeyIndex, MaskAccessFlags},
		{UC, MaskAccessFlags | MaskPKeyIndex, MaskAccessFlags},
		{UD, MaskQKey | MaskPKeyIndex, MaskQKey},
		{RawPacket, 0, 0},
	} {
		qp := closing(t, must(s.pd.CreateQP(s.cq, s.cq, &QPOptions{Type: c.typ}))(t))
		for state, want := range map[QPState]QPAttrMask{StateRTR: c.rtr, StateRTS: c.rts} {
			a := &QPAttr{State: state}
			if got := qp.conn.lateAttr(a, opt); got != want || got&MaskAccessFlags != 0 && a.Access != AccessNone ||
				got&MaskQKey != 0 && a.QKey != 7 ||
				got&MaskPKeyIndex != 0 && a.PKeyIndex != 3 {
				t.Errorf("%v to %v: %v, want %v of %+v", c.typ, state, got, want, a)
			}
			if got := qp.conn.lateAttr(a, &ConnectOptions{}); got != 0 {
				t.Errorf("%v to %v: %v of nothing", c.typ, state, got)
			}
			_, optional, legal := RequiredAttrs(c.typ, map[QPState]QPState{StateRTR: StateInit,
				StateRTS: StateRTR}[state], state)
			if !legal || want&^optional != 0 {
				t.Errorf("%v to %v: %v are not allowed", c.typ, state, want&^optional)
			}
		}
	}
}

// Who asks twice gets the same, until the QP is reset.
func TestFake_EndpointTwice(t *testing.T) {
	s := fakeSide(t, nil)
	a := s.newQP(t, nil)
	first := must(a.Endpoint(1, 1))(t)
	for range 3 {
		if e := must(a.Endpoint(1, 1))(t); e != first {
			t.Fatalf("%v, before %v", e, first)
		}
	}
	if e := must(a.Endpoint(1, 0))(t); e.PSN != first.PSN || e.GID == first.GID {
		t.Errorf("by another GID %v, before %v", e, first)
	}
	psns := map[uint32]bool{first.PSN: true}
	for range 8 {
		ok(t, a.Modify(&QPAttr{State: StateReset}, MaskState))
		psns[must(a.Endpoint(1, 1))(t).PSN] = true
	}
	if len(psns) < 7 {
		t.Errorf("%d PSNs in 9 lives", len(psns))
	}
}

// A port that is down has no best GID; any of its GIDs can still be named.
func TestFake_BestGIDOfADownPort(t *testing.T) {
	t.Setenv("SYSFS_PATH", t.TempDir()) // this host does not have the addresses
	s := fakeSide(t, nil)
	qp := s.newQP(t, nil)
	for _, state := range []PortState{PortNop, PortDown, PortInit, PortArmed, 77} {
		set(t, "port.state", int(state))
		_, err := qp.Endpoint(1, BestGID)
		var pe *PortError
		if !errors.As(err, &pe) || *pe != (PortError{"fake0", 1, state}) {
			t.Fatalf("%v: %v, want a *PortError", state, err)
		}
		wantErr(t, err, syscall.ENETDOWN, "port 1", "fake0", state.String(), "index")
		if strings.Contains(err.Error(), "opensm") != (state == PortInit || state == PortArmed) {
			t.Errorf("%v", err)
		}
		must(qp.Endpoint(1, 1))(t)
	}
	for _, state := range []PortState{PortActive, PortActiveDefer} {
		set(t, "port.state", int(state))
		must(qp.Endpoint(1, BestGID))(t)
		d := must(Open(""))(t)
		ok(t, d.Close())
	}
}

// Values that do not fit their fields are refused by name, whoever gives them.
func TestFake_ValuesOfFewBits(t *testing.T) {
	s := fakeSide(t, nil)
	qp := s.newQP(t, nil)
	ep := must(qp.Endpoint(1, 1))(t)
	for _, c := range []struct {
		opt ConnectOptions
		say []string
	}{
		{ConnectOptions{MTU: 77}, []string{"MTU is MTU(77)", "MTU4096"}},
		{ConnectOptions{MTU: 6}, []string{"MTU(6)"}},
		{ConnectOptions{AckTimeout: 3 * time.Hour}, []string{"AckTimeout is 3h0m0s", "2h26m36"}},
		{ConnectOptions{AckTimeout: 14}, []string{"AckTimeout is 14ns", "4.096µs"}},
		{ConnectOptions{AckTimeout: -2}, []string{"AckTimeout is -2ns", "None"}},
		{ConnectOptions{RetryCount: 8}, []string{"RetryCount 8", "(7)"}},
		{ConnectOptions{RNRRetry: 8}, []string{"RNRRetry 8", "(7)"}},
		{ConnectOptions{RNRTimer: time.Second}, []string{"RNRTimer is 1s", "655.36ms"}},
		{ConnectOptions{RNRTimer: 12}, []string{"RNRTimer is 12ns", "10µs"}},
		{ConnectOptions{RNRTimer: None}, []string{"RNRTimer is -1ns"}},
		{ConnectOptions{SL: 16}, []string{"SL 16", "(15)"}},
		{ConnectOptions{FlowLabel: 1 << 20}, []string{"FlowLabel 1048576", "(1048575)"}},
		{ConnectOptions{MTU: 77, AckTimeout: 40}, []string{"MTU(77)", "AckTimeout is 40ns"}},
	} {
		wantErr(t, qp.Init(&c.opt), syscall.EINVAL, c.say...)
		wantErr(t, qp.Connect(ep, &c.opt), syscall.EINVAL, c.say...)
		_, err := qp.Address(ep, &c.opt)
		wantErr(t, err, syscall.EINVAL, c.say...)
	}
	for _, c := range []struct {
		attr QPAttr
		mask QPAttrMask
		say  []string
	}{
		{QPAttr{PathMTU: 77}, MaskPathMTU, []string{"MTU(77)"}},
		{QPAttr{}, MaskPathMTU, []string{"MTU(0)"}},
		{QPAttr{DestQPN: 1 << 24}, MaskDestQPN, []string{"dest_qpn 16777216", "(16777215)"}},
		{QPAttr{RQPSN: 1 << 24}, MaskRQPSN, []string{"rq_psn"}},
		{QPAttr{SQPSN: 1 << 24}, MaskSQPSN, []string{"sq_psn"}},
		{QPAttr{Timeout: 32}, MaskTimeout, []string{"timeout 32"}},
		{QPAttr{AltTimeout: 32}, MaskAltPath, []string{"alt_timeout 32"}},
		{QPAttr{RetryCnt: 8}, MaskRetryCnt, []string{"retry_cnt 8"}},
		{QPAttr{RNRRetry: 8}, MaskRNRRetry, []string{"rnr_retry 8"}},
		{QPAttr{MinRNRTimer: 32}, MaskMinRNRTimer, []string{"min_rnr_timer 32"}},
		{QPAttr{AV: AHAttr{SL: 16}}, MaskAV, []string{"sl 16"}},
		{QPAttr{AltAV: AHAttr{SrcPathBits: 128}}, MaskAltPath, []string{"src_path_bits 128"}},
		{QPAttr{AV: AHAttr{Global: true, FlowLabel: 1 << 20}}, MaskAV, []string{"flow_label"}},
	} {
		wantErr(t, qp.Modify(&c.attr, c.mask), syscall.EINVAL, c.say...)
		// What the mask does not name does not count.
		ok(t, qp.Modify(&QPAttr{State: StateReset, PathMTU: 77, DestQPN: 1 << 31, Timeout: 99, AV: AHAttr{SL: 99}},
			MaskState))
	}
	wantErr(t, qp.Modify(&QPAttr{Cap: QPCap{MaxSendWR: 1<<32 + 1}}, MaskCap), ErrNotSupported, "queues")
	_, err := s.pd.CreateAH(&AHAttr{Port: 1, SL: 16})
	wantErr(t, err, syscall.EINVAL, "sl 16")
}

// An EINVAL at RTR blames the route only where the GIDs do not fit.
func TestFake_RefusedAtRTR(t *testing.T) {
	set(t, "port.mtu", int(MTU1024))
	s := fakeSide(t, nil)
	qp := s.newQP(t, nil)
	must(qp.Endpoint(1, 1))(t)
	ok(t, qp.Init(nil))
	failing(t, "ibv_modify_qp", syscall.EINVAL)
	peer := Endpoint{Type: RC, QPN: 0x99, GID: must(ParseGID("::ffff:10.8.0.77"))(t), MTU: MTU1024}
	for _, c := range []struct {
		opt ConnectOptions
		say string
	}{
		{ConnectOptions{MaxDestRdAtomic: 200}, "max_dest_rd_atomic 200 exceeds the limit of fake0 (16)"},
		{ConnectOptions{MTU: MTU4096}, "path MTU 4096 exceeds the limit of fake0 (1024)"},
	} {
		err := qp.Connect(peer, &c.opt)
		var me *ModifyError
		var le *LimitError
		var pe *PathError
		if !errors.As(err, &me) || !errors.As(err, &le) || errors.As(err, &pe) || len(me.Beyond) != 1 {
			t.Errorf("%v, want the value's limit", err)
		}
		wantErr(t, err, syscall.EINVAL, c.say)
		if strings.Contains(err.Error(), "no path") {
			t.Errorf("%v blames the route", err)
		}
	}
	err := qp.Connect(peer, nil)
	var me *ModifyError
	if !errors.As(err, &me) || me.Path == nil || len(me.Beyond) != 0 {
		t.Fatalf("%v, want a *ModifyError with the path", err)
	}
	wantErr(t, err, syscall.EINVAL, "max_dest_rd_atomic (at most",
		"last, check the path from ::ffff:10.8.0.1, sgid index 1 of fake0 port 1, to ::ffff:10.8.0.77")

	peer.GID = must(ParseGID("fe80::1"))(t)
	var pe *PathError
	if err := qp.Connect(peer, nil); !errors.As(err, &pe) {
		t.Errorf("GIDs of two families: %v", err)
	}
}
