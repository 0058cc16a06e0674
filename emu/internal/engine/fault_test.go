//go:build linux

package engine

import (
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

func TestFaults(t *testing.T) {
	addr := func(p *pair) []byte { a, k := p.mb.at(0); return raddr(a, k) }
	for _, c := range []struct {
		name string
		f    fault.Kind
		syn  uint8
	}{{"retry", fault.RetryExceeded, synRetry}, {"access", fault.RemoteAccess, synRemoteAccess},
		{"flush", fault.Flush, synFlush}, {"fatal", fault.QPFatal, synFlush}} {
		p := newPair(t, qpOpts{}, nil)
		p.r.e.Hooks.AtWQE = func(q *hca.QP, op uint8, n uint64) fault.Kind {
			if n == 1 && q == p.qa.q && op == opWrite {
				return c.f
			}
			return fault.None
		}
		for range 3 {
			p.qa.post(opWrite, signaled, 0, addr(p), p.ma.sge(0, 8))
		}
		p.qa.ring()
		p.acq.want(0, -1)
		p.acq.wantErr(cqeReqErr, c.syn)
		p.acq.wantErr(cqeReqErr, synFlush)
		p.acq.none()
		if got := p.r.event(hca.EventQPFatal); got != 0 != (c.f == fault.QPFatal) {
			t.Errorf("%s: events %v", c.name, p.r.events)
		}
	}
	at := func(f fault.Kind) (*pair, func()) {
		p := newPair(t, qpOpts{}, nil)
		once := true
		p.r.e.Hooks.AtWQE = func(*hca.QP, uint8, uint64) fault.Kind {
			if once {
				once = false
				return f
			}
			return fault.None
		}
		return p, func() { fill(p.ma.buf[:100], 4); p.qa.send(opWrite, signaled, 0, addr(p), p.ma.sge(0, 100)) }
	}
	p, send := at(fault.RNR)
	start := nanos()
	send()
	p.acq.want(0, -1)
	if nanos()-start < 10e3 {
		t.Error("no wait for the receiver")
	}
	p, send = at(fault.BitFlip)
	send()
	p.acq.want(0, -1)
	if p.ma.buf[0]^1 != p.mb.buf[0] || string(p.ma.buf[1:100]) != string(p.mb.buf[1:100]) {
		t.Error("not one bit was flipped")
	}
}

// TestFaults_Receive has a receive of an SRQ given up, and receives of a queue used in another order.
func TestFaults_Receive(t *testing.T) {
	const faulty = 2 // the message
	at := func(f fault.Kind) func(*hca.QP, uint8, uint64) fault.Kind {
		return func(_ *hca.QP, _ uint8, n uint64) fault.Kind {
			if n == faulty {
				return f
			}
			return fault.None
		}
	}
	r := newRig(t, "mlx5_0", 0)
	n, to := r.node(0), r.node(0)
	scq, c := n.cq(64, 64), to.cq(64, 64)
	s := to.srq(8, 0, nil)
	a, b := n.qp(scq, scq, qpOpts{}), to.qp(c, c, qpOpts{srq: s})
	connect(defaults(), a, b)
	r.e.Hooks.AtWQE = at(fault.PageFault)
	m, into := n.mr(4096, anyAccess), to.mr(4096, anyAccess)
	var posted []uint16
	for i := range 4 {
		posted = append(posted, uint16(s.recv(into.sge(i*64, 64))))
	}
	for range 3 {
		a.send(opSend, signaled, 0, m.sge(0, 8))
		scq.want(0, -1)
	}
	for i, w := range posted {
		v := c.next()
		if v.counter() != w || (v.opcode() == cqeRespErr) != (i == faulty) {
			t.Errorf("completion %d has opcode %d, WQE %d; want WQE %d", i, v.opcode(), v.counter(), w)
		}
		if i == faulty && (v.syn() != synAborted || v.b[54] != vendorPageFault) {
			t.Errorf("syndrome %#x, %#x", v.syn(), v.b[54])
		}
	}
	r.clean()

	for _, posted := range []int{4, 3} { // with 3 there is no second one
		p := newPair(t, qpOpts{}, nil)
		p.r.e.Hooks.AtWQE = at(fault.ReceiveOrder)
		for i := range posted {
			p.qb.recv(p.mb.sge(i*64, 64))
		}
		for i := range byte(posted) {
			p.ma.buf[0] = 'a' + i
			p.qa.send(opSend, signaled, 0, p.ma.sge(0, 1))
			p.acq.want(0, -1)
		}
		want := []int{0, 1, 3, 2}
		if posted == 3 {
			want = []int{0, 1, 2}
		}
		for i, w := range want {
			if v := p.bcq.want(cqeRespSend, 1); v.counter() != uint16(w) || p.mb.buf[w*64] != 'a'+byte(i) {
				t.Errorf("message %d is in receive %d, %q; want %d", i, v.counter(), p.mb.buf[w*64], w)
			}
		}
		p.r.clean()
	}

	// What is left is flushed, each once.
	p := newPair(t, qpOpts{}, nil)
	p.r.e.Hooks.AtWQE = at(fault.ReceiveOrder)
	for i := range 6 {
		p.qb.recv(p.mb.sge(i*64, 64))
	}
	for range 3 {
		p.qa.send(opSend, signaled, 0, p.ma.sge(0, 1))
		p.bcq.want(cqeRespSend, 1)
	}
	p.qb.modify(&hca.QPAttr{}, 0, hca.Err)
	for _, w := range []uint16{2, 4, 5} {
		if v := p.bcq.wantErr(cqeRespErr, synFlush); v.counter() != w {
			t.Errorf("receive %d is flushed, want %d", v.counter(), w)
		}
	}
}

func TestFaults_CQE(t *testing.T) {
	cqf := func(f fault.Kind, delay uint32) *pair {
		p := newPair(t, qpOpts{}, nil)
		once := true
		p.r.e.Hooks.AtCQE = func(*hca.CQ, *hca.QP) (fault.Kind, uint32) {
			if once {
				once = false
				return f, delay
			}
			return fault.None, 0
		}
		p.qa.post(opNOP, signaled, 0)
		p.qa.post(opNOP, signaled, 0)
		p.qa.ring()
		p.r.settle()
		return p
	}
	p := cqf(fault.CQELost, 0)
	if v := p.acq.want(0, -1); v.counter() != 1 {
		t.Errorf("completion of WQE %d", v.counter())
	}
	p.acq.none()
	p = cqf(fault.WrongOwner, 0)
	p.acq.none()
	p = cqf(fault.CQEDelayed, 300_000)
	p.acq.none()
	for i := range 2 {
		if v := p.acq.want(0, -1); v.counter() != uint16(i) {
			t.Errorf("completion of WQE %d", v.counter())
		}
	}
	p = cqf(fault.CQError, 0)
	p.acq.none()
	if p.r.event(hca.EventCQErr) != 1 {
		t.Errorf("events %v", p.r.events)
	}
}

func TestFaults_Doorbell(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	lost := 1
	p.r.e.Hooks.AtDoorbell = func(*hca.QP) fault.Kind {
		if lost--; lost == 0 {
			return fault.DoorbellLost
		}
		return fault.None
	}
	p.qa.send(opNOP, signaled, 0)
	p.acq.none()
	p.qa.send(opNOP, signaled, 0) // its doorbell covers both
	p.acq.want(0, -1)
	p.acq.want(0, -1)
	p.r.clean()
}
