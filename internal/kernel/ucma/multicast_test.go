package ucma

import (
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// group9 is the group of the tests.
var group9 = inet(9, 0)

// join joins the group, and returns the name that the kernel has for it.
func (r *rig) joinGroup(h control.Handle, flags uint32, cookie uintptr) control.Handle {
	r.t.Helper()
	r.ok(r.JoinMulticast(h, &group9, flags, cookie))
	q := last[abi.UCMJoinMcast](r.k, usercm.CmdJoinMcast)
	if q.JoinFlags != uint16(flags) || q.Addr != group9 || q.AddrSize != 16 {
		r.t.Errorf("command %+v", q)
	}
	return control.Handle(q.UID)
}

// TestMulticast: the event of a join has the cookie and the address, and attaches a QP of the ID's that is to receive.
// Leaving detaches it.
func TestMulticast(t *testing.T) {
	const member, sendOnly = abi.RDMA_MC_JOIN_FLAG_FULLMEMBER, abi.RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER
	for _, tc := range []struct {
		name   string
		qp     bool
		flags  uint32
		change func(r *rig, e *abi.UCMEventResp)
		event  uint32
		verbs  []string
	}{
		{"with a QP", true, member, nil, abi.RDMA_CM_EVENT_MULTICAST_JOIN, []string{"attach", "detach"}},
		{"to send only", true, sendOnly, nil, abi.RDMA_CM_EVENT_MULTICAST_JOIN, nil},
		{"without a QP", false, member, nil, abi.RDMA_CM_EVENT_MULTICAST_JOIN, nil},
		{"attaching fails", true, member, func(r *rig, _ *abi.UCMEventResp) { r.v.fail["attach"] = syscall.ENOMEM },
			abi.RDMA_CM_EVENT_MULTICAST_ERROR, []string{"attach", "detach"}},
		{"the join fails", true, member, func(_ *rig, e *abi.UCMEventResp) {
			e.Event, e.Status = abi.RDMA_CM_EVENT_MULTICAST_ERROR, -int32(syscall.ENOMEM)
		}, abi.RDMA_CM_EVENT_MULTICAST_ERROR, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			h := r.bound(abi.RDMA_PS_UDP)
			if tc.qp {
				r.must(r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{}))
			}
			r.v.said()
			g := r.joinGroup(h, tc.flags, 0xc00c1e)
			r.k.emit(g, abi.RDMA_CM_EVENT_MULTICAST_JOIN, ud(abi.UCMUDParam{QPNum: 0xffffff, QKey: 5,
				PrivateDataLen: 9}),
				func(e *abi.UCMEventResp) {
					if tc.change != nil {
						tc.change(r, e)
					}
				})
			ev := r.get()
			if ev.Event != tc.event || !ev.UD || ev.ID != h || ev.Param.PrivateData != 0xc00c1e || ev.Data != nil ||
				ev.Param.QPNum != 0xffffff || ev.Param.QKey != 5 {
				t.Errorf("%+v", ev)
			}
			if failed := ev.Event == abi.RDMA_CM_EVENT_MULTICAST_ERROR; failed && ev.Status != -int32(syscall.ENOMEM) {
				t.Errorf("status %d", ev.Status)
			}
			r.ok(r.LeaveMulticast(h, &group9))
			r.want("verbs", r.v.said(), tc.verbs)
			if err := r.LeaveMulticast(h, &group9); err != syscall.EADDRNOTAVAIL {
				t.Errorf("left twice: %v", err)
			}
			r.k.emit(g, abi.RDMA_CM_EVENT_MULTICAST_ERROR)
			r.none()
			r.ok(r.DestroyID(h))
		})
	}
}

// TestMulticast_OnTheWay: an event that the kernel has given out when the program leaves the group still attaches the
// QP; leaving waits, and detaches it.
func TestMulticast_OnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := r.paired(abi.RDMA_PS_UDP)
		r.k.emit(r.joinGroup(h, 0, 1), abi.RDMA_CM_EVENT_MULTICAST_JOIN)
		r.k.wait = make(chan bool)
		go func() { r.ok(r.GetEvent(r.ch, func(*control.CMEvent) {})) }()
		synctest.Wait()
		left := make(chan bool)
		go func() {
			r.ok(r.LeaveMulticast(h, &group9))
			close(left)
		}()
		synctest.Wait()
		close(r.k.wait)
		<-left
		r.want("verbs", r.v.said(), []string{"attach", "detach"})
	})
}

// TestMulticast_Twice: the last join of a group is left first, and one that the kernel does not end stays.
func TestMulticast_Twice(t *testing.T) {
	r := newRig(t)
	h := r.bound(abi.RDMA_PS_UDP)
	r.joinGroup(h, 0, 1)
	r.joinGroup(h, 0, 2)
	r.k.fail[usercm.CmdLeaveMcast] = syscall.EIO
	if err := r.LeaveMulticast(h, &group9); err != syscall.EIO {
		t.Error(err)
	}
	delete(r.k.fail, usercm.CmdLeaveMcast)
	var left []uint32
	for range 2 {
		r.ok(r.LeaveMulticast(h, &group9))
		left = append(left, last[abi.UCMQuery](r.k, usercm.CmdLeaveMcast).ID)
	}
	if !slices.Equal(left, []uint32{2, 1}) {
		t.Errorf("left %v, want the kernel's numbers 2 and 1", left)
	}
	if err := r.JoinMulticast(h, &group9, 2, 1); err != syscall.EINVAL {
		t.Errorf("unknown flags: %v", err)
	}
	r.joinGroup(h, 0, 3)
	r.ok(r.DestroyID(h))
	n := 0
	r.groups.m.Range(func(any, any) bool { n++; return true })
	r.want("groups of an ID that is gone", n, 0)
}
