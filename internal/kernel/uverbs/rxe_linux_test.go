package uverbs

import (
	"encoding/binary"
	"errors"
	"os/exec"
	"slices"
	"structs"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind/libibverbs"
	"github.com/pureverbs/pureverbs/internal/kernel/nldev"
	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// These tests give the commands to Linux itself, on SoftRoCE: its driver's parts are those of rdma/rdma_user_rxe.h.

const (
	rxeDriver  = 14 // C: RDMA_DRIVER_RXE
	rxeVersion = 2  // C: RXE_UVERBS_ABI_VERSION
)

// forms are the forms by name, the best first.
var formNames = []string{ByMethod: "methods", ByInvoke: "INVOKE_WRITE", ByWrite: "write()"}

// ring is where a queue can be mapped. C: struct mminfo
type ring struct {
	_      structs.HostLayout
	Offset uint64
	Size   uint32
	_      uint32
}

// node is a device of SoftRoCE, open in one form of commands.
type node struct {
	*File
	t       *testing.T
	rxe     testutil.RXE
	dev     string
	uverbs  string
	form    Form
	context Context
	after   func() // the file is closed
}

func (n *node) ok(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func must[T any](v T, err error) func(n *node) T {
	return func(n *node) T {
		n.t.Helper()
		n.ok(err)
		return v
	}
}

// eachForm opens a device in each of the forms.
func eachForm(t *testing.T, dev int, f func(n *node)) {
	r := testutil.NeedRXE(t)
	r.NeedKernel(t)
	for form, name := range formNames {
		t.Run(name, func(t *testing.T) {
			n := &node{t: t, rxe: r, dev: r.Dev[dev], form: Form(form), after: func() {}}
			n.uverbs = must(sysfs.DefaultRoot().Device(n.dev))(n).Uverbs
			forms := new(Forms)
			forms.From(n.form)
			n.File = must(ReadNode(sysfs.DefaultRoot(), n.uverbs).Open(rxeDriver, forms))(n)
			c, err := n.GetContext(Driver{})
			if err == syscall.EBADF && n.form == ByInvoke { // by Linux 7.2, where nothing asks for it in this form
				forms.From(ByMethod)
				c, err = n.GetContext(Driver{})
				forms.From(n.form)
			}
			n.ok(err)
			n.context = c
			f(n)
			n.ok(CloseFD(c.AsyncFD))
			n.ok(n.Close())
			n.after()
		})
	}
}

func (n *node) mapRing(r ring, elements uint32) []byte {
	n.t.Helper()
	b := must(n.Map(int64(r.Offset), int(r.Size), Readable|Writable))(n)
	if mask := binary.NativeEndian.Uint32(b[4:]); mask&(mask+1) != 0 || mask < elements {
		n.t.Errorf("a ring of %#x elements, want %d or more", mask+1, elements)
	}
	return b
}

// TestRXE_Device finds a device by netlink, opens it and compares what the kernel answers with sysfs.
func TestRXE_Device(t *testing.T) {
	eachForm(t, 0, func(n *node) {
		root := sysfs.DefaultRoot()
		known := must(nldev.Devices())(n)
		if d, ok := known[n.dev]; !ok || d.Driver != rxeDriver {
			t.Errorf("netlink's device is %+v, want driver %d", d, rxeDriver)
		}
		at := ReadNode(root, n.uverbs)
		n.ok(at.Check(root, rxeVersion))
		err := at.Check(root, rxeVersion-1)
		if e := (*VersionError)(nil); !errors.As(err, &e) || e.Got != rxeVersion {
			t.Errorf("the version of another driver: %v", e)
		}
		if n.context.CompVectors == 0 || n.context.AsyncFD < 0 {
			t.Errorf("context %+v", n.context)
		}
		for _, fd := range []int{n.FD(), n.context.AsyncFD} {
			if flags := must(unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0))(n); flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("descriptor %d stays open on exec", fd)
			}
		}

		have := must(root.Device(n.dev))(n)
		attr := must(n.QueryDevice(true))(n)
		var guid [8]byte
		binary.NativeEndian.PutUint64(guid[:], attr.NodeGUID)
		if got := sysfs.GID(append(make([]byte, 8), guid[:]...)).String()[20:]; got != have.NodeGUID {
			t.Errorf("GUID %s, want %s", got, have.NodeGUID)
		}
		if attr.PhysPortCnt != 1 || attr.MaxQP <= 0 || attr.MaxMRSize == 0 {
			t.Errorf("%+v", attr)
		}
		ex := must(n.QueryDeviceEx(Driver{}))(n)
		if ex.Base != *attr {
			t.Errorf("the extended query has %+v, want %+v", ex.Base, attr)
		}
		const active, ethernet = 4, 2
		port := &must(n.QueryPort(1))(n).LegacyResp
		if port.State != active || port.LinkLayer != ethernet || port.GIDTblLen == 0 || port.PKeyTblLen == 0 {
			t.Errorf("%+v", port)
		}
		if _, err := n.QueryPort(2); err != syscall.EINVAL {
			t.Errorf("port 2: %v", err)
		}
		n.gids(port)
	})
}

// gids compares the GID table with sysfs. Its commands exist as methods alone.
func (n *node) gids(port *abi.UverbsQueryPortResp) {
	want := sysfs.DefaultRoot().GIDEntry(n.dev, 1, n.rxe.GID)
	entry := new(abi.GIDEntry)
	err := n.QueryGIDEntry(1, uint32(n.rxe.GID), entry)
	if n.form == ByWrite && Absent(err) {
		return
	}
	n.ok(err)
	const rocev2 = 2
	if want.Err != nil || sysfs.GID(entry.GID) != want.GID || entry.GIDType != rocev2 ||
		entry.NdevIfindex == 0 || entry.PortNum != 1 {
		n.t.Errorf("%+v, want GID %v", entry, want.GID)
	}
	table := make([]abi.GIDEntry, port.GIDTblLen)
	count := must(n.QueryGIDTable(table))(n)
	if !slices.Contains(table[:count], *entry) {
		n.t.Errorf("table %+v without %+v", table[:count], entry)
	}
	// An index that holds nothing, and one beyond the table.
	for i, want := range map[uint32]error{port.GIDTblLen - 1: syscall.ENODATA, port.GIDTblLen: syscall.EINVAL} {
		if err := n.QueryGIDEntry(1, i, new(abi.GIDEntry)); err != want {
			n.t.Errorf("GID %d: %v, want %v", i, err, want)
		}
	}
}

// TestRXE_Objects makes, changes and ends one object of each kind that SoftRoCE has.
func TestRXE_Objects(t *testing.T) {
	eachForm(t, 0, func(n *node) {
		pd := must(n.AllocPD(Driver{}))(n)
		n.memory(pd)
		ch := must(n.CreateCompChannel())(n)
		var mi ring
		reply := Driver{Out: Bytes(&mi)}
		cq := must(n.CreateCQ(&abi.UverbsCreateCQ{UserHandle: 7, CQE: 30, CompChannel: int32(ch)}, 0, reply))(n)
		if cq.CQE < 30 {
			t.Errorf("a CQ of %d entries", cq.CQE)
		}
		n.ok(Unmap(n.mapRing(mi, cq.CQE)))
		if _, err := n.CreateCQ(&abi.UverbsCreateCQ{CQE: 1 << 30, CompChannel: -1}, 0, reply); err != syscall.EINVAL {
			t.Errorf("a CQ that is too large: %v", err)
		}
		if _, err := n.CreateCQ(&abi.UverbsCreateCQ{CQE: 8, CompChannel: int32(n.FD())}, 0, reply); err == nil {
			t.Error("a CQ whose channel is another file")
		}
		srq := n.srq(pd)
		for _, typ := range []uint8{2, 3, 4} { // C: enum ib_uverbs_qp_type: RC, UC, UD
			n.qp(pd, cq.CQHandle, srq, typ)
		}
		n.address(pd)
		if err := n.DeallocPD(pd); err != syscall.EBUSY {
			t.Errorf("a PD with an SRQ: %v", err)
		}
		if events := must(n.DestroySRQ(srq))(n); events != 0 {
			t.Errorf("%d events of the SRQ", events)
		}
		completions, events, err := n.DestroyCQ(cq.CQHandle)
		if n.ok(err); completions != 0 || events != 0 {
			t.Errorf("%d and %d events of the CQ", completions, events)
		}
		if _, _, err := n.DestroyCQ(cq.CQHandle); !slices.Contains([]error{syscall.EINVAL, syscall.ENOENT}, err) {
			t.Errorf("a CQ that is gone: %v", err)
		}
		n.ok(CloseFD(ch))
		n.ok(n.DeallocPD(pd))
	})
}

// memory registers some, and changes the registration if the kernel's SoftRoCE can.
func (n *node) memory(pd uint32) {
	const localWrite, remoteWrite, optional, access = 1, 2, 1 << 20, 1 << 2
	b := must(unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(n)
	defer unix.Munmap(b)
	q := abi.UverbsRegMR{Start: Address(b), Length: 8192, HCAVA: Address(b), PDHandle: pd,
		AccessFlags: localWrite | remoteWrite}
	mr := must(n.RegMR(&q))(n)
	if mr.LKey == 0 || mr.RKey == 0 {
		n.t.Errorf("%+v", mr)
	}
	if err := n.DeallocPD(pd); err != syscall.EBUSY {
		n.t.Errorf("a PD with an MR: %v", err)
	}
	lkey, rkey, err := n.ReregMR(&abi.UverbsReregMR{MRHandle: mr.MRHandle, Flags: access, PDHandle: pd,
		AccessFlags: localWrite})
	if err == nil && (lkey == 0 || rkey != lkey && rkey != 0) || err != nil && err != syscall.EOPNOTSUPP {
		n.t.Errorf("another access: keys %#x and %#x, %v", lkey, rkey, err)
	}
	n.ok(n.DeregMR(mr.MRHandle))
	q.AccessFlags |= optional
	mr, err = n.RegMR(&q)
	if err != nil && n.context.OptionalMR {
		n.t.Errorf("an optional access flag, which the kernel says that it ignores: %v", err)
	}
	if err == nil {
		n.ok(n.DeregMR(mr.MRHandle))
	}
	for name, bad := range map[string]abi.UverbsRegMR{
		"no memory": {Length: 4096, PDHandle: pd, AccessFlags: localWrite, Start: 4096},
		"no PD":     {Start: q.Start, HCAVA: q.HCAVA, Length: 4096, PDHandle: 1 << 30, AccessFlags: localWrite},
		"a remote write alone": {Start: q.Start, HCAVA: q.HCAVA, Length: 4096, PDHandle: pd,
			AccessFlags: remoteWrite}} {
		if _, err := n.RegMR(&bad); err == nil {
			n.t.Errorf("an MR with %s", name)
		}
	}
	for typ := range uint8(2) {
		h, key, err := n.AllocMW(pd, typ+1)
		if err == nil {
			n.ok(n.DeallocMW(h))
		} else if err != syscall.EOPNOTSUPP { // before Linux 5.14
			n.t.Errorf("a window of type %d: key %#x, %v", typ+1, key, err)
		}
	}
}

// srqReply is struct rxe_create_srq_resp.
type srqReply struct {
	ring
	_, _ uint32
}

func (n *node) srq(pd uint32) uint32 {
	r := new(srqReply)
	srq := must(n.CreateSRQ(&abi.UverbsCreateSRQ{PDHandle: pd, MaxWR: 8, MaxSGE: 2, SRQLimit: 3}, nil,
		Driver{Out: Bytes(r)}))(n)
	wr, sge, limit, err := n.QuerySRQ(srq.SRQHandle)
	if n.ok(err); wr < 8 || srq.MaxWR < 8 || sge != srq.MaxSGE || limit != 3 || sge < 2 {
		n.t.Errorf("SRQ %+v, queried %d, %d, %d", srq, wr, sge, limit)
	}
	n.ok(Unmap(n.mapRing(r.ring, 8)))
	return srq.SRQHandle
}

// qp takes a QP through its states.
func (n *node) qp(pd, cq, srq uint32, typ uint8) {
	const rc, uc = 2, 3
	rings := new([2]ring)
	q := &abi.UverbsCreateQP{UserHandle: 9, PDHandle: pd, SendCQHandle: cq, RecvCQHandle: cq, QPType: typ,
		Cap: abi.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 32}}
	if typ == uc {
		q.SRQHandle, q.IsSRQ = srq, 1
	}
	qp := must(n.CreateQP(q, QPOptions{}, Driver{Out: Bytes(rings)}))(n)
	if qp.Cap.MaxSendWR < 8 || qp.Cap.MaxInlineData < 32 || qp.QPN == 0 {
		n.t.Errorf("%+v", qp)
	}
	n.ok(Unmap(n.mapRing(rings[1], 8)))
	if q.IsSRQ == 0 {
		n.ok(Unmap(n.mapRing(rings[0], 8)))
	}
	m, steps := n.steps(qp, typ)
	for i, mask := range append(steps, stateMask) {
		m.QPState, m.AttrMask = uint8(i+1), mask // INIT, RTR, RTS
		if i == len(steps) {
			m.QPState = 6 // ERR
		}
		n.ok(n.ModifyQP(m))
		got := must(n.QueryQP(qp.QPHandle, 1<<25-1))(n)
		if got.QPState != m.QPState || got.PortNum != 1 || typ == rc && i > 0 && (got.Dest.DGID != m.Dest.DGID ||
			got.DestQPNum != qp.QPN || got.PathMTU != 3 || got.RQPSN != 5) {
			n.t.Errorf("type %d after step %d: %+v", typ, i, got)
		}
	}
	m.QPState, m.AttrMask = 3, stateMask
	if err := n.ModifyQP(m); err != syscall.EINVAL {
		n.t.Errorf("from ERR to RTS: %v", err)
	}
	if events := must(n.DestroyQP(qp.QPHandle))(n); events != 0 {
		n.t.Errorf("%d events of the QP", events)
	}
}

const stateMask = 1 // C: IB_QP_STATE

// steps returns the attributes of a QP that is connected to itself, and the masks of its steps to INIT, RTR and RTS.
func (n *node) steps(qp *abi.UverbsQP, typ uint8) (m *abi.UverbsModifyQP, masks []uint32) {
	const rc, uc, ud = 2, 3, 4
	gid := sysfs.DefaultRoot().GIDEntry(n.dev, 1, n.rxe.GID).GID
	dest := abi.UverbsQPDest{DGID: gid, SGIDIndex: uint8(n.rxe.GID), IsGlobal: 1, PortNum: 1, HopLimit: 64}
	m = &abi.UverbsModifyQP{QPHandle: qp.QPHandle, Dest: dest, PortNum: 1, QKey: 0x11, QPAccessFlags: 7,
		PathMTU: 3, RQPSN: 5, SQPSN: 5, DestQPNum: qp.QPN, MinRNRTimer: 12, MaxRdAtomic: 1, MaxDestRdAtomic: 1,
		Timeout: 14, RetryCnt: 7, RNRRetry: 7}
	const state, access, pkey, port, qkey, av, mtu, timeout, retry, rnr, rqpsn = 1, 1 << 3, 1 << 4, 1 << 5, 1 << 6,
		1 << 7, 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12
	const rd, minRNR, sqpsn, dest2, destQPN = 1 << 13, 1 << 15, 1 << 16, 1 << 17, 1 << 20
	return m, map[uint8][]uint32{
		rc: {state | pkey | port | access, state | av | mtu | destQPN | rqpsn | dest2 | minRNR,
			state | timeout | retry | rnr | sqpsn | rd},
		uc: {state | pkey | port | access, state | av | mtu | destQPN | rqpsn, state | sqpsn},
		ud: {state | pkey | port | qkey, state, state | sqpsn},
	}[typ]
}

// address makes address handles: SoftRoCE resolves nothing.
func (n *node) address(pd uint32) {
	gid := sysfs.DefaultRoot().GIDEntry(n.dev, 1, n.rxe.GID).GID
	a := &abi.AHAttr{GRH: abi.GlobalRoute{DGID: abi.GID(gid), SGIDIndex: uint8(n.rxe.GID), HopLimit: 64},
		IsGlobal: 1, PortNum: 1}
	var number [2]uint32
	ah := must(n.CreateAH(3, pd, a, Driver{Out: Bytes(&number)}))(n)
	n.ok(n.DestroyAH(ah))
	a.PortNum = 9
	if _, err := n.CreateAH(3, pd, a, Driver{Out: Bytes(&number)}); err != syscall.EINVAL {
		n.t.Errorf("an AH of port 9: %v", err)
	}
}

// Commands that SoftRoCE takes in place of a doorbell.
var (
	rxePostSend = command{"post_send", 0, noMethod, 28}
	reqNotifyCQ = command{"req_notify_cq", 0, noMethod, 23}
)

// push writes an element of a mapped ring. C: struct rxe_queue_buf.
func push(ring []byte, element func(b []byte)) {
	const mask, producer, data = 4, 128, 384
	e := binary.NativeEndian
	n := e.Uint32(ring[producer:])
	element(ring[data+n&e.Uint32(ring[mask:])<<e.Uint32(ring):])
	e.PutUint32(ring[producer:], (n+1)&e.Uint32(ring[mask:]))
}

// await reads an event of a descriptor.
func (n *node) await(fd int, b []byte) {
	n.t.Helper()
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(testutil.Patience); ; {
		ready, err := unix.Poll(p, int(time.Until(deadline).Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n.ok(err); ready == 0 {
			n.t.Fatal("no event")
		}
		n.ok(Read(fd, b))
		return
	}
}

// asyncEvent is struct ib_uverbs_async_event_desc.
type asyncEvent struct {
	_       structs.HostLayout
	element uint64
	typ, _  uint32
}

// until reads async events up to one of a type, and returns what it is about.
func (n *node) until(typ uint32) uint64 {
	n.t.Helper()
	for {
		ev := new(asyncEvent)
		n.await(n.context.AsyncFD, Bytes(ev))
		if ev.typ == typ {
			return ev.element
		}
		n.t.Logf("event %+v on the way", ev)
	}
}

// TestRXE_Events sends a message of a QP to itself: the CQ's completion raises an event on the channel, and the SRQ
// reaches its limit. Then the port goes down and up.
func TestRXE_Events(t *testing.T) {
	eachForm(t, 0, func(n *node) {
		const cqUser, srqUser, rc = 0x1122334455667788, 99, 2
		// The method leaves the length of the MR to the driver, and SoftRoCE of Linux 7.2 leaves it to the command.
		n.forms.noMethod.Store(&regMR, true)
		pd := must(n.AllocPD(Driver{}))(n)
		b := must(unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(n)
		defer unix.Munmap(b)
		mr := must(n.RegMR(&abi.UverbsRegMR{Start: Address(b), Length: 4096, HCAVA: Address(b), PDHandle: pd,
			AccessFlags: 1}))(n)
		ch := must(n.CreateCompChannel())(n)
		var mi ring
		cq := must(n.CreateCQ(&abi.UverbsCreateCQ{UserHandle: cqUser, CQE: 8, CompChannel: int32(ch)}, 0,
			Driver{Out: Bytes(&mi)}))(n)
		sr, rings := new(srqReply), new([2]ring)
		srq := must(n.CreateSRQ(&abi.UverbsCreateSRQ{UserHandle: srqUser, PDHandle: pd, MaxWR: 8, MaxSGE: 1,
			SRQLimit: 2}, nil, Driver{Out: Bytes(sr)}))(n)
		qp := must(n.CreateQP(&abi.UverbsCreateQP{PDHandle: pd, SendCQHandle: cq.CQHandle, RecvCQHandle: cq.CQHandle,
			SRQHandle: srq.SRQHandle, IsSRQ: 1, QPType: rc, Cap: abi.QPCap{MaxSendWR: 4, MaxSendSGE: 1}}, QPOptions{},
			Driver{Out: Bytes(rings)}))(n)
		m, steps := n.steps(qp, rc)
		for i, mask := range steps {
			m.QPState, m.AttrMask = uint8(i+1), mask
			n.ok(n.ModifyQP(m))
		}

		copy(b, "ping")
		e := binary.NativeEndian
		memory := func(info []byte, off int) { // C: struct rxe_dma_info, and an SGE
			e.PutUint32(info[0:], 64)
			e.PutUint32(info[4:], 64)
			e.PutUint32(info[12:], 1)
			e.PutUint64(info[24:], Address(b)+uint64(off))
			e.PutUint32(info[32:], 64)
			e.PutUint32(info[36:], mr.LKey)
		}
		rq, sq := n.mapRing(sr.ring, 8), n.mapRing(rings[1], 4)
		for i := range 2 {
			push(rq, func(w []byte) { // C: struct rxe_recv_wqe
				e.PutUint32(w[8:], 1)
				memory(w[16:], 1024*(i+1))
			})
		}
		n.ok(n.do(&reqNotifyCQ, request{in: Bytes(&[2]uint32{cq.CQHandle, 0})}))
		push(sq, func(w []byte) { // C: struct rxe_send_wqe
			e.PutUint32(w[8:], 1)
			e.PutUint32(w[12:], 2) // C: IB_WR_SEND
			memory(w[184:], 0)
		})
		n.ok(n.do(&rxePostSend, request{in: Bytes(&struct {
			_                        structs.HostLayout
			response                 uint64
			qp, wrs, sges, wqeLength uint32
		}{qp: qp.QPHandle, wqeLength: 128}), out: make([]byte, 4)}))

		got := new(uint64)
		if n.await(ch, Bytes(got)); *got != cqUser {
			t.Errorf("an event of CQ %#x, want %#x", *got, uint64(cqUser))
		}
		const limit, portActive, portDown = 15, 9, 10 // C: enum ib_event_type
		if of := n.until(limit); of != srqUser {
			t.Errorf("the limit of SRQ %d, want %d", of, srqUser)
		}
		if string(b[1024:1028]) != "ping" {
			t.Errorf("received %q", b[1024:1028])
		}
		for _, ring := range [][]byte{rq, sq} {
			n.ok(Unmap(ring))
		}
		must(n.DestroyQP(qp.QPHandle))(n)
		if events := must(n.DestroySRQ(srq.SRQHandle))(n); events != 1 {
			t.Errorf("the SRQ had %d events, want 1", events)
		}
		if completions, _, err := n.DestroyCQ(cq.CQHandle); err != nil || completions != 1 {
			t.Errorf("the CQ had %d events, want 1: %v", completions, err)
		}
		n.ok(CloseFD(ch))
		n.ok(n.DeregMR(mr.MRHandle))
		n.ok(n.DeallocPD(pd))

		n.rxe.SetLink(t, 0, false)
		if port := n.until(portDown); port != 1 {
			t.Errorf("port %d is down", port)
		}
		if port := must(n.QueryPort(1))(n); port.LegacyResp.State != 1 {
			t.Errorf("the port is down, in state %d", port.LegacyResp.State)
		}
		n.rxe.SetLink(t, 0, true)
		if port := n.until(portActive); port != 1 {
			t.Errorf("port %d is active", port)
		}
		mend(t)
	})
}

// mend repairs the devices' network.
func mend(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("rdma-net").CombinedOutput(); err != nil {
		t.Fatalf("rdma-net: %v\n%s", err, out)
	}
}

// TestRXE_ZZRemoved deletes a device that is open. SoftRoCE has no way to end the contexts of others, so Linux waits
// until they are closed, and they go on until then.
func TestRXE_ZZRemoved(t *testing.T) {
	eachForm(t, 1, func(n *node) {
		deleted, at := make(chan error, 1), ReadNode(sysfs.DefaultRoot(), n.uverbs)
		go func() { deleted <- exec.Command("rdma", "link", "delete", n.dev).Run() }()
		testutil.Eventually(t, "no device file", func() bool { return !Exists(n.uverbs) })
		if _, err := at.Open(rxeDriver, new(Forms)); !errors.Is(err, syscall.ENODEV) &&
			!errors.Is(err, syscall.ENOENT) {
			t.Errorf("another file: %v", err)
		}
		pd := must(n.AllocPD(Driver{}))(n)
		must(n.QueryDevice(true))(n)
		n.ok(n.DeallocPD(pd))
		n.after = func() {
			n.ok(<-deleted)
			if d, err := nldev.Devices(); err != nil || d[n.dev].Driver != 0 {
				t.Errorf("netlink has %+v: %v", d, err)
			}
			mend(t)
		}
	})
}

// BenchmarkRXE_Open opens and closes a device and asks for its attributes, with these commands and with libibverbs.
func BenchmarkRXE_Open(b *testing.B) {
	r := testutil.NeedRXE(b)
	r.NeedKernel(b)
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("native", func(b *testing.B) {
		root, forms := sysfs.DefaultRoot(), new(Forms)
		d, err := root.Device(r.Dev[0])
		check(err)
		for b.Loop() {
			node := ReadNode(root, d.Uverbs)
			check(node.Check(root, rxeVersion))
			f, err := node.Open(rxeDriver, forms)
			check(err)
			c, err := f.GetContext(Driver{})
			check(err)
			_, err = f.QueryDevice(true)
			check(err)
			check(CloseFD(c.AsyncFD))
			check(f.Close())
		}
	})
	b.Run("library", func(b *testing.B) {
		v, err := libibverbs.Open()
		check(err)
		list, devices, err := v.GetDeviceList()
		check(err)
		defer v.FreeDeviceList(list)
		for b.Loop() {
			c, err := v.OpenDevice(devices[0])
			check(err)
			check(v.QueryDevice(c, new(abi.DeviceAttr)))
			check(v.CloseDevice(c))
		}
	})
}
