package ucma

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// everything are connection parameters that leave the reads to the devices.
var everything = abi.RDMAConnParam{ResponderResources: abi.RDMA_MAX_RESP_RES, InitiatorDepth: abi.RDMA_MAX_INIT_DEPTH,
	RetryCount: 7, RNRRetryCount: 6, FlowControl: 1, SRQ: 1, QPNum: 42}

// paired returns an ID with a QP.
func (r *rig) paired(ps uint32) control.Handle {
	r.t.Helper()
	h := r.bound(ps)
	r.must(r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{}))
	r.k.said()
	r.v.said()
	return h
}

// requested returns an ID of a request, without its QP.
func (r *rig) requested(ps uint32, change ...func(*abi.UCMEventResp)) control.Handle {
	r.t.Helper()
	r.k.request(r.bound(ps), change...)
	h := r.get().ID
	r.k.said()
	return h
}

// TestStates: the states of the QP of an ID, in each step of each role. The kernel knows only after the handshake which
// access the QP needs, so INIT comes twice.
func TestStates(t *testing.T) {
	for _, tc := range []struct {
		name    string
		call    func(r *rig)
		qp, cmd []string
	}{
		{"create", func(r *rig) {
			h := r.bound(abi.RDMA_PS_TCP)
			r.k.said()
			r.must(r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{}))
		}, []string{"create", "INIT"}, nil},
		{"create by its PD", func(r *rig) {
			h := r.bound(abi.RDMA_PS_TCP)
			r.k.said()
			r.must(r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{CompMask: abi.IBV_QP_INIT_ATTR_PD}))
		}, []string{"create", "INIT"}, nil},
		{"create for datagrams", func(r *rig) {
			h := r.bound(abi.RDMA_PS_UDP)
			r.k.said()
			r.must(r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{}))
		}, []string{"create", "INIT", "RTR", "RTS"}, nil},
		{"the peer accepts", func(r *rig) {
			r.k.attr = abi.UverbsQPAttr{MaxDestRdAtomic: 16, MaxRdAtomic: 4}
			h := r.paired(abi.RDMA_PS_TCP)
			r.k.emit(h, abi.RDMA_CM_EVENT_CONNECT_RESPONSE)
			r.want("event", r.get().Event, abi.RDMA_CM_EVENT_ESTABLISHED)
			if a := last[abi.UCMAccept](r.k, usercm.CmdAccept); a.ConnParam.Valid != 0 || a.UID != 0 {
				r.t.Errorf("command %+v", a)
			}
		}, []string{"INIT 16/4", "RTR 16/4", "RTS 16/4"}, []string{"ACCEPT"}},
		{"the peer accepts the program's own QP", func(r *rig) {
			h := r.bound(abi.RDMA_PS_TCP)
			r.k.said()
			r.k.emit(h, abi.RDMA_CM_EVENT_CONNECT_RESPONSE)
			r.want("event", r.get().Event, abi.RDMA_CM_EVENT_CONNECT_RESPONSE)
			r.ok(r.Establish(h))
		}, nil, []string{"ACCEPT"}},
		{"accept", func(r *rig) {
			h := r.requested(abi.RDMA_PS_TCP, conn(abi.UCMConnParam{InitiatorDepth: 4, ResponderResources: 200}))
			r.must(r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{}))
			r.v.said()
			r.ok(r.Accept(h, everything, nil))
		}, []string{"INIT", "RTR 16/0", "RTS 0/4"}, []string{"ACCEPT"}},
		{"accept the program's own QP", func(r *rig) {
			r.ok(r.Accept(r.requested(abi.RDMA_PS_TCP), everything, nil))
		}, nil, []string{"ACCEPT"}},
		{"accept datagrams", func(r *rig) {
			h := r.requested(abi.RDMA_PS_UDP)
			r.must(r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{}))
			r.v.said()
			r.ok(r.Accept(h, everything, nil))
		}, nil, []string{"ACCEPT"}},
		{"disconnect", func(r *rig) { r.ok(r.Disconnect(r.paired(abi.RDMA_PS_TCP))) }, []string{"ERR"},
			[]string{"DISCONNECT"}},
		{"disconnect on iWARP", func(r *rig) {
			r.v.hosts[0].transport = abi.IBV_TRANSPORT_IWARP
			r.ok(r.Disconnect(r.paired(abi.RDMA_PS_TCP)))
		}, []string{"SQD"}, []string{"DISCONNECT"}},
		{"disconnect the program's own QP", func(r *rig) {
			h := r.bound(abi.RDMA_PS_TCP)
			r.k.said()
			r.ok(r.Disconnect(h))
		}, nil, []string{"DISCONNECT"}},
		{"the peer refuses", func(r *rig) {
			r.k.emit(r.paired(abi.RDMA_PS_TCP), abi.RDMA_CM_EVENT_REJECTED)
			r.get()
		}, []string{"ERR"}, nil},
		{"the peer disconnects", func(r *rig) { // the program does that
			r.k.emit(r.paired(abi.RDMA_PS_TCP), abi.RDMA_CM_EVENT_DISCONNECTED)
			r.get()
		}, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			tc.call(r)
			r.want("the QP", r.v.said(), tc.qp)
			r.want("the kernel", r.k.said(), tc.cmd)
		})
	}
}

// TestStates_Fail: each step that can fail leaves no QP half made, and none that works although its connection does
// not.
func TestStates_Fail(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail func(r *rig)
		call func(r *rig) error
		qp   []string
		has  bool
	}{
		{"create", func(r *rig) { r.v.fail["create"] = syscall.ENOMEM }, nil, []string{"create"}, false},
		{"attributes of INIT", func(r *rig) { r.k.fail[usercm.CmdInitQPAttr] = syscall.ENOMEM }, nil,
			[]string{"create", "destroy"}, false},
		{"INIT", func(r *rig) { r.v.fail["INIT"] = syscall.ENOMEM }, nil, []string{"create", "INIT", "destroy"}, false},
		{"RTR", func(r *rig) { r.v.fail["RTR 1/0"] = syscall.ENOMEM }, accept, []string{"INIT", "RTR 1/0"}, true},
		{"RTS", func(r *rig) { r.v.fail["RTS 0/1"] = syscall.ENOMEM }, accept,
			[]string{"INIT", "RTR 1/0", "RTS 0/1"}, true},
		{"ACCEPT", func(r *rig) { r.k.fail[usercm.CmdAccept] = syscall.ENOMEM }, accept,
			[]string{"INIT", "RTR 1/0", "RTS 0/1", "ERR"}, true},
		{"ERR", func(r *rig) { r.v.fail["ERR"] = syscall.ENOMEM }, func(r *rig) error {
			return r.Disconnect(r.paired(abi.RDMA_PS_TCP))
		}, []string{"ERR"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			call := tc.call
			if call == nil {
				call = func(r *rig) error {
					h := r.bound(abi.RDMA_PS_TCP)
					tc.fail(r)
					_, err := r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{})
					return err
				}
			} else {
				tc.fail(r)
			}
			if err := call(r); err != syscall.ENOMEM {
				t.Errorf("error %v", err)
			}
			r.want("the QP", r.v.said(), tc.qp)
			has := false
			r.ids.m.Range(func(h, _ any) bool { has = has || r.HasQP(h.(control.Handle)); return true })
			r.want("some ID has a QP", has, tc.has)
		})
	}
}

// accept accepts a request with one read, with a QP.
func accept(r *rig) error {
	h := r.requested(abi.RDMA_PS_TCP)
	r.must(r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{}))
	r.v.said()
	return r.Accept(h, abi.RDMAConnParam{ResponderResources: 1, InitiatorDepth: 1}, nil)
}

// TestResponse_Fails: a QP that cannot be brought up makes the event one of failure, and the rest of the connection no
// news. The kernel sends the peer nothing.
func TestResponse_Fails(t *testing.T) {
	for _, fail := range []func(r *rig){
		func(r *rig) { r.v.fail["INIT"] = syscall.EIO },
		func(r *rig) { r.v.fail["RTR"] = syscall.EIO },
		func(r *rig) { r.v.fail["RTS"] = syscall.EIO },
		func(r *rig) { r.k.fail[usercm.CmdInitQPAttr] = syscall.EIO },
		func(r *rig) { r.k.fail[usercm.CmdAccept] = syscall.EIO },
	} {
		r := newRig(t)
		h := r.paired(abi.RDMA_PS_TCP)
		fail(r)
		r.k.emit(h, abi.RDMA_CM_EVENT_CONNECT_RESPONSE, conn(abi.UCMConnParam{PrivateDataLen: 1,
			PrivateData: [256]byte{7}}))
		ev := r.get()
		if ev.Event != abi.RDMA_CM_EVENT_CONNECT_ERROR || ev.Status != -int32(syscall.EIO) || ev.ID != h {
			t.Errorf("%+v", ev)
		}
		if j := r.v.said(); j[len(j)-1] != "ERR" {
			t.Errorf("the QP: %v", j)
		}
		r.k.emit(h, abi.RDMA_CM_EVENT_REJECTED)
		r.k.emit(h, abi.RDMA_CM_EVENT_DISCONNECTED)
		r.none()
		r.k.emit(h, abi.RDMA_CM_EVENT_DEVICE_REMOVAL)
		r.want("event", r.get().Event, abi.RDMA_CM_EVENT_DEVICE_REMOVAL)
		r.ok(r.DestroyID(h))
	}
}

// TestCreateQP_Refused: what librdmacm crashes on, or refuses.
func TestCreateQP_Refused(t *testing.T) {
	r := newRig(t)
	noDevice, h := r.id(abi.RDMA_PS_TCP), r.paired(abi.RDMA_PS_TCP)
	other := r.bound(abi.RDMA_PS_TCP)
	for name, call := range map[string]func() (control.Handle, error){
		"an ID without a device": func() (control.Handle, error) {
			return r.CreateQP(noDevice, 3100, &abi.QPInitAttrEx{})
		},
		"a second QP": func() (control.Handle, error) { return r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{}) },
		"a PD of another context": func() (control.Handle, error) {
			return r.CreateQP(other, r.pd(other)+1, &abi.QPInitAttrEx{})
		},
		"no PD": func() (control.Handle, error) { return r.CreateQP(other, 0, &abi.QPInitAttrEx{}) },
	} {
		if qp, err := call(); qp != 0 || err != syscall.EINVAL {
			t.Errorf("%s: %d, %v", name, qp, err)
		}
	}
	r.want("the verbs", r.v.said(), []string(nil))
	if err := r.Establish(h); err != syscall.EINVAL {
		t.Errorf("establish with a QP: %v", err)
	}
	r.ForgetQP(h)
	r.want("it has a QP", r.HasQP(h), false)
	r.must(r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{}))
}

// TestLimits: how many reads and atomics the kernel is told, for each way to ask for them. The device has 16 and 255.
func TestLimits(t *testing.T) {
	const all = abi.RDMA_MAX_RESP_RES
	for _, tc := range []struct {
		ps         uint32
		accepts    bool
		peer       [2]uint8 // of the request
		ask        [2]uint8
		want       [2]uint8
		wantEINVAL bool
	}{
		{ps: abi.RDMA_PS_TCP, ask: [2]uint8{all, all}, want: [2]uint8{16, 255}},
		{ps: abi.RDMA_PS_TCP, ask: [2]uint8{0, 0}, want: [2]uint8{0, 0}},
		{ps: abi.RDMA_PS_TCP, ask: [2]uint8{16, 254}, want: [2]uint8{16, 254}},
		{ps: abi.RDMA_PS_TCP, ask: [2]uint8{17, 1}, wantEINVAL: true},
		{ps: abi.RDMA_PS_UDP, ask: [2]uint8{17, 1}, want: [2]uint8{17, 1}},
		{ps: abi.RDMA_PS_TCP, accepts: true, peer: [2]uint8{3, 5}, ask: [2]uint8{all, all}, want: [2]uint8{3, 5}},
		{ps: abi.RDMA_PS_TCP, accepts: true, peer: [2]uint8{200, 0}, ask: [2]uint8{all, all}, want: [2]uint8{16, 0}},
		{ps: abi.RDMA_PS_TCP, accepts: true, peer: [2]uint8{3, 5}, ask: [2]uint8{4, 2}, want: [2]uint8{4, 2}},
		{ps: abi.RDMA_PS_TCP, accepts: true, peer: [2]uint8{3, 5}, ask: [2]uint8{17, 2}, wantEINVAL: true},
	} {
		r := newRig(t)
		p := everything
		p.ResponderResources, p.InitiatorDepth = tc.ask[0], tc.ask[1]
		var err error
		var got abi.UCMConnParam
		if tc.accepts {
			h := r.requested(tc.ps, conn(abi.UCMConnParam{ResponderResources: tc.peer[0], InitiatorDepth: tc.peer[1]}))
			if err = r.Accept(h, p, nil); err == nil {
				got = last[abi.UCMAccept](r.k, usercm.CmdAccept).ConnParam
			}
		} else if err = r.Connect(r.bound(tc.ps), p, nil); err == nil {
			got = last[abi.UCMConnect](r.k, usercm.CmdConnect).ConnParam
		}
		if (err == syscall.EINVAL) != tc.wantEINVAL || err != nil && err != syscall.EINVAL {
			t.Errorf("%+v: %v", tc, err)
		}
		if has := [2]uint8{got.ResponderResources, got.InitiatorDepth}; has != tc.want {
			t.Errorf("%+v: the kernel is told %v", tc, has)
		}
	}
}

// TestParam: the kernel gets the caller's parameters, but the QP's number and SRQ if the ID has a QP, and as much
// private data as their length can express.
func TestParam(t *testing.T) {
	data := []byte(strings.Repeat("x", 300))
	for _, own := range []bool{false, true} {
		for _, size := range []int{0, 1, 255, 256, 300} {
			r := newRig(t)
			h := r.bound(abi.RDMA_PS_TCP)
			qpn := uint32(42)
			if own {
				qpn = uint32(r.must(r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{SRQ: 1}))) + 7
			}
			r.ok(r.Connect(h, everything, data[:size]))
			p := last[abi.UCMConnect](r.k, usercm.CmdConnect).ConnParam
			n := min(size, 255)
			if p.QPNum != qpn || p.SRQ != 1 || p.Valid != 1 || p.RetryCount != 7 || p.RNRRetryCount != 6 ||
				p.FlowControl != 1 || int(p.PrivateDataLen) != n || string(p.PrivateData[:n]) != string(data[:n]) ||
				p.PrivateData[n] != 0 {
				t.Errorf("own QP %t, %d bytes: %+v", own, size, p)
			}
		}
	}
	r := newRig(t)
	h := r.requested(abi.RDMA_PS_TCP)
	r.ok(r.Accept(h, everything, nil))
	if a := last[abi.UCMAccept](r.k, usercm.CmdAccept); a.UID != uint64(h) {
		t.Errorf("the kernel names the ID %d, want %d", a.UID, h)
	}
	for reason, reject := range map[uint8]func(control.Handle, []byte) error{0: r.Reject, 35: r.RejectECE} {
		r.ok(reject(h, []byte("no")))
		q := last[abi.UCMReject](r.k, usercm.CmdReject)
		if q.Reason != reason || q.PrivateDataLen != 2 || q.PrivateData[1] != 'o' {
			t.Errorf("%+v, want reason %d", q, reason)
		}
	}
}

// TestECE: the options of two ends, with a QP of the ID's and with one of the program's.
func TestECE(t *testing.T) {
	peers := func(vendor, options uint32) func(*abi.UCMEventResp) {
		return func(e *abi.UCMEventResp) { e.ECE = abi.UCMECE{VendorID: vendor, Options: options} }
	}
	t.Run("request", func(t *testing.T) {
		for _, tc := range []struct {
			vendor, options uint32
			noECE           bool
			verbs           []string
			want            abi.UCMECE
		}{
			{5, 3, false, []string{"create", "ece 5/3", "INIT"}, abi.UCMECE{VendorID: 5, Options: 3}},
			{6, 3, false, []string{"create", "ece 5/0", "INIT"}, abi.UCMECE{VendorID: 6}},
			{0, 0, false, []string{"create", "INIT"}, abi.UCMECE{Options: 9}},
			{5, 3, true, []string{"create", "INIT"}, abi.UCMECE{VendorID: 5}},
		} {
			r := newRig(t)
			r.v.ece, r.v.noECE = abi.ECE{VendorID: 5, Options: 9}, tc.noECE
			h := r.requested(abi.RDMA_PS_TCP, peers(tc.vendor, tc.options))
			var got abi.ECE
			r.ok(r.GetRemoteECE(h, &got))
			r.want("remote", got, abi.ECE{VendorID: tc.vendor, Options: tc.options})
			r.must(r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{}))
			r.want("verbs", r.v.said(), tc.verbs)
			r.ok(r.Accept(h, everything, nil))
			r.want("accepted", last[abi.UCMAccept](r.k, usercm.CmdAccept).ECE, tc.want)
		}
	})
	t.Run("response", func(t *testing.T) {
		for _, tc := range []struct {
			vendor uint32
			event  uint32
			first  string
		}{
			{5, abi.RDMA_CM_EVENT_ESTABLISHED, "ece 5/3"}, {0, abi.RDMA_CM_EVENT_ESTABLISHED, "ece 5/0"},
			{6, abi.RDMA_CM_EVENT_CONNECT_ERROR, "ERR"},
		} {
			r := newRig(t)
			r.v.ece = abi.ECE{VendorID: 5, Options: 9}
			h := r.paired(abi.RDMA_PS_TCP)
			r.ok(r.Connect(h, everything, nil))
			r.want("offered", last[abi.UCMConnect](r.k, usercm.CmdConnect).ECE, abi.UCMECE{VendorID: 5, Options: 9})
			r.k.emit(h, abi.RDMA_CM_EVENT_CONNECT_RESPONSE, peers(tc.vendor, 3))
			r.want("event", r.get().Event, tc.event)
			if j := r.v.said(); !slices.Contains(j[:1], tc.first) {
				t.Errorf("verbs %v, want %s first", j, tc.first)
			}
		}
	})
	t.Run("program", func(t *testing.T) {
		r := newRig(t)
		h := r.bound(abi.RDMA_PS_TCP)
		r.ok(r.SetLocalECE(h, &abi.ECE{VendorID: 5, Options: 4}))
		r.ok(r.Connect(h, everything, nil))
		r.want("offered", last[abi.UCMConnect](r.k, usercm.CmdConnect).ECE, abi.UCMECE{VendorID: 5, Options: 4})
		r.k.emit(h, abi.RDMA_CM_EVENT_CONNECT_RESPONSE, peers(6, 3))
		r.get()
		var got abi.ECE
		r.ok(r.GetRemoteECE(h, &got))
		r.want("remote", got, abi.ECE{VendorID: 6, Options: 3})
		for _, bad := range []abi.ECE{{}, {Options: 4}, {VendorID: 5, CompMask: 1}} {
			if err := r.SetLocalECE(h, &bad); err != syscall.EINVAL {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		own := r.paired(abi.RDMA_PS_TCP)
		if err := r.SetLocalECE(own, &abi.ECE{VendorID: 5}); err != syscall.EINVAL {
			t.Error(err)
		}
		if err := r.GetRemoteECE(own, &got); err != syscall.EINVAL {
			t.Error(err)
		}
	})
}

// TestOptions: option values and events of the program's own go to the kernel as they are.
func TestOptions(t *testing.T) {
	r := newRig(t)
	h := r.id(abi.RDMA_PS_TCP)
	r.ok(r.SetOption(h, abi.RDMA_OPTION_ID, abi.RDMA_OPTION_ID_TOS, []byte{3}))
	o := last[abi.UCMSetOption](r.k, usercm.CmdSetOption)
	if o.Level != 0 || o.Optname != 0 || o.Optlen != 1 || o.Optval == 0 {
		t.Errorf("%+v", o)
	}
	r.ok(r.SetOption(h, abi.RDMA_OPTION_IB, abi.RDMA_OPTION_IB_PATH, nil))
	o = last[abi.UCMSetOption](r.k, usercm.CmdSetOption)
	if o.Level != 1 || o.Optname != 1 || o.Optlen != 0 || o.Optval != 0 {
		t.Errorf("%+v", o)
	}
	r.ok(r.WriteCMEvent(h, abi.RDMA_CM_EVENT_USER, -5, 1<<40|7))
	q := last[abi.UCMWriteCMEvent](r.k, usercm.CmdWriteCMEvent)
	r.want("event", fmt.Sprint(q.Event, q.Status), "18 -5")
	r.k.emit(h, q.Event, func(e *abi.UCMEventResp) { e.Status, e.Param = q.Status, q.Param })
	if ev := r.get(); ev.Arg() != 1<<40|7 || ev.Status != -5 || ev.ID != h {
		t.Errorf("%+v", ev)
	}
	if err := r.WriteCMEvent(h, abi.RDMA_CM_EVENT_ESTABLISHED, 0, 0); err != syscall.EINVAL {
		t.Error(err)
	}
}
