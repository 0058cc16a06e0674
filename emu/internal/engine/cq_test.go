//go:build linux

package engine

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

var ne = binary.NativeEndian

func protect(t *testing.T, b []byte) {
	if err := unix.Mprotect(b, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE) })
}

// got reports whether there is an event on the channel.
func (n *node) got() bool {
	p := []unix.PollFd{{Fd: int32(n.evt.Fd()), Events: unix.POLLIN}}
	k, err := unix.Poll(p, 0)
	for err == unix.EINTR {
		k, err = unix.Poll(p, 0)
	}
	if k != 1 {
		return false
	}
	var b [8]byte
	_, _ = n.evt.Read(b[:])
	return true
}

func TestArm(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	q, c := p.qa, p.acq
	nop := func() { q.send(opNOP, signaled, 0); c.next() }
	nop()
	if p.a.got() {
		t.Error("an event without arming")
	}
	c.arm(false)
	p.r.settle()
	if p.a.got() {
		t.Error("an event without a completion")
	}
	nop()
	if !p.a.got() {
		t.Fatal("no event")
	}
	nop()
	if p.a.got() {
		t.Error("a second event of one arming")
	}
	c.sn++
	q.send(opNOP, signaled, 0)
	p.r.settle()
	c.arm(false) // a completion is there already
	p.r.settle()
	if !p.a.got() {
		t.Error("no event for a completion that came before the arming")
	}
	c.next()
	c.arm(false) // the same sequence number: the event was its answer
	p.r.settle()
	nop()
	if p.a.got() {
		t.Error("armed with an old sequence number")
	}
	p.r.clean()
	c.sn += 2
	c.arm(false)
	p.r.settle()
	if !p.r.violated(RuleCQArmSequence) {
		t.Error("a wrong sequence number is not noticed")
	}
}

// TestArm_Announced arms for completions of which the program heard already, and did not poll: they make no second
// event.
func TestArm_Announced(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	q, c := p.qa, p.acq
	come := func(n int) {
		for range n {
			q.send(opNOP, signaled, 0)
		}
		p.r.settle()
	}
	arm := func() { c.arm(false); p.r.settle() }
	heard := func(want bool, when string) {
		t.Helper()
		if p.a.got() != want {
			t.Fatalf("an event: %v, want %v, %s", !want, want, when)
		}
		if want {
			c.sn++
		}
	}
	come(2)
	arm()
	heard(true, "two came before the arming")
	arm()
	heard(false, "armed without a poll")
	c.next()
	come(1)
	heard(true, "a third came")
	arm()
	heard(false, "two of three are unpolled, both announced")
	c.next()
	c.next()
	come(1)
	heard(true, "a fourth came")
	come(1)
	c.next()
	arm()
	heard(true, "a fifth came between the event and the arming")
	c.next()
	arm()
	heard(false, "all is polled")
	come(1)
	heard(true, "a sixth came")
	come(1)
	c.arm(false)
	c.poll()
	c.poll() // both were there at the arming
	p.r.settle()
	heard(false, "all was polled before the device saw the arming")
	come(1)
	heard(true, "it is armed all the same")

	// After as many completions without an event, the next one is no old one.
	c.q.Run.Told -= 1 << 31
	come(1)
	arm()
	heard(true, "2^31 completions after the last event")
	p.r.clean()
}

// TestArm_AnnouncedSolicited is the same with two kinds of arming.
func TestArm_AnnouncedSolicited(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	send := func(flags uint8) {
		p.qb.recv(p.mb.sge(0, 64))
		p.qa.send(opSend, flags, 0, p.ma.sge(0, 8))
		p.r.settle()
	}
	c := p.bcq
	c.arm(true)
	p.r.settle()
	send(solicited)
	if !p.b.got() {
		t.Fatal("no event")
	}
	c.sn++
	send(0)
	c.arm(true)
	p.r.settle()
	if p.b.got() {
		t.Error("the solicited one was announced, the other is not solicited")
	}
	c.arm(false)
	p.r.settle()
	if !p.b.got() {
		t.Error("no event for the one that is not solicited")
	}
	p.r.clean()
}

func TestArmSolicited(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	send := func(flags uint8) {
		p.qb.recv(p.mb.sge(0, 64))
		p.qa.send(opSend, flags, 0, p.ma.sge(0, 8))
		p.bcq.next()
	}
	p.bcq.arm(true)
	p.r.settle()
	send(0)
	if p.b.got() {
		t.Error("an event for a completion that is not solicited")
	}
	send(solicited)
	if !p.b.got() {
		t.Error("no event")
	}
	p.r.clean()
}

func TestModeration(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	const period = 60 * time.Millisecond
	p.acq.q.ModCount, p.acq.q.ModPeriod = 3, uint16(period/time.Microsecond)
	p.acq.arm(false)
	p.r.settle()
	start := time.Now()
	for range 2 {
		p.qa.send(opNOP, signaled, 0)
		p.acq.next()
	}
	got := p.a.got()
	if got && time.Since(start) < period {
		t.Error("an event too early")
	}
	p.r.wait("no event after the period", func() bool {
		got = got || p.a.got()
		return got
	})
	p.r.clean()
}

// TestModeration_Off sets one half of it, which is none: with no period to end it, a program would wait for completions
// that may never come.
func TestModeration_Off(t *testing.T) {
	for _, m := range [][2]uint16{{3, 0}, {0, 2000}, {1, 2000}} {
		p := newPair(t, qpOpts{}, nil)
		p.acq.q.ModCount, p.acq.q.ModPeriod = m[0], m[1]
		p.acq.arm(false)
		p.r.settle()
		p.qa.send(opNOP, signaled, 0)
		p.r.settle()
		if !p.a.got() {
			t.Errorf("count %d, period %d: no event", m[0], m[1])
		}
	}
}

// TestModeration_Arm arms when some of what moderation waits for is there.
func TestModeration_Arm(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	p.acq.q.ModCount, p.acq.q.ModPeriod = 3, 60000
	for range 2 {
		p.qa.send(opNOP, signaled, 0)
		p.r.settle()
	}
	p.acq.arm(false)
	p.r.settle()
	if p.a.got() {
		t.Error("an event for two, three are wanted")
	}
	p.qa.send(opNOP, signaled, 0)
	p.r.settle()
	if !p.a.got() {
		t.Error("no event for the third")
	}
	p.r.clean()
}

func TestOverrun(t *testing.T) {
	p := newPair(t, qpOpts{sq: 256}, nil)
	for range 65 {
		p.qa.post(opNOP, signaled, 0)
	}
	p.qa.ring()
	p.r.settle()
	if p.r.event(hca.EventCQErr) != 1 || p.r.event(hca.EventQPFatal) != 1 || !p.r.violated(RuleCQOverrun) ||
		p.qa.q.State != hca.Err {
		t.Errorf("events %v, violations %v, state %v", p.r.events, p.r.broken, p.qa.q.State)
	}
}

// TestOverrun_Armed reports the error when the completions before it are in memory, and heeds an arming of a broken CQ.
func TestOverrun_Armed(t *testing.T) {
	p := newPair(t, qpOpts{sq: 256}, nil)
	for range 3 { // so that the last batch has completions and the overrun
		p.qa.post(opNOP, signaled, 0)
	}
	p.qa.ring()
	p.r.settle()
	for range 62 {
		p.qa.post(opNOP, signaled, 0)
	}
	there := -1
	p.r.told = func(e hca.EventType) {
		if e == hca.EventCQErr {
			for there = 0; there < 64 && p.acq.buf[there*64+63]>>4 == cqeReq; there++ {
			}
		}
	}
	p.qa.ring()
	p.r.settle()
	if there != 64 {
		t.Errorf("CQ_ERR came with %d of 64 completions in memory", there)
	}
	p.acq.arm(false)
	p.r.settle()
	if !p.a.got() {
		t.Error("no event for an arming of a broken CQ with 64 completions")
	}
	for range 64 {
		p.acq.want(0, -1)
	}
	p.acq.arm(false)
	p.r.settle()
	if p.a.got() {
		t.Error("an event without a completion")
	}
}

func TestOwnerWraps(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	for i := range 300 {
		p.qa.send(opNOP, signaled, 0)
		if c := p.acq.want(0, -1); c.counter() != uint16(i) {
			t.Fatalf("completion %d has counter %d", i, c.counter())
		}
	}
	p.r.clean()
}

func TestResize(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	for range 5 {
		p.qa.send(opNOP, signaled, 0)
		p.acq.next()
	}
	q := p.acq
	buf := p.r.a.alloc(256 * 64)
	for i := range 256 {
		buf[i*64+63] = 0xf0
	}
	if e := q.q.Resize(255, va(buf), 64); e != 0 {
		t.Fatal(e)
	}
	q.q.Entries = 256
	q.want(cqeResize, -1)
	q.buf, q.ents = buf, 256
	p.qa.send(opNOP, signaled, 0)
	if c := q.want(0, -1); c.counter() != 5 {
		t.Errorf("counter %d", c.counter())
	}
	p.r.clean()
}

// TestResize_Unpolled makes a CQ smaller than what is in it: refused, and nothing is lost.
func TestResize_Unpolled(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	q, small := p.acq, p.r.a.alloc(4*64)
	for range 4 {
		p.qa.send(opNOP, signaled, 0)
		p.r.settle()
	}
	resize := func() unix.Errno {
		e := q.q.Resize(3, va(small), 64)
		return e
	}
	if e := resize(); e != unix.EINVAL {
		t.Errorf("four completions into a ring of four: %v", e)
	}
	if c := q.want(0, -1); c.counter() != 0 {
		t.Errorf("the first has counter %d", c.counter())
	}
	if e := resize(); e != 0 {
		t.Errorf("three completions into a ring of four: %v", e)
	}
	for i := range 3 {
		if c := q.want(0, -1); c.counter() != uint16(i+1) {
			t.Errorf("completion %d has counter %d", i+1, c.counter())
		}
	}
	q.want(cqeResize, -1)
	p.r.clean()
}

// A QP that has only a receive queue uses no doorbell page; a broken CQ breaks it as well.
func TestBrokenCQOfReceiver(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	n := r.node(0)
	c, sc := n.cq(4, 64), n.cq(64, 64)
	send, recv := n.qp(sc, sc, qpOpts{sigAll: true}), n.receiver(sc, c)
	connect(defaults(), send, recv)
	m := n.mr(4096, anyAccess)
	for range 5 {
		recv.recv(m.sge(0, 8))
		send.send(opSend, signaled, 0, m.sge(64, 8))
		r.settle()
	}
	if r.event(hca.EventCQErr) != 1 || recv.q.State != hca.Err {
		t.Errorf("%d CQ_ERR events; the receiver is in %v, want one and ERR", r.event(hca.EventCQErr), recv.q.State)
	}
}

// receiver is a QP without send queue.
func (n *node) receiver(scq, rcq *cq) *qp {
	q := &qp{n: n, scq: scq, rcq: rcq, db: n.r.a.alloc(64), stride: 64}
	q.rq = n.r.a.alloc(16 * 64)
	n.r.uidx++
	p, e := hca.CreateQP(n.ctx, &hca.QPInit{User: 0x9000, PD: n.pd.Handle, Type: hca.RC, SendCQ: scq.q.Handle,
		RecvCQ: rcq.q.Handle, Buf: va(q.rq), DB: va(q.db), RQCount: 16, RQShift: 6, UIdx: n.r.uidx,
		UARPage: n.uar.Index,
		Cap:     hca.QPCap{RecvWR: 16, RecvSGE: 4}})
	q.q = try(n.r, p, e)
	return q
}

// TestCQPadding has entries whose first half is written, or left alone.
func TestCQPadding(t *testing.T) {
	for _, pad := range []bool{false, true} {
		r := newRig(t, "mlx5_0", 0)
		n := r.node(0)
		c := n.cq(16, 128)
		c.q.Pad = pad
		a, b := n.qp(c, c, qpOpts{}), n.qp(c, c, qpOpts{})
		connect(defaults(), a, b)
		for i := range 16 {
			for k := range 64 {
				c.buf[i*128+k] = 0xaa
			}
		}
		a.send(opNOP, signaled, 0)
		want := bytes.Repeat([]byte{0xaa}, 64)
		if pad {
			want = make([]byte, 64)
		}
		if v := c.want(cqeReq, -1); !bytes.Equal(v.hi, want) {
			t.Errorf("padding %t: %x", pad, v.hi)
		}
		r.clean()
	}
}

// TestSolicitedLater has a postponed completion written after one that comes behind it.
func TestSolicitedLater(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	cq := r.node(0).cq(64, 64)
	for _, at := range []uint32{6, 5} {
		r.e.comps.written(&pending{cq: cq.q, at: at, sol: true})
	}
	if got := cq.q.Run.LastSol; got != 7 {
		t.Errorf("the last solicited completion is below %d, want 7", got)
	}
}
