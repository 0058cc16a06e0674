//go:build linux

package engine

import (
	"bytes"
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// With CQE version 0 the field of the user index has the SRQN of a receive that came from an SRQ, and else 0: libmlx5
// takes a number there for an SRQ's.
func TestCQEVersion0(t *testing.T) {
	r := newRig(t, "mlx5_0,cqe_version=0", 0)
	n := r.node(0)
	c := n.cq(64, 64)
	n.srq(16, 0, nil) // so that the number of the other is not the first
	s := n.srq(16, 0, nil)
	a, b, plain, peer := n.qp(c, c, qpOpts{}), n.qp(c, c, qpOpts{srq: s}), n.qp(c, c, qpOpts{}), n.qp(c, c, qpOpts{})
	connect(defaults(), a, b)
	connect(defaults(), plain, peer)
	m := n.mr(4096, anyAccess)
	check := func(what string, v cqe, qp *qp, srqn uint32) {
		t.Helper()
		if v.uidx() != srqn || v.qpn() != qp.q.Num {
			t.Errorf("%s: the CQE has SRQN %#x, QPN %#x; want %#x, %#x", what, v.uidx(), v.qpn(), srqn, qp.q.Num)
		}
	}
	s.recv(m.sge(0, 8))
	a.send(opSend, 0, 0, m.sge(64, 8))
	check("a receive of an SRQ", c.want(cqeRespSend, 8), b, s.q.Num)
	b.send(opWrite, signaled, 0, raddr(m.at(128)), m.sge(64, 8))
	check("a write of a QP with an SRQ", c.want(0, -1), b, 0)
	peer.recv(m.sge(0, 8))
	plain.send(opSend, 0, 0, m.sge(64, 8))
	check("a receive", c.want(cqeRespSend, 8), peer, 0)
	s.recv(m.sge(0, 4))
	a.send(opSend, 0, 0, m.sge(64, 8))
	for range 2 {
		r.settle()
		v, ok := c.poll()
		switch {
		case !ok:
			t.Fatal("no completion of a message that is too long")
		case v.opcode() == cqeRespErr:
			check("a failed receive of an SRQ", v, b, s.q.Num)
		default:
			check("a failed send", v, a, 0)
		}
	}
	u1, u2 := n.qp(c, c, qpOpts{typ: hca.UD}), n.qp(c, c, qpOpts{typ: hca.UD, srq: s})
	connect(defaults(), u1, u2)
	s.recv(m.sge(0, 100))
	u1.send(opSend, 0, 0, n.av(u2.q, 0x11, 3, nil), m.sge(64, 8))
	check("a datagram", c.want(cqeRespSend, 48), u2, s.q.Num)
}

// QPs ring static registers, their own and shared ones, and dynamic ones; CQs are armed on the first page.
func TestRegisters(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	n := r.oldNode(4, 1) // 1 and 2 are shared, 3 is not
	c, ec := n.cq(64, 64), n.cq(64, 64)
	if e := hca.RegistersOf(n.ctx).MapDynamic(2, 6<<8|2); e != 0 {
		t.Fatal(e)
	}
	m := n.mr(4096, anyAccess)
	fill(m.buf[:100], 3)
	peer := func() *qp { return n.qp(ec, ec, qpOpts{}) }
	opts := []qpOpts{{}, {}, {}, {reg: 5}, {reg: 6}}
	for i, want := range []int{3, 2, 2, -1, -1} { // the peers take a register each, too
		q, p := n.qp(c, c, opts[i]), peer()
		if q.q.Register != want {
			t.Errorf("QP %d was given register %d, want %d", i, q.q.Register, want)
		}
		connect(defaults(), q, p)
		for k := range 3 {
			clear(m.buf[1000:1100])
			q.send(opWrite, signaled, 0, raddr(m.at(1000)), m.sge(0, 100))
			c.want(0, -1)
			if !bytes.Equal(m.buf[:100], m.buf[1000:1100]) {
				t.Errorf("QP %d, write %d: payload", i, k)
			}
		}
	}
	r.clean()
	if e := hca.RegistersOf(n.ctx).MapStatic(1, 3<<8|1); e != 0 { // not cached: the QPs there ring it
		t.Fatal(e)
	}
	q := n.qp(c, c, qpOpts{})
	if q.q.UAR.Index != 1 {
		t.Fatalf("the QP rings page %d", q.q.UAR.Index)
	}
	connect(defaults(), q, peer())
	q.send(opWrite, signaled, 0, raddr(m.at(1000)), m.sge(0, 100))
	c.want(0, -1)
	r.clean()
	n.ctx.Release()
	if len(r.e.pages) != 0 {
		t.Errorf("%d doorbell pages are left", len(r.e.pages))
	}
}

func TestXRCWithCQEVersion0(t *testing.T) {
	r := newRig(t, "mlx5_0,cqe_version=0", 0)
	a, b := r.node(0), r.node(0)
	ac, bc := a.cq(16, 64), b.cq(16, 64)
	d, e := hca.OpenXRCD(b.ctx, 0, 0, 0)
	if e != 0 {
		t.Fatal(e)
	}
	h := d.Handle
	b.srq(16, 0, nil)
	s := b.srq(16, h, bc)
	qa, qb := a.qp(ac, nil, qpOpts{typ: hca.XRCSend}), b.qp(nil, nil, qpOpts{typ: hca.XRCRecv, xrcd: h})
	connect(defaults(), qa, qb)
	ma, mb := a.mr(4096, anyAccess), b.mr(4096, anyAccess)
	s.recv(mb.sge(0, 200))
	qa.send(opSend, signaled, 0, seg(s.q.Num, uint32(0), uint64(0)), ma.sge(0, 100))
	ac.want(0, -1)
	if v := bc.want(cqeRespSend, 100); v.uidx() != s.q.Num {
		t.Errorf("the CQE has SRQN %#x, want %#x", v.uidx(), s.q.Num)
	}
}
