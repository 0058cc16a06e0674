package ucma

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// kernel is rdma_cm's device file as tests want it. Its IDs have what commands and tests give them.
type kernel struct {
	mu       sync.Mutex
	next     uint32
	uids     map[uint32]uint64 // of IDs and groups
	reported map[uint64]uint32 // events, by UID
	queue    []abi.UCMEventResp
	journal  []string
	commands map[usercm.Command][]byte // the last ones
	fail     map[usercm.Command]error
	reply    func(c usercm.Command, resp []byte) // changes a reply
	wait     chan bool                           // GET_EVENT waits for it, after it has taken the event
	addr     abi.UCMQueryAddrResp                // of all IDs
	paths    usercm.PathResp
	attr     abi.UverbsQPAttr
	gid      string // the local one, in the addresses of IP
}

const guid = 0x0a1b2c3d4e5f6071

func newKernel() *kernel {
	k := &kernel{uids: map[uint32]uint64{}, reported: map[uint64]uint32{}, commands: map[usercm.Command][]byte{},
		fail: map[usercm.Command]error{}}
	k.addr.NodeGUID.Set(guid)
	k.addr.PKey.Set(0xffff)
	k.addr.PortNum, k.addr.SrcSize, k.addr.DstSize, k.addr.DeviceIndex = 1, 16, 16, 3
	k.addr.SrcAddr, k.addr.DstAddr = inet(1, 100), inet(2, 200)
	k.paths.NumPaths = 1
	k.paths.Paths[0].Path.DLID.Set(9)
	return k
}

// ib makes the addresses of all IDs those of InfiniBand.
func (k *kernel) ib() {
	for _, a := range []*[128]byte{&k.addr.SrcAddr, &k.addr.DstAddr} {
		*a = sockaddr.Addr{}
		binary.NativeEndian.PutUint16(a[:], sockaddr.IB)
		a[8] = 0xfe
	}
	k.addr.SrcSize, k.addr.DstSize = 48, 48
}

// inet is an address of IPv4.
func inet(host, port byte) (a sockaddr.Addr) {
	binary.NativeEndian.PutUint16(a[:], sockaddr.INET)
	a[3], a[4], a[7] = port, 10, host
	return a
}

func decode[T any](b []byte) (v T) {
	if _, err := binary.Decode(b, binary.NativeEndian, &v); err != nil {
		panic(err)
	}
	return v
}

func encode(b []byte, v any) {
	if _, err := binary.Encode(b, binary.NativeEndian, v); err != nil {
		panic(err)
	}
}

func (k *kernel) Write(command, resp []byte) (int, error) {
	c, body := usercm.Command(binary.NativeEndian.Uint32(command)), command[8:]
	k.mu.Lock()
	if c != usercm.CmdGetEvent && c != usercm.CmdQuery && c != usercm.CmdQueryRoute && c != usercm.CmdInitQPAttr {
		k.journal = append(k.journal, c.String())
	}
	k.commands[c] = slices.Clone(body)
	err := k.fail[c]
	if err == nil {
		err = k.run(c, body, resp)
	}
	if err == nil && k.reply != nil {
		k.reply(c, resp)
	}
	wait := k.wait
	k.mu.Unlock()
	if err != nil {
		return -1, err
	}
	if c == usercm.CmdGetEvent && wait != nil {
		<-wait
	}
	return len(command), nil
}

// Preconditions: k.mu is held.
func (k *kernel) run(c usercm.Command, body, resp []byte) error {
	switch c {
	case usercm.CmdCreateID:
		encode(resp, k.add(decode[abi.UCMCreateID](body).UID))
	case usercm.CmdJoinMcast:
		encode(resp, k.add(decode[abi.UCMJoinMcast](body).UID))
	case usercm.CmdAccept:
		if a := decode[abi.UCMAccept](body); a.ConnParam.Valid == 1 {
			k.uids[a.ID] = a.UID
		}
	case usercm.CmdDestroyID, usercm.CmdLeaveMcast, usercm.CmdMigrateID:
		q := decode[abi.UCMQuery](body)
		uid, ok := k.uids[q.ID]
		if !ok {
			return syscall.ENOENT
		}
		encode(resp, k.reported[uid])
		if c != usercm.CmdMigrateID {
			delete(k.uids, q.ID)
		}
	case usercm.CmdQuery:
		if decode[abi.UCMQuery](body).Arg == usercm.QueryPath {
			encode(resp, &k.paths)
		} else {
			encode(resp, &k.addr)
		}
	case usercm.CmdQueryRoute:
		r := abi.UCMQueryRouteResp{NodeGUID: k.addr.NodeGUID, NumPaths: k.paths.NumPaths, PortNum: k.addr.PortNum,
			DeviceIndex: k.addr.DeviceIndex}
		copy(r.SrcAddr[:], k.addr.SrcAddr[:])
		copy(r.DstAddr[:], k.addr.DstAddr[:])
		copy(r.IBRoute[0].SGID[:], k.gid)
		r.IBRoute[0].PKey, r.IBRoute[0].DLID = k.addr.PKey, k.paths.Paths[0].Path.DLID
		encode(resp, &r)
	case usercm.CmdInitQPAttr:
		a := k.attr
		a.QPState = decode[abi.UCMQuery](body).Arg
		a.QPAttrMask = abi.IBV_QP_STATE | kernelBits
		encode(resp, &a)
	case usercm.CmdGetEvent:
		if len(k.queue) == 0 {
			return syscall.EAGAIN
		}
		encode(resp, &k.queue[0])
		k.reported[k.queue[0].UID]++
		k.queue = k.queue[1:]
	}
	return nil
}

func (k *kernel) add(uid uint64) uint32 {
	n := k.next
	k.next++
	k.uids[n] = uid
	return n
}

// emit queues an event of an ID or a group.
func (k *kernel) emit(h control.Handle, event uint32, change ...func(*abi.UCMEventResp)) {
	e := abi.UCMEventResp{UID: uint64(h), Event: event}
	for _, f := range change {
		f(&e)
	}
	k.mu.Lock()
	k.queue = append(k.queue, e)
	k.mu.Unlock()
}

// request queues a connection request, and returns the kernel's number of the new ID.
func (k *kernel) request(listener control.Handle, change ...func(*abi.UCMEventResp)) uint32 {
	k.mu.Lock()
	n := k.add(0)
	k.mu.Unlock()
	k.emit(listener, abi.RDMA_CM_EVENT_CONNECT_REQUEST, append(change, func(e *abi.UCMEventResp) { e.ID = n })...)
	return n
}

// said returns the commands since the last call, without queries.
func (k *kernel) said() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	j := k.journal
	k.journal = nil
	return j
}

func last[T any](k *kernel, c usercm.Command) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return decode[T](k.commands[c])
}

// conn and ud set the parameter of an event.
func conn(p abi.UCMConnParam) func(*abi.UCMEventResp) {
	return func(e *abi.UCMEventResp) { encode(e.Param[:], &p) }
}

func ud(p abi.UCMUDParam) func(*abi.UCMEventResp) {
	return func(e *abi.UCMEventResp) { encode(e.Param[:], &p) }
}

// host is a device of the fake verbs.
type host struct {
	name      string
	guid      uint64
	index     int
	transport int32
	broken    bool // cannot be opened
	gone      bool // contexts say so
}

// fakeVerbs has what a CM needs. Handles of devices are 1 and up, of contexts 100 and up.
type fakeVerbs struct {
	control.Verbs
	hosts   []*host
	opened  map[control.Handle]*host
	closed  []control.Handle
	next    control.Handle
	journal []string
	fail    map[string]error // by the beginning of what is in the journal
	ece     abi.ECE
	noECE   bool
	noVerbs error // of the list of devices
}

func newVerbs() *fakeVerbs {
	return &fakeVerbs{hosts: []*host{{name: "mlx5_0", guid: guid, index: 3}}, opened: map[control.Handle]*host{},
		next: 100, fail: map[string]error{}}
}

func (v *fakeVerbs) note(format string, args ...any) error {
	s := fmt.Sprintf(format, args...)
	v.journal = append(v.journal, s)
	return v.fail[s]
}

func (v *fakeVerbs) said() []string {
	j := v.journal
	v.journal = nil
	return j
}

func (v *fakeVerbs) GetDeviceList() (control.Handle, []control.Handle, error) {
	if v.noVerbs != nil {
		return 0, nil, v.noVerbs
	}
	var all []control.Handle
	for n := range v.hosts {
		all = append(all, control.Handle(n+1))
	}
	return 1, all, nil
}
func (v *fakeVerbs) FreeDeviceList(control.Handle)                  {}
func (v *fakeVerbs) GetDeviceName(d control.Handle) (string, error) { return v.hosts[d-1].name, nil }
func (v *fakeVerbs) GetDeviceGUID(d control.Handle) (uint64, error) { return v.hosts[d-1].guid, nil }
func (v *fakeVerbs) GetDeviceIndex(d control.Handle) int            { return v.hosts[d-1].index }
func (v *fakeVerbs) Device(d control.Handle) control.Device {
	return control.Device{Transport: v.hosts[d-1].transport}
}
func (v *fakeVerbs) Removed(ctx control.Handle) bool            { return v.opened[ctx].gone }
func (v *fakeVerbs) Owner(object control.Handle) control.Handle { return object % 1000 }
func (v *fakeVerbs) QPNumber(qp control.Handle) uint32          { return uint32(qp) + 7 }
func (v *fakeVerbs) CloseDevice(ctx control.Handle) error {
	v.closed = append(v.closed, ctx)
	return nil
}
func (v *fakeVerbs) DestroyQP(qp control.Handle) error                  { return v.note("destroy") }
func (v *fakeVerbs) AttachMcast(control.Handle, *abi.GID, uint16) error { return v.note("attach") }
func (v *fakeVerbs) DetachMcast(control.Handle, *abi.GID, uint16) error { return v.note("detach") }
func (v *fakeVerbs) CreateQP(pd control.Handle, _ *abi.QPInitAttrEx) (control.Handle, error) {
	return 5000 + pd%1000, v.note("create")
}
func (v *fakeVerbs) CreateQPEx(ctx control.Handle, _ *abi.QPInitAttrEx) (control.Handle, error) {
	return 5000 + ctx, v.note("create")
}

func (v *fakeVerbs) OpenDevice(d control.Handle) (control.Handle, error) {
	if v.hosts[d-1].broken {
		return 0, syscall.EACCES
	}
	ctx := v.next
	v.next++
	v.opened[ctx] = v.hosts[d-1]
	return ctx, nil
}

func (v *fakeVerbs) QueryDevice(_ control.Handle, a *abi.DeviceAttr) error {
	*a = abi.DeviceAttr{PhysPortCnt: 2, MaxQPRdAtom: 16, MaxQPInitRdAtom: 300}
	return nil
}

func (v *fakeVerbs) ModifyQP(_ control.Handle, a *abi.QPAttr, mask uint32) error {
	if mask&kernelBits != 0 {
		return syscall.EINVAL
	}
	s := fmt.Sprint([...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}[a.QPState])
	if a.MaxDestRdAtomic != 0 || a.MaxRdAtomic != 0 {
		s += fmt.Sprintf(" %d/%d", a.MaxDestRdAtomic, a.MaxRdAtomic)
	}
	return v.note("%s", s)
}

func (v *fakeVerbs) QueryECE(_ control.Handle, e *abi.ECE) error {
	if v.noECE {
		return control.ErrNoOp
	}
	*e = v.ece
	return nil
}

func (v *fakeVerbs) SetECE(_ control.Handle, e *abi.ECE) error {
	if v.noECE {
		return syscall.EOPNOTSUPP
	}
	v.ece.Options = e.Options
	return v.note("ece %d/%d", e.VendorID, e.Options)
}

// rig is a CM with a channel.
type rig struct {
	*CM
	t  *testing.T
	k  *kernel
	v  *fakeVerbs
	ch control.Handle
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, k: newKernel(), v: newVerbs()}
	r.CM = New(r.v)
	r.open = func() (*usercm.File, error) { return usercm.NewFile(-1, r.k), nil }
	r.ch = r.must(r.CreateEventChannel())
	return r
}

func (r *rig) must(h control.Handle, err error) control.Handle {
	r.t.Helper()
	r.ok(err)
	return h
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) want(what string, got, want any) {
	r.t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		r.t.Errorf("%s is %s, want %s", what, g, w)
	}
}

func (r *rig) id(ps uint32) control.Handle {
	r.t.Helper()
	return r.must(r.CreateID(r.ch, ps))
}

// bound returns an ID that has a device.
func (r *rig) bound(ps uint32) control.Handle {
	r.t.Helper()
	h, a := r.id(ps), inet(1, 0)
	r.ok(r.BindAddr(h, &a))
	return h
}

// get returns the next event.
func (r *rig) get() (got *control.CMEvent) {
	r.t.Helper()
	r.ok(r.GetEvent(r.ch, func(ev *control.CMEvent) { got = ev }))
	return got
}

// none checks that no event is left for the program.
func (r *rig) none() {
	r.t.Helper()
	err := r.GetEvent(r.ch, func(ev *control.CMEvent) { r.t.Errorf("event %d of %d", ev.Event, ev.ID) })
	if err != syscall.EAGAIN {
		r.t.Errorf("error %v, want EAGAIN", err)
	}
}

// pd returns a PD of the device of an ID.
func (r *rig) pd(h control.Handle) control.Handle { return 3000 + r.Verbs(h) }
