//go:build linux

package engine

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/await"
	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// The tests are programs of their own: they write rings, WQEs and doorbells by themselves and read CQEs; process_vm
// works on the own process too.

var be = binary.BigEndian

// arena is memory outside Go's heap.
type arena struct {
	mem  []byte
	used int
}

func newArena(t testing.TB, n int) *arena {
	m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	return &arena{mem: m}
}

func (a *arena) alloc(n int) []byte {
	b := a.mem[a.used : a.used+n : a.used+n]
	a.used += (n + 4095) &^ 4095
	return b
}

type violation struct{ rule, detail string }

type rig struct {
	t      testing.TB
	f      *hca.Fabric
	e      *Engine
	a      *arena
	uidx   uint32
	broken []violation
	events []hca.EventType
	told   func(hca.EventType) // called with each event; may be nil
}

// Command, Violation and Event make the rig a watcher.
func (r *rig) Command(*hca.Context, string) (e unix.Errno, reply hca.Reply) { return 0, reply }
func (r *rig) Violation(pid int, rule, detail string) {
	r.broken = append(r.broken, violation{rule, detail})
}
func (r *rig) Event(c *hca.Context, typ hca.EventType, element uint64) {
	r.events = append(r.events, typ)
	if r.told != nil {
		r.told(typ)
	}
}

func newRigDevices(t testing.TB, devices string) *rig {
	c, err := config.Parse(strings.Fields(devices))
	if err != nil {
		t.Fatal(err)
	}
	return newRigOf(t, c, 0)
}

func newRig(t testing.TB, device string, size int) *rig {
	c, err := config.Parse([]string{device})
	if err != nil {
		t.Fatal(err)
	}
	return newRigOf(t, c, size)
}

func newRigOf(t testing.TB, c *config.Config, size int) *rig {
	if size == 0 {
		size = 16 << 20
	}
	r := &rig{t: t, f: hca.New(c), a: newArena(t, size)}
	r.e = New(r.f, Config{Strict: true, Turn: time.Second})
	r.f.Watch = r
	r.f.SetEngine(r.e)
	r.f.Lock()
	t.Cleanup(r.f.Unlock)
	return r
}

// settle runs the engine until nothing is to be done now.
func (r *rig) settle() {
	for n := 0; r.e.turn() || len(r.e.ready.qps) > 0; n++ {
		if n > 10000 {
			r.t.Fatal("the engine does not come to rest")
		}
	}
}

// wait runs the engine until ok.
func (r *rig) wait(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(await.Limit); !ok(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			r.t.Fatal(what)
		}
		r.e.turn()
	}
}

// clean fails the test on violations.
func (r *rig) clean() {
	r.t.Helper()
	if len(r.broken) > 0 {
		r.t.Errorf("violations: %v", r.broken)
	}
}

func (r *rig) violated(rule string) bool {
	for _, v := range r.broken {
		if v.rule == rule {
			return true
		}
	}
	return false
}

func (r *rig) event(t hca.EventType) (n int) {
	for _, e := range r.events {
		if e == t {
			n++
		}
	}
	return n
}

func try[T any](r *rig, v T, e unix.Errno) T {
	r.t.Helper()
	if e != 0 {
		r.t.Fatal(e)
	}
	return v
}

// node is one program's context.
type node struct {
	r    *rig
	ctx  *hca.Context
	pd   *hca.PD
	uar  *hca.UAR
	chn  *guest.Pipe
	evt  *os.File
	slot int
}

func (r *rig) node(dev int) *node { return r.nodeOf(dev, os.Getpid()) }

// oldNode is the context of a library that cannot allocate doorbell pages.
func (r *rig) oldNode(total, low uint32) *node {
	n := r.node(0)
	hca.Destroy[*hca.UAR](n.ctx, n.uar.Handle)
	if e := hca.AddRegisters(n.ctx, total, low, false); e != 0 {
		r.t.Fatal(e)
	}
	n.uar = hca.RegistersOf(n.ctx).Pages()[0]
	return n
}

func (r *rig) nodeOf(dev, pid int) *node {
	file, err := guest.NewFile("engine-test", 64<<20)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = file.Close() })
	n := &node{r: r, ctx: r.f.Devices[dev].Open(pid, file)}
	p, evt, err := guest.NewPipe(false)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { evt.Close(); _ = p.Close() })
	n.evt = evt
	async, aevt, err := guest.NewPipe(false)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { aevt.Close(); _ = async.Close() })
	n.ctx.Async = async
	n.chn = p
	n.ctx.Keep(n.ctx.Channels, p)
	pd, e := hca.AllocPD(n.ctx)
	n.pd = try(r, pd, e)
	u, e := hca.AllocUAR(n.ctx)
	n.uar = try(r, u, e)
	return n
}

// mr registers memory.
type mr struct {
	buf []byte
	key *hca.MKey
}

func (n *node) mr(size int, access hca.Access) *mr {
	b := n.r.a.alloc(size)
	k, e := hca.RegMR(n.ctx, 0, n.pd.Handle, va(b), uint64(size), va(b), access)
	return &mr{b, try(n.r, k, e)}
}

func (m *mr) sge(off, n int) []byte { return sgeSeg(m.key.Key, va(m.buf)+uint64(off), uint32(n)) }
func (m *mr) at(off int) (uint64, uint32) {
	return va(m.buf) + uint64(off), m.key.Key
}

const anyAccess = hca.AccessLocalWrite | hca.AccessRemoteWrite | hca.AccessRemoteRead | hca.AccessRemoteAtomic |
	hca.AccessMWBind

// cq is a completion queue as a program sees it.
type cq struct {
	n    *node
	q    *hca.CQ
	buf  []byte
	db   []byte
	ci   uint32
	size int
	ents uint32
	sn   uint32
}

func (n *node) cq(entries, size int) *cq {
	c := &cq{n: n, buf: n.r.a.alloc(entries * size), db: n.r.a.alloc(64), size: size, ents: uint32(entries)}
	for i := 0; i < entries; i++ {
		c.buf[i*size+size-1] = 0xf0
	}
	i := hca.CQInit{User: 0xc0, Entries: uint32(entries - 1), Channel: n.chn, Buf: va(c.buf), DB: va(c.db),
		CQESize: uint32(size), UAR: n.uar.Index}
	if hca.RegistersOf(n.ctx).Static() > 0 {
		i.UAR = -1
	}
	q, e := hca.CreateCQ(n.ctx, &i)
	c.q = try(n.r, q, e)
	c.q.Entries = uint32(entries)
	return c
}

// cqe is a completion, copied.
type cqe struct {
	b  []byte // the last 64 bytes
	hi []byte // what is before them
}

func (c cqe) opcode() uint8   { return c.b[63] >> 4 }
func (c cqe) syn() uint8      { return c.b[55] }
func (c cqe) wqeOp() uint8    { return c.b[56] }
func (c cqe) qpn() uint32     { return be.Uint32(c.b[56:]) & 0xffffff }
func (c cqe) counter() uint16 { return be.Uint16(c.b[60:]) }
func (c cqe) bytes() uint32   { return be.Uint32(c.b[44:]) }
func (c cqe) imm() uint32     { return be.Uint32(c.b[36:]) }
func (c cqe) uidx() uint32    { return be.Uint32(c.b[32:]) }
func (c cqe) format() uint8   { return c.b[63] >> 2 & 3 }
func (c cqe) se() bool        { return c.b[63]&2 != 0 }
func (c cqe) isErr() bool     { return c.opcode() == 13 || c.opcode() == 14 }

func (c *cq) poll() (cqe, bool) {
	i := int(c.ci&(c.ents-1)) * c.size
	b := c.buf[i : i+c.size]
	own := byte(0)
	if c.ci&c.ents != 0 {
		own = 1
	}
	if b[c.size-1]>>4 == 15 || b[c.size-1]&1 != own {
		return cqe{}, false
	}
	v := append([]byte(nil), b...)
	c.ci++
	be.PutUint32(c.db, c.ci&0xffffff)
	return cqe{v[c.size-64:], v[:c.size-64]}, true
}

// next runs the engine and returns the next completion.
func (c *cq) next() cqe {
	c.n.r.t.Helper()
	var v cqe
	c.n.r.wait("no completion", func() (ok bool) { v, ok = c.poll(); return })
	return v
}

// none fails if there is a completion.
func (c *cq) none() {
	c.n.r.t.Helper()
	c.n.r.settle()
	if v, ok := c.poll(); ok {
		c.n.r.t.Errorf("a completion that should not be: opcode %d syndrome %#x counter %d", v.opcode(), v.syn(),
			v.counter())
	}
}

func (c *cq) want(op uint8, bytes int) cqe {
	c.n.r.t.Helper()
	v := c.next()
	if v.opcode() != op || bytes >= 0 && v.bytes() != uint32(bytes) {
		c.n.r.t.Fatalf("completion has opcode %d, %d bytes, syndrome %#x; want opcode %d, %d bytes; violations %v",
			v.opcode(), v.bytes(), v.syn(), op, bytes, c.n.r.broken)
	}
	return v
}

func (c *cq) wantErr(op, syn uint8) cqe {
	c.n.r.t.Helper()
	v := c.next()
	if v.opcode() != op || v.syn() != syn {
		c.n.r.t.Fatalf("completion has opcode %d, syndrome %#x; want opcode %d, syndrome %#x", v.opcode(), v.syn(), op,
			syn)
	}
	return v
}

func (c *cq) arm(solicited bool) {
	w := c.sn&3<<28 | c.ci&0xffffff
	if solicited {
		w |= 1 << 24
	}
	be.PutUint32(c.db[4:], w)
	var b [8]byte
	be.PutUint32(b[:], w)
	be.PutUint32(b[4:], c.q.Num)
	copy(c.n.uar.Page[0x20:], b[:])
}

// qp is a queue pair as a program sees it.
type qp struct {
	n          *node
	q          *hca.QP
	scq, rcq   *cq
	sq, rq, db []byte
	pi, head   uint32 // blocks, receives
	stride     int
	last       []byte // control segment to ring with
}

type qpOpts struct {
	typ    hca.QPType
	sq, rq int // blocks, receives
	flags  uint32
	sigAll bool
	srq    *srq
	xrcd   uint32
	dc     hca.DC
	reg    int // of an old node: dynamic register + 1
}

func (n *node) qp(scq, rcq *cq, o qpOpts) *qp {
	if o.typ == 0 {
		o.typ = hca.RC
	}
	if o.sq == 0 {
		o.sq = 64
	}
	if o.rq == 0 {
		o.rq = 16
	}
	if o.srq != nil || o.typ == hca.XRCSend || o.typ == hca.XRCRecv || o.typ == hca.DCI {
		o.rq = 0
	}
	shift := 6
	if o.rq == 0 {
		shift = 0
	}
	q := &qp{n: n, scq: scq, rcq: rcq, db: n.r.a.alloc(64), stride: 1 << shift}
	buf := n.r.a.alloc(o.rq<<shift + o.sq*64)
	q.rq, q.sq = buf[:o.rq<<shift], buf[o.rq<<shift:]
	n.r.uidx++
	i := hca.QPInit{User: 0x9000, PD: n.pd.Handle, Type: o.typ, SigAll: o.sigAll, Flags: o.flags, Buf: va(buf),
		DB: va(q.db), SQCount: uint32(o.sq), RQCount: uint32(o.rq),
		RQShift: uint32(shift), UIdx: n.r.uidx, UARPage: n.uar.Index, XRCD: o.xrcd, DC: o.dc}
	i.Cap = hca.QPCap{SendWR: uint32(o.sq / 4), RecvWR: uint32(o.rq), SendSGE: 4, RecvSGE: 4, Inline: 64}
	switch o.typ {
	case hca.XRCRecv:
		i.PD, i.SQCount, i.Buf, i.DB, i.UARPage, i.Cap = 0, 0, 0, 0, -1, hca.QPCap{}
	case hca.RawPacket:
		i.SendCQ, i.RecvCQ, i.SQBuf = scq.q.Handle, rcq.q.Handle, va(q.sq)
	case hca.XRCSend:
		i.SendCQ, i.Cap.RecvWR, i.Cap.RecvSGE = scq.q.Handle, 0, 0
	case hca.DCI:
		i.SendCQ, i.RecvCQ, i.Cap.RecvWR, i.Cap.RecvSGE = scq.q.Handle, scq.q.Handle, 0, 0
	case hca.DCT:
		i.SendCQ, i.RecvCQ, i.SQCount, i.Buf, i.DB, i.UARPage, i.Cap = rcq.q.Handle, rcq.q.Handle, 0, 0, 0, -1,
			hca.QPCap{}
	default:
		i.SendCQ, i.RecvCQ = scq.q.Handle, rcq.q.Handle
	}
	if o.srq != nil {
		i.SRQ, i.Cap.RecvWR, i.Cap.RecvSGE = o.srq.q.Handle, 0, 0
	}
	if n.ctx.CQEVersion == 0 {
		i.UIdx = hca.NoUserIndex
	}
	if hca.RegistersOf(n.ctx).Static() > 0 {
		i.UARPage, i.Register = -1, o.reg-1
	}
	p, e := hca.CreateQP(n.ctx, &i)
	q.q = try(n.r, p, e)
	if hca.RegistersOf(n.ctx).Static() > 0 { // it rings its own register
		own := *n
		own.uar, own.slot = p.UAR, max(p.Register, o.reg-1)%2*2
		q.n = &own
	}
	return q
}

// attrs is what the tests connect with; a test changes it.
type attrs struct {
	mtu              uint8
	psn              uint32
	access           hca.Access
	timeout          uint8
	retry, rnr, rnrT uint8
	rd               uint8
	qkey             uint32
	peerPSN          uint32
	sgid             uint8
}

func defaults() attrs {
	return attrs{mtu: 3, psn: 0x123456, peerPSN: 0x123456, access: anyAccess &^ hca.AccessMWBind, timeout: 4, retry: 2,
		rnr: 2, rnrT: 1, rd: 4, qkey: 0x11}
}

func (n *node) addr(to *hca.Port, sgid uint8) hca.AHAttr {
	a := hca.AHAttr{Port: 1, SGIDIndex: sgid, HopLimit: 64}
	from := n.ctx.Device.Ports[0]
	if a.Global = !from.Reaches(to, false); a.Global {
		a.DGID = to.Config.GIDs[sgid].GID
	}
	if to.Config.LinkLayer == config.Ethernet {
		a.DMAC = to.Config.MAC
	} else {
		a.DLID = to.Config.LID
	}
	return a
}

func (q *qp) modify(a *hca.QPAttr, mask hca.AttrMask, to hca.QPState) {
	q.n.r.t.Helper()
	if e := q.q.Modify(a, mask|hca.AttrState, to); e != 0 {
		q.n.r.t.Fatalf("%v to %v: %v", q.q.State, to, e)
	}
}

func (q *qp) init(x attrs) {
	q.n.r.t.Helper()
	m := hca.AttrPKeyIndex | hca.AttrPort | hca.AttrAccess
	if q.q.Type == hca.UD {
		m = hca.AttrPKeyIndex | hca.AttrPort | hca.AttrQKey
	}
	q.modify(&hca.QPAttr{Port: 1, Access: x.access, QKey: x.qkey}, m, hca.Init)
}

func (q *qp) rtr(x attrs, to *hca.QP) {
	q.n.r.t.Helper()
	if q.q.Type == hca.UD {
		q.modify(&hca.QPAttr{}, 0, hca.RTR)
		return
	}
	m := hca.AttrAV | hca.AttrPathMTU | hca.AttrDestQPN | hca.AttrRQPSN
	if q.q.Type == hca.RC || q.q.Type == hca.XRCRecv {
		m |= hca.AttrMaxDestRdAtomic | hca.AttrMinRNRTimer
	}
	q.modify(&hca.QPAttr{AH: q.n.addr(to.Context.Device.Ports[0], x.sgid), PathMTU: x.mtu, DestQPN: to.Num,
		RQPSN: x.peerPSN, MaxDestRdAtomic: x.rd, MinRNRTimer: x.rnrT}, m, hca.RTR)
}

func (q *qp) rts(x attrs) {
	q.n.r.t.Helper()
	m := hca.AttrSQPSN
	switch q.q.Type {
	case hca.RC, hca.XRCSend:
		m |= hca.AttrTimeout | hca.AttrRetryCnt | hca.AttrRNRRetry | hca.AttrMaxRdAtomic
	case hca.XRCRecv:
		m |= hca.AttrTimeout
	}
	q.modify(&hca.QPAttr{SQPSN: x.psn, Timeout: x.timeout, RetryCnt: x.retry, RNRRetry: x.rnr, MaxRdAtomic: x.rd}, m,
		hca.RTS)
}

func (q *qp) up(x attrs, to *qp) {
	q.n.r.t.Helper()
	q.init(x)
	q.rtr(x, to.q)
	q.rts(x)
}

// connect brings two queue pairs to RTS.
func connect(x attrs, a, b *qp) {
	a.up(x, b)
	b.up(x, a)
}

func seg(words ...any) []byte {
	b := make([]byte, 0, 64)
	for _, w := range words {
		switch v := w.(type) {
		case uint64:
			b = be.AppendUint64(b, v)
		case uint32:
			b = be.AppendUint32(b, v)
		case uint16:
			b = be.AppendUint16(b, v)
		case byte:
			b = append(b, v)
		case []byte:
			b = append(b, v...)
		default:
			panic("seg: want a sized number")
		}
	}
	return b
}

func sgeSeg(lkey uint32, addr uint64, n uint32) []byte { return seg(n, lkey, addr) }
func raddr(addr uint64, rkey uint32) []byte            { return seg(addr, rkey, uint32(0)) }

func inlineSeg(data []byte) []byte {
	b := seg(uint32(len(data))|1<<31, data)
	return append(b, make([]byte, -len(b)&15)...)
}

const (
	signaled  = 8
	solicited = 2
)

// post writes a WQE in the ring, without a doorbell.
func (q *qp) post(op, flags uint8, imm uint32, segs ...[]byte) uint32 {
	body := []byte{}
	for _, s := range segs {
		body = append(body, s...)
	}
	ds := uint32(1 + (len(body)+15)/16)
	w := append(seg(q.pi<<8&0xffff00|uint32(op), q.q.Num<<8|ds, byte(0), uint16(0), flags, imm), body...)
	return q.raw(w, int(ds))
}

func (q *qp) raw(w []byte, ds int) uint32 {
	at := q.pi
	i := int(at) * 64 % len(q.sq)
	n := copy(q.sq[i:], w)
	copy(q.sq, w[n:])
	q.last = w[:8]
	q.pi += uint32(ds*16+63) / 64
	return at
}

// ring rings the doorbell.
func (q *qp) ring() {
	be.PutUint32(q.db[4:], q.pi&0xffff)
	copy(q.n.uar.Page[0x800+q.n.slot*0x100:], q.last)
	q.n.slot ^= 1
}

func (q *qp) send(op, flags uint8, imm uint32, segs ...[]byte) uint32 {
	at := q.post(op, flags, imm, segs...)
	q.ring()
	return at
}

// recv posts a receive.
func (q *qp) recv(sges ...[]byte) uint32 {
	b := q.rq[int(q.head)*q.stride%len(q.rq):][:q.stride]
	putList(b, sges)
	q.head++
	be.PutUint32(q.db, q.head&0xffff)
	return q.head - 1
}

func putList(b []byte, sges [][]byte) {
	n := 0
	for _, s := range sges {
		n += copy(b[n:], s)
	}
	if n < len(b) {
		copy(b[n:], seg(uint32(0), uint32(0x100), uint64(0)))
	}
}

// srq is a shared receive queue as a program sees it.
type srq struct {
	n          *node
	q          *hca.SRQ
	ring, db   []byte
	head, tail uint32
	counter    uint32
}

func (n *node) srq(entries int, xrcd uint32, c *cq) *srq {
	s := &srq{n: n, ring: n.r.a.alloc(entries * 32), db: n.r.a.alloc(64), tail: uint32(entries - 1)}
	for i := range entries - 1 {
		be.PutUint16(s.ring[i*32+2:], uint16(i+1))
	}
	n.r.uidx++
	i := hca.SRQInit{User: 0x5000, PD: n.pd.Handle, MaxWR: uint32(entries), MaxSGE: 1, Buf: va(s.ring), DB: va(s.db),
		UIdx: n.r.uidx}
	if c != nil {
		i.XRC, i.XRCD, i.CQ = true, xrcd, c.q.Handle
	}
	if n.ctx.CQEVersion == 0 {
		i.UIdx = hca.NoUserIndex
	}
	q, e := hca.CreateSRQ(n.ctx, &i)
	s.q = try(n.r, q, e)
	return s
}

func (s *srq) recv(sges ...[]byte) uint32 {
	if s.head == s.tail {
		s.n.r.t.Fatal("the SRQ is full")
	}
	i := s.head
	b := s.ring[i*32:][:32]
	s.head = uint32(be.Uint16(b[2:]))
	putList(b[16:], sges)
	s.counter++
	be.PutUint32(s.db, s.counter&0xffff)
	return i
}

// free gives an entry back after its completion.
func (s *srq) free(i uint32) {
	be.PutUint16(s.ring[s.tail*32+2:], uint16(i))
	s.tail = i
}

// pair is two connected RC queue pairs of two nodes, and memory.
type pair struct {
	r          *rig
	a, b       *node
	acq, bcq   *cq
	qa, qb     *qp
	ma, mb     *mr
	attributes attrs
}

func newPair(t testing.TB, o qpOpts, change func(*attrs)) *pair {
	r := newRig(t, "mlx5_0", 0)
	p := &pair{r: r, a: r.node(0), b: r.node(0)}
	p.acq, p.bcq = p.a.cq(64, 64), p.b.cq(64, 64)
	p.qa, p.qb = p.a.qp(p.acq, p.acq, o), p.b.qp(p.bcq, p.bcq, o)
	p.ma, p.mb = p.a.mr(1<<20, anyAccess), p.b.mr(1<<20, anyAccess)
	p.attributes = defaults()
	if change != nil {
		change(&p.attributes)
	}
	connect(p.attributes, p.qa, p.qb)
	return p
}
