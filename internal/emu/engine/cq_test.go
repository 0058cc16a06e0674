//go:build linux

package engine

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

var ne = binary.NativeEndian

func protect(t *testing.T, b []byte) {
	if err := unix.Mprotect(b, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE) })
}

// got tells if there is an event on the channel.
func (n *node) got() bool {
	p := []unix.PollFd{{Fd: int32(n.evt.Fd()), Events: unix.POLLIN}}
	if k, _ := unix.Poll(p, 0); k == 0 {
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
	time.Sleep(time.Duration(eventDelay))
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

func TestOverrun(t *testing.T) {
	p := newPair(t, qpOpts{sq: 256}, nil)
	for range 65 {
		p.qa.post(opNOP, signaled, 0)
	}
	p.qa.ring()
	p.r.settle()
	if p.r.event(hca.EventCQErr) != 1 || p.r.event(hca.EventQPFatal) != 1 || !p.r.violated(RuleCQOverrun) || p.qa.q.State != hca.Err {
		t.Errorf("events %v, violations %v, state %v", p.r.events, p.r.broken, p.qa.q.State)
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
	if _, e := p.a.ctx.ResizeCQ(q.q.Handle, 255, va(buf), 64); e != 0 {
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
