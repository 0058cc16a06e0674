package ucma

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// TestDestroyID_Waits: it returns after the events of the ID that were read are acknowledged, also if the kernel has
// given out an event that is still on its way.
func TestDestroyID_Waits(t *testing.T) {
	for _, onTheWay := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			h := r.id(abi.RDMA_PS_TCP)
			r.k.emit(h, abi.RDMA_CM_EVENT_ADDR_ERROR)
			processing := make(chan bool)
			if onTheWay {
				r.k.wait = processing
			}
			var order []string
			go func() {
				r.ok(r.GetEvent(r.ch, func(ev *control.CMEvent) {
					if !onTheWay {
						<-processing
					}
					if ev.ID != h {
						t.Errorf("an event of %d, want %d", ev.ID, h)
					}
					order = append(order, "event")
				}))
			}()
			synctest.Wait()
			done := make(chan bool)
			go func() {
				r.ok(r.DestroyID(h))
				order = append(order, "destroyed")
				close(done)
			}()
			synctest.Wait()
			r.want("the kernel", r.k.said(), []string{"CREATE_ID", "DESTROY_ID"})
			close(processing)
			<-done
			r.want("the order", order, []string{"event", "destroyed"})
		})
	}
}

// TestDestroyID_OtherEvents: it waits for no event of another ID.
func TestDestroyID_OtherEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h, other := r.id(abi.RDMA_PS_TCP), r.id(abi.RDMA_PS_TCP)
		r.k.emit(h, abi.RDMA_CM_EVENT_ADDR_ERROR)
		r.get()
		r.k.emit(other, abi.RDMA_CM_EVENT_ADDR_ERROR)
		processing := make(chan bool)
		go func() { r.ok(r.GetEvent(r.ch, func(*control.CMEvent) { <-processing })) }()
		synctest.Wait()
		r.ok(r.DestroyID(h))
		close(processing)
		r.ok(r.DestroyID(other))
	})
}

// TestDestroyID_Count: the ID ends whatever the kernel has counted.
func TestDestroyID_Count(t *testing.T) {
	for _, n := range []uint32{1, 17, none} {
		r := newRig(t)
		h := r.id(abi.RDMA_PS_TCP)
		r.k.reported[uint64(h)] = n
		r.ok(r.DestroyID(h))
		if err := r.DestroyID(h); err != syscall.EINVAL {
			t.Errorf("destroyed twice: %v", err)
		}
	}
}

// TestDestroyID_Fails: the ID stays.
func TestDestroyID_Fails(t *testing.T) {
	r := newRig(t)
	h := r.id(abi.RDMA_PS_TCP)
	r.k.fail[usercm.CmdDestroyID] = syscall.EIO
	if err := r.DestroyID(h); err != syscall.EIO {
		t.Error(err)
	}
	r.k.fail = nil
	r.ok(r.DestroyID(h))
}

// TestGone: events of what is gone, or never was, are dropped, and the next event is delivered. Nobody else would end
// the ID of a request.
func TestGone(t *testing.T) {
	r := newRig(t)
	kept, gone := r.id(abi.RDMA_PS_TCP), r.id(abi.RDMA_PS_TCP)
	r.ok(r.DestroyID(gone))
	r.k.said()
	for _, h := range []control.Handle{gone, 0, r.ch, 1 << 40} {
		for event := range uint32(32) {
			if event != abi.RDMA_CM_EVENT_CONNECT_REQUEST {
				r.k.emit(h, event)
			}
		}
		r.k.request(h)
	}
	r.k.emit(kept, abi.RDMA_CM_EVENT_TIMEWAIT_EXIT)
	if ev := r.get(); ev.ID != kept || ev.Event != abi.RDMA_CM_EVENT_TIMEWAIT_EXIT {
		t.Errorf("event %d of %d", ev.Event, ev.ID)
	}
	r.want("the kernel", r.k.said(), slices.Repeat([]string{"DESTROY_ID"}, 4))
	r.want("IDs in the kernel", len(r.k.uids), 1)
}

// TestMigrateID: the ID's commands go to the new channel, after its events on the old one are acknowledged.
func TestMigrateID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := r.id(abi.RDMA_PS_TCP)
		from := r.k
		to := newKernel()
		r.open = func() (*usercm.File, error) { return usercm.NewFile(9, to), nil }
		ch := r.must(r.CreateEventChannel())
		to.uids[0], to.reported = uint64(h), from.reported

		from.emit(h, abi.RDMA_CM_EVENT_ADDR_ERROR)
		processing, moved := make(chan bool), make(chan bool)
		go func() { r.ok(r.GetEvent(r.ch, func(*control.CMEvent) { <-processing })) }()
		synctest.Wait()
		go func() {
			r.ok(r.MigrateID(h, ch))
			close(moved)
		}()
		synctest.Wait()
		select {
		case <-moved:
			t.Error("it did not wait for the event")
		default:
		}
		close(processing)
		<-moved
		if q := last[abi.UCMQuery](to, usercm.CmdMigrateID); q.ID != 0 || int32(q.Arg) != -1 {
			t.Errorf("command %+v, want the descriptor of the old file", q)
		}
		r.ok(r.ResolveRoute(h, 1))
		r.want("the old file", from.said(), []string{"CREATE_ID"})
		r.want("the new file", to.said(), []string{"MIGRATE_ID", "RESOLVE_ROUTE"})

		r.SetChannel(h, r.ch) // undoes it for us
		r.ok(r.ResolveRoute(h, 1))
		r.want("the old file", from.said(), []string{"RESOLVE_ROUTE"})

		to.fail[usercm.CmdMigrateID] = syscall.EINVAL
		if err := r.MigrateID(h, ch); err != syscall.EINVAL {
			t.Error(err)
		}
		to.said()
		r.ok(r.ResolveRoute(h, 1))
		r.want("the new file, which refused", to.said(), []string(nil))
	})
}

// TestRequest: a listener's event makes an ID like the listener's, with what the request has.
func TestRequest(t *testing.T) {
	for ps, typ := range map[uint32]uint32{abi.RDMA_PS_TCP: abi.IBV_QPT_RC, abi.RDMA_PS_UDP: abi.IBV_QPT_UD} {
		r := newRig(t)
		l := r.bound(ps)
		r.ok(r.Listen(l, 4))
		n := r.k.request(l, conn(abi.UCMConnParam{QPNum: 77, PrivateDataLen: 3, PrivateData: [256]byte{1, 2, 3},
			InitiatorDepth: 5}))
		ev := r.get()
		if ev.ListenID != l || ev.ID == l || ev.ID == 0 || ev.UD != (typ == abi.IBV_QPT_UD) {
			t.Fatalf("%+v", ev)
		}
		if !ev.UD && (ev.Conn().QPNum != 77 || ev.Conn().InitiatorDepth != 5 || string(ev.Data) != "\x01\x02\x03") {
			t.Errorf("%+v, data %q", ev.Conn(), ev.Data)
		}
		i, err := r.ids.get(ev.ID)
		r.ok(err)
		if i.number != n || i.ps != ps || i.typ != typ || r.Verbs(ev.ID) != r.Verbs(l) ||
			r.Src(ev.ID) != inet(1, 100) || r.Dst(ev.ID) != inet(2, 200) || r.Port(ev.ID) != 1 ||
			r.PKey(ev.ID) != 0xffff ||
			len(r.Paths(ev.ID)) != 1 || r.Paths(ev.ID)[0].DLID.Get() != 9 {
			t.Errorf("%+v", i)
		}
		r.ok(r.DestroyID(l)) // the event of the request was the listener's
		r.ok(r.DestroyID(ev.ID))
	}
}

// TestRequest_Fails: a request whose ID cannot be used is refused, and the next event is delivered.
func TestRequest_Fails(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(r *rig)
		want   control.Handle
	}{
		{"the query", func(r *rig) { r.k.fail[usercm.CmdQueryRoute] = syscall.EIO }, 0},
		{"a device that cannot be opened", func(r *rig) { r.v.hosts[0].broken = true }, 0},
		{"an unknown device", func(r *rig) { r.k.addr.NodeGUID.Set(5) }, 0},
		{"a port that is none, of InfiniBand", func(r *rig) { r.k.ib(); r.k.addr.PortNum = 3 }, 0},
		{"a port that is none", func(r *rig) { r.k.addr.PortNum = 3 }, 0},
		{"an address of 129 bytes", func(r *rig) { r.k.ib(); r.k.addr.DstSize = 129 }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			l := r.id(abi.RDMA_PS_TCP)
			tc.change(r)
			r.k.request(l)
			r.k.emit(l, abi.RDMA_CM_EVENT_ADDR_CHANGE)
			if ev := r.get(); ev.Event != abi.RDMA_CM_EVENT_ADDR_CHANGE {
				t.Errorf("event %d", ev.Event)
			}
			r.want("the kernel", r.k.said(), []string{"CREATE_ID", "DESTROY_ID"})
			r.ok(r.DestroyID(l))
			n := 0
			r.ids.m.Range(func(any, any) bool { n++; return true })
			r.want("IDs", n, 0)
		})
	}
}

// TestReplies: a reply that no kernel sends is an error, and leaves nothing behind.
func TestReplies(t *testing.T) {
	a := inet(1, 0)
	bind := func(r *rig) error { return r.BindAddr(r.id(abi.RDMA_PS_TCP), &a) }
	bindIB := func(r *rig) error { r.k.ib(); return bind(r) }
	mcast := inet(9, 0)
	for _, tc := range []struct {
		name  string
		reply func(c usercm.Command, resp []byte)
		call  func(r *rig) error
	}{
		{"no ID", skip(usercm.CmdCreateID), func(r *rig) error {
			_, err := r.CreateID(r.ch, abi.RDMA_PS_TCP)
			return err
		}},
		{"no group", skip(usercm.CmdJoinMcast), func(r *rig) error {
			return r.JoinMulticast(r.bound(abi.RDMA_PS_UDP), &mcast, 0, 1)
		}},
		{"a long source", put(usercm.CmdQuery, 12, 0xff), bindIB},
		{"a long destination", put(usercm.CmdQuery, 14, 0xff), bindIB},
		{"another state", put(usercm.CmdInitQPAttr, 4, 6), func(r *rig) error {
			h := r.bound(abi.RDMA_PS_TCP)
			_, err := r.CreateQP(h, r.pd(h), &abi.QPInitAttrEx{})
			return err
		}},
		{"port 0", put(usercm.CmdQueryRoute, 196, 0), bind},
		{"port 3 of 2", put(usercm.CmdQueryRoute, 196, 3), bind},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.k.reply = tc.reply
			var reply *usercm.ReplyError
			if err := tc.call(r); !errors.As(err, &reply) || !errors.Is(err, syscall.EPROTO) {
				t.Fatal(err)
			}
			groups := 0
			r.groups.m.Range(func(any, any) bool { groups++; return true })
			r.want("groups", groups, 0)
			for _, d := range r.devices.open {
				r.ids.m.Range(func(_, v any) bool {
					if v.(*id).dev == d {
						d.refs--
					}
					return true
				})
				r.want("users of the device, without IDs", d.refs, 0)
			}
		})
	}
}

// skip makes the kernel forget the number of a new object.
func skip(cmd usercm.Command) func(usercm.Command, []byte) {
	return func(c usercm.Command, resp []byte) {
		if c == cmd {
			encode(resp, none)
		}
	}
}

// put changes a byte of a reply.
func put(cmd usercm.Command, at int, v byte) func(usercm.Command, []byte) {
	return func(c usercm.Command, resp []byte) {
		if c == cmd {
			resp[at] = v
		}
	}
}

// TestNoSuchHandle: each method accepts any handle.
func TestNoSuchHandle(t *testing.T) {
	r := newRig(t)
	for _, h := range []control.Handle{0, r.ch, 99, ^control.Handle(0)} {
		a, attr, e := inet(1, 1), abi.QPAttr{}, abi.ECE{}
		id, _ := r.CreateID(h+1000, abi.RDMA_PS_TCP)
		_, _, err := r.Pair(h, &attr)
		for n, err := range []error{r.DestroyID(h), r.MigrateID(h, r.ch), r.BindAddr(h, &a),
			r.ResolveAddr(h, nil, &a, 1), r.ResolveRoute(h, 1), r.Listen(h, 1),
			r.Connect(h, abi.RDMAConnParam{}, nil), r.Accept(h, abi.RDMAConnParam{}, nil), r.Reject(h, nil),
			r.RejectECE(h, nil), r.Establish(h), r.Disconnect(h), r.Notify(h, 1), err,
			r.SetOption(h, 0, 0, nil), r.JoinMulticast(h, &a, 0, 1), r.LeaveMulticast(h, &a), r.SetLocalECE(h, &e),
			r.GetRemoteECE(h, &e), r.WriteCMEvent(h, abi.RDMA_CM_EVENT_USER, 0, 0)} {
			if err != syscall.EINVAL {
				t.Errorf("call %d of handle %d: %v", n, h, err)
			}
		}
		r.SetChannel(h, r.ch)
		r.ForgetQP(h)
		r.FreeDevices(h)
		r.MoveRequests(h, h)
		local, peer := r.GIDs(h)
		if id != 0 || r.HasQP(h) || r.Verbs(h) != 0 || r.Transport(h) != 0 || r.Port(h) != 0 || r.PKey(h) != 0 ||
			len(r.Paths(h)) != 0 || local != peer {
			t.Errorf("handle %d has something", h)
		}
	}
	r.want("descriptor of no channel", r.ChannelFD(1<<20), -1)
	if err := r.GetEvent(1<<20, nil); err != syscall.EINVAL {
		t.Error(err)
	}
}

// Pair is the calls that have a QP.
func (r *rig) Pair(h control.Handle, attr *abi.QPAttr) (control.Handle, uint32, error) {
	mask, err := r.InitQPAttr(h, attr)
	qp, err2 := r.CreateQP(h, 1, &abi.QPInitAttrEx{})
	qp2, err3 := r.CreateQP(h, 1, &abi.QPInitAttrEx{CompMask: abi.IBV_QP_INIT_ATTR_PD})
	if err2 != err || err3 != err {
		r.t.Errorf("%v, %v, %v", err, err2, err3)
	}
	return qp + qp2, mask, err
}
