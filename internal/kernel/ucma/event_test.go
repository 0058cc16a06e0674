package ucma

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// TestEvents: what the program gets of each event that the kernel has, and of those that it may get.
func TestEvents(t *testing.T) {
	with := []uint32{abi.RDMA_CM_EVENT_CONNECT_REQUEST, abi.RDMA_CM_EVENT_CONNECT_RESPONSE,
		abi.RDMA_CM_EVENT_CONNECT_ERROR, abi.RDMA_CM_EVENT_UNREACHABLE, abi.RDMA_CM_EVENT_REJECTED,
		abi.RDMA_CM_EVENT_ESTABLISHED, abi.RDMA_CM_EVENT_DISCONNECTED} // have what the peer sent
	groups := []uint32{abi.RDMA_CM_EVENT_MULTICAST_JOIN, abi.RDMA_CM_EVENT_MULTICAST_ERROR}
	for _, ps := range []uint32{abi.RDMA_PS_TCP, abi.RDMA_PS_UDP} {
		datagrams := ps == abi.RDMA_PS_UDP
		for event := range uint32(40) {
			t.Run(fmt.Sprintf("%#x/%d", ps, event), func(t *testing.T) {
				r := newRig(t)
				h := r.bound(ps)
				param := conn(abi.UCMConnParam{QPNum: 77, PrivateDataLen: 255, PrivateData: [256]byte{254: 9}, SRQ: 1,
					ResponderResources: 2, InitiatorDepth: 3, FlowControl: 1, RetryCount: 4, RNRRetryCount: 5})
				if datagrams {
					param = ud(abi.UCMUDParam{QPNum: 77, QKey: 8, PrivateDataLen: 255, PrivateData: [256]byte{254: 9},
						AHAttr: abi.AHAttr{DLID: 6, PortNum: 1}})
				}
				e := func(e *abi.UCMEventResp) { param(e); e.Status = -7 }
				if event == abi.RDMA_CM_EVENT_CONNECT_REQUEST {
					r.k.request(h, e)
				} else {
					r.k.emit(h, event, e)
				}
				if slices.Contains(groups, event) || event == abi.RDMA_CM_EVENT_INTERNAL {
					r.none() // an ID is no group, and the kernel means nothing by the other
					r.ok(r.DestroyID(h))
					return
				}
				ev := r.get()
				r.want("event", ev.Event, event)
				r.want("status", ev.Status, -7)
				if event == abi.RDMA_CM_EVENT_CONNECT_REQUEST {
					r.want("listener", ev.ListenID, h)
				} else {
					r.want("ID", ev.ID, h)
				}
				if event == abi.RDMA_CM_EVENT_CONNECT_RESPONSE && datagrams {
					return // there is none
				}
				has := slices.Contains(with, event)
				if r.want("datagrams", ev.UD, has && datagrams); !has {
					r.want("private data", len(ev.Data), 0)
					return
				}
				if len(ev.Data) != 255 || ev.Data[254] != 9 {
					t.Errorf("private data %v", ev.Data)
				}
				p := ev.Param
				if datagrams && (p.QPNum != 77 || p.QKey != 8 || p.AHAttr.DLID != 6 || p.AHAttr.PortNum != 1) {
					t.Errorf("%+v", p)
				}
				if p := ev.Conn(); !datagrams && *p != (abi.RDMAConnParam{PrivateDataLen: 255, ResponderResources: 2,
					InitiatorDepth: 3, FlowControl: 1, RetryCount: 4, RNRRetryCount: 5, SRQ: 1, QPNum: 77}) {
					t.Errorf("%+v", p)
				}
			})
		}
	}
}

// TestResolved: what an ID knows after its address and its route are resolved, and the event of one that is of no use.
func TestResolved(t *testing.T) {
	resolve := func(r *rig) (control.Handle, *control.CMEvent) {
		h, dst := r.id(abi.RDMA_PS_TCP), inet(2, 200)
		r.ok(r.ResolveAddr(h, nil, &dst, 100))
		r.k.emit(h, abi.RDMA_CM_EVENT_ADDR_RESOLVED)
		return h, r.get()
	}
	r := newRig(t)
	r.k.gid = "source"
	h, ev := resolve(r)
	if ev.Event != abi.RDMA_CM_EVENT_ADDR_RESOLVED || r.Verbs(h) != 100 || r.Src(h) != inet(1, 100) || r.Port(h) != 1 {
		t.Errorf("%+v of the context %d", ev, r.Verbs(h))
	}
	if gid, peer := r.GIDs(h); string(gid[:6]) != "source" || peer != (abi.GID{}) {
		t.Errorf("GIDs %v, %v", gid, peer)
	}
	r.k.emit(h, abi.RDMA_CM_EVENT_ROUTE_RESOLVED)
	r.want("event", r.get().Event, abi.RDMA_CM_EVENT_ROUTE_RESOLVED)
	r.want("paths", len(r.Paths(h)), 1)

	for name, tc := range map[string]struct {
		change func(r *rig)
		route  bool
		event  uint32
		status int32
	}{
		"a device that cannot be opened": {func(r *rig) { r.v.hosts[0].broken = true }, false,
			abi.RDMA_CM_EVENT_ADDR_ERROR, -1},
		"an unknown device": {func(r *rig) { r.k.addr.NodeGUID = 7 }, false, abi.RDMA_CM_EVENT_ADDR_ERROR, -1},
		"no device":         {func(r *rig) { r.k.addr.NodeGUID = 0 }, false, abi.RDMA_CM_EVENT_ADDR_ERROR, -1},
		"no query": {func(r *rig) { r.k.fail[usercm.CmdQueryRoute] = syscall.EIO }, true,
			abi.RDMA_CM_EVENT_ROUTE_ERROR, -int32(syscall.EIO)},
	} {
		r := newRig(t)
		var ev *control.CMEvent
		if tc.route {
			h := r.bound(abi.RDMA_PS_TCP)
			tc.change(r)
			r.k.emit(h, abi.RDMA_CM_EVENT_ROUTE_RESOLVED)
			ev = r.get()
		} else {
			tc.change(r)
			_, ev = resolve(r)
		}
		if ev.Event != tc.event || ev.Status != tc.status {
			t.Errorf("%s: event %d, status %d", name, ev.Event, ev.Status)
		}
	}

	r = newRig(t)
	r.k.emit(r.id(abi.RDMA_PS_TCP), abi.RDMA_CM_EVENT_ROUTE_RESOLVED) // without a device librdmacm crashes
	r.want("event", r.get().Event, abi.RDMA_CM_EVENT_ROUTE_ERROR)
}

// TestAddresses: a destination that the kernel refuses is not the ID's, and an address of an unknown family goes to no
// kernel.
func TestAddresses(t *testing.T) {
	r := newRig(t)
	h, a, b := r.id(abi.RDMA_PS_TCP), inet(1, 1), inet(2, 2)
	r.ok(r.ResolveAddr(h, &a, &b, 2000))
	q := last[abi.UCMResolveAddr](r.k, usercm.CmdResolveAddr)
	if q.SrcAddr != a || q.DstAddr != b || q.SrcSize != 16 || q.DstSize != 16 || q.TimeoutMs != 2000 || r.Dst(h) != b {
		t.Errorf("%+v", q)
	}
	r.k.fail[usercm.CmdResolveAddr] = syscall.ENETUNREACH
	if err := r.ResolveAddr(h, nil, &a, 1); err != syscall.ENETUNREACH || r.Dst(h) != b {
		t.Errorf("%v, destination %v", err, r.Dst(h))
	}
	r.k.said()
	var unknown = a
	unknown[0] = 99
	for n, err := range []error{r.BindAddr(h, &unknown), r.ResolveAddr(h, &unknown, &b, 1),
		r.ResolveAddr(h, &a, &unknown, 1), r.JoinMulticast(h, &unknown, 0, 1), r.LeaveMulticast(h, &unknown)} {
		if err != syscall.EINVAL {
			t.Errorf("call %d: %v", n, err)
		}
	}
	r.want("the kernel", r.k.said(), []string(nil))
	r.k.addr.SrcAddr = inet(1, 77)
	r.ok(r.Listen(h, 5))
	r.want("the port that the kernel has chosen", r.Src(h), inet(1, 77))
	r.want("backlog", last[abi.UCMIDArg](r.k, usercm.CmdListen).Arg, 5)
}

// TestPaths: more paths than there is room for are as many as there is room for, and each field is in its place.
func TestPaths(t *testing.T) {
	r := newRig(t)
	r.k.paths.NumPaths = 1 << 31
	r.want("paths", len(r.Paths(r.requested(abi.RDMA_PS_TCP))), 2)
	r.k.ib()
	p := &r.k.paths.Paths[5]
	p.Flags = 0x123
	p.Path = abi.PathRecord{DGID: abi.GID{1}, SGID: abi.GID{2}, Tclass: 3, ReversibleNumpath: 0x81, MTU: 0xc4,
		Rate: 0xc5, Packetlifetime: 0xc6}
	p.Path.FlowlabelHoplimit.Set(0xabcde40)
	p.Path.QosclassSL.Set(0xfff7)
	h := r.requested(abi.RDMA_PS_TCP)
	all := r.Paths(h)
	r.want("paths", len(all), 6)
	want := abi.SAPathRec{DGID: abi.GID{1}, SGID: abi.GID{2}, HopLimit: 0x40, TrafficClass: 3, Reversible: 1,
		NumbPath: 1, SL: 7, MTUSelector: 2, MTU: 4, RateSelector: 2, Rate: 5, PacketLifeTimeSelector: 2,
		PacketLifeTime: 6,
		Preference:     0x23}
	want.FlowLabel.Set(0xabcde)
	if all[5] != want {
		t.Errorf("%+v, want %+v", all[5], want)
	}
	if gid, _ := r.GIDs(h); gid[0] != 0xfe || r.Verbs(h) == 0 || r.Port(h) != 1 || r.PKey(h) != 0xffff {
		t.Errorf("GID %v, context %d, port %d, P_Key %#x", gid, r.Verbs(h), r.Port(h), r.PKey(h))
	}
	all[0].MTU = 99
	if r.Paths(h)[0].MTU == 99 {
		t.Error("the caller can change the ID's paths")
	}
}

// FuzzEvents: no event, and no reply, makes the reader fail or wait. The kernel is a liar that names objects that exist
// and others.
func FuzzEvents(f *testing.F) {
	for event := range byte(24) {
		f.Add([]byte{event, 1}, uint64(event))
		f.Add(append([]byte{event, 2}, make([]byte, 400)...), uint64(4))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		r := newRig(t)
		tcp, udp := r.paired(abi.RDMA_PS_TCP), r.paired(abi.RDMA_PS_UDP)
		a := inet(9, 0)
		r.ok(r.JoinMulticast(udp, &a, 0, 1))
		at := 0
		r.k.reply = func(c usercm.Command, resp []byte) { // bytes of data, as long as there are any
			if c == usercm.CmdGetEvent {
				return
			}
			at += copy(resp, data[min(at, len(data)):])
		}
		for n := 0; n+2 <= len(data) && n < 16; n += 2 {
			uid := []control.Handle{0, tcp, udp, udp + 1, r.ch, control.Handle(seed)}[int(data[n+1])%6]
			r.k.emit(uid, uint32(data[n]%26), func(e *abi.UCMEventResp) {
				e.ID = uint32(seed)
				copy(e.Param[:], data[n:])
				e.Status = int32(binary.NativeEndian.Uint32(append(slices.Clone(data[n:]), 0, 0, 0, 0)))
			})
		}
		for {
			err := r.GetEvent(r.ch, func(ev *control.CMEvent) {
				r.Src(ev.ID)
				if len(ev.Data) > 255 {
					t.Errorf("%d bytes of private data", len(ev.Data))
				}
			})
			if err == syscall.EAGAIN {
				break
			}
			r.ok(err)
		}
		r.k.reply = nil
		for _, h := range []control.Handle{tcp, udp} {
			_ = r.Disconnect(h)
			_ = r.LeaveMulticast(h, &a)
			r.ok(r.DestroyID(h)) // also if a request of its number was refused
		}
		r.DestroyEventChannel(r.ch)
	})
}
