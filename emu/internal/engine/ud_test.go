//go:build linux

package engine

import (
	"bytes"
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// An adapter knows from the source GID that an address is of IPv4, and then looks at its last four bytes.
func TestIPv4AddressWithoutPrefix(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	a, b := r.node(0), r.node(0)
	ac, bc := a.cq(64, 64), b.cq(64, 64)
	o := qpOpts{typ: hca.UD}
	qa, qb := a.qp(ac, ac, o), b.qp(bc, bc, o)
	connect(defaults(), qa, qb)
	ma, mb := a.mr(8192, anyAccess), b.mr(8192, anyAccess)
	bare := func(sgid uint8) []byte {
		av := a.av(qb.q, 0x11, sgid, nil)
		clear(av[32:44])
		return av
	}
	qb.recv(mb.sge(0, 1000))
	qa.send(opSend, signaled, 0, bare(3), ma.sge(0, 8)) // 10.88.0.1, RoCE v2
	ac.want(0, -1)
	bc.want(cqeRespSend, 48)
	for _, sgid := range []uint8{2, 1} { // the same for RoCE v1, a link-local address
		qa.send(opSend, signaled, 0, bare(sgid), ma.sge(0, 8))
		ac.want(0, -1)
		bc.none()
	}
	qb.recv(mb.sge(0, 30))
}

// av builds the address vector of a datagram.
func (n *node) av(to *hca.QP, qkey uint32, sgid uint8, dgid []byte) []byte {
	p := to.Context.Device.Ports[0]
	b := make([]byte, 48)
	be.PutUint32(b, qkey)
	be.PutUint32(b[8:], to.Num|1<<31)
	if p.Config.LID != 0 {
		be.PutUint16(b[14:], p.Config.LID)
		b[12] = 5
	} else {
		b[26], b[27] = 0x44, 33
		be.PutUint32(b[28:], uint32(sgid)<<20|0x12345)
		g := p.Config.GIDs[sgid].GID
		copy(b[32:], g[:])
	}
	if dgid != nil {
		copy(b[32:], dgid)
	}
	return b
}

func TestUD(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	a, b := r.node(0), r.node(0)
	ac, bc := a.cq(64, 64), b.cq(64, 64)
	o := qpOpts{typ: hca.UD}
	qa, qb := a.qp(ac, ac, o), b.qp(bc, bc, o)
	connect(defaults(), qa, qb)
	ma, mb := a.mr(8192, anyAccess), b.mr(8192, anyAccess)
	fill(ma.buf[:500], 2)
	for sgid := range uint8(4) {
		clear(mb.buf)
		k := qb.recv(mb.sge(0, 1000))
		qa.send(opSendImm, signaled, 5, a.av(qb.q, 0x11, sgid, nil), ma.sge(0, 500))
		ac.want(0, -1)
		v := bc.want(cqeRespSendImm, 540)
		if v.counter() != uint16(k) || be.Uint32(v.b[24:])&0xffffff != qa.q.Num || v.b[24]>>4 == 0 ||
			!bytes.Equal(mb.buf[40:540], ma.buf[:500]) {
			t.Errorf("completion %x", v.b)
		}
		g := r.f.Devices[0].Ports[0].Config.GIDs[sgid]
		switch h := mb.buf[:40]; {
		case v.b[24]&3 == 2:
			if h[20] != 0x45 || h[21] != 0x44 || h[28] != 33 || !bytes.Equal(h[32:36], g.GID[12:]) {
				t.Errorf("GID %d: header %x", sgid, h)
			}
		default:
			if h[0]>>4 != 6 || h[7] != 33 || !bytes.Equal(h[8:24], g.GID[:]) || !bytes.Equal(h[24:40], g.GID[:]) {
				t.Errorf("GID %d: header %x", sgid, h)
			}
		}
	}
	// Not taken: a wrong key, no receive, a key of the QP's own is taken.
	qb.recv(mb.sge(0, 1000))
	qa.send(opSend, signaled, 0, a.av(qb.q, 0x12, 0, nil), ma.sge(0, 8))
	ac.want(0, -1)
	bc.none()
	qa.send(opSend, signaled, 0, a.av(qb.q, 1<<31, 0, nil), ma.sge(0, 8))
	ac.want(0, -1)
	bc.want(cqeRespSend, 48)
	qa.send(opSend, signaled, 0, a.av(qb.q, 0x11, 0, nil), ma.sge(0, 8))
	ac.want(0, -1)
	bc.none()
	r.clean()
	qa.send(opSend, signaled, 0, a.av(qb.q, 0x11, 0, nil), ma.sge(0, 5000))
	ac.wantErr(cqeReqErr, synLocalLength)
	if qa.q.State != hca.SQE {
		t.Errorf("the sender is in %v", qa.q.State)
	}
	qb.recv(mb.sge(0, 30))
}

func TestUDOnInfiniBand(t *testing.T) {
	r := newRig(t, "mlx5_0,link=ib", 0)
	a, b := r.node(0), r.node(0)
	ac, bc := a.cq(64, 64), b.cq(64, 64)
	o := qpOpts{typ: hca.UD}
	qa, qb := a.qp(ac, ac, o), b.qp(bc, bc, o)
	connect(defaults(), qa, qb)
	ma, mb := a.mr(8192, anyAccess), b.mr(8192, anyAccess)
	fill(ma.buf[:100], 2)
	qb.recv(mb.sge(0, 1000))
	qa.send(opSend, signaled, 0, a.av(qb.q, 0x11, 0, nil), ma.sge(0, 100))
	ac.want(0, -1)
	v := bc.want(cqeRespSend, 140)
	lid := r.f.Devices[0].Ports[0].Config.LID
	if be.Uint16(v.b[22:]) != lid || v.b[24] != 5 || mb.buf[0] != 0 || !bytes.Equal(mb.buf[40:140], ma.buf[:100]) {
		t.Errorf("completion %x, header %x", v.b, mb.buf[:40])
	}
	rc := qpOpts{}
	ca, cb := a.qp(ac, ac, rc), b.qp(bc, bc, rc)
	connect(defaults(), ca, cb)
	addr, key := mb.at(4096)
	ca.send(opWrite, signaled, 0, raddr(addr, key), ma.sge(0, 100))
	ac.want(0, -1)
	r.clean()
}

// TestGRHRequired: a packet without a GRH does not leave a port that requires one, nor reach it.
func TestGRHRequired(t *testing.T) {
	for name, spec := range map[string]string{
		"at the sender":   "mlx5_0,link=ib,grh=required mlx5_1,link=ib",
		"at the receiver": "mlx5_0,link=ib mlx5_1,link=ib,grh=required",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigDevices(t, spec)
			a, b := r.node(0), r.node(1)
			ac, bc := a.cq(64, 64), b.cq(64, 64)
			qa, qb := a.qp(ac, ac, qpOpts{typ: hca.UD}), b.qp(bc, bc, qpOpts{typ: hca.UD})
			connect(defaults(), qa, qb)
			ma, mb := a.mr(8192, anyAccess), b.mr(8192, anyAccess)
			to := r.f.Devices[1].Ports[0].Config
			for _, grh := range []bool{false, true} {
				qb.recv(mb.sge(0, 1000))
				av := a.av(qb.q, 0x11, 0, nil)
				if grh {
					be.PutUint32(av[28:], 1<<30)
					copy(av[32:], to.GIDs[0].GID[:])
				}
				qa.send(opSend, signaled, 0, av, ma.sge(0, 100))
				ac.want(0, -1)
				if grh {
					bc.want(cqeRespSend, 140)
				} else {
					bc.none()
				}
			}
			x := defaults()
			x.timeout, x.retry = 1, 1
			for _, grh := range []bool{false, true} {
				ca, cb := a.qp(ac, ac, qpOpts{}), b.qp(bc, bc, qpOpts{})
				connect(x, ca, cb)
				for _, q := range []*qp{ca, cb} { // as without the checks of the kernel
					q.q.Attr.AH.Global = grh
				}
				addr, key := mb.at(4096)
				ca.send(opWrite, signaled, 0, raddr(addr, key), ma.sge(0, 100))
				if grh {
					ac.want(0, -1)
				} else {
					ac.wantErr(cqeReqErr, synRetry)
				}
			}
		})
	}
}

func TestMulticast(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	n := r.node(0)
	c := n.cq(64, 64)
	o := qpOpts{typ: hca.UD}
	qs := []*qp{n.qp(c, c, o), n.qp(c, c, o), n.qp(c, c, o)}
	m := n.mr(8192, anyAccess)
	gid := [16]byte{0xff, 0x0e, 15: 9}
	for i, q := range qs {
		q.up(defaults(), q)
		if i > 0 {
			if e := q.q.Attach(gid, 0xc001); e != 0 {
				t.Fatal(e)
			}
		}
		q.recv(m.sge(1000*(i+1), 500))
	}
	fill(m.buf[:64], 7)
	to := n.av(qs[1].q, 0x11, 0, gid[:])
	be.PutUint32(to[8:], 0xffffff|1<<31)
	qs[0].send(opSend, signaled, 0, to, m.sge(0, 64))
	r.settle()
	seen := map[uint32]bool{}
	for range 3 {
		v := c.next()
		if v.opcode() == cqeRespSend {
			seen[v.qpn()] = true
		}
	}
	c.none()
	if !seen[qs[1].q.Num] || !seen[qs[2].q.Num] || !bytes.Equal(m.buf[2040:2104], m.buf[:64]) ||
		!bytes.Equal(m.buf[3040:3104], m.buf[:64]) {
		t.Errorf("delivered to %v", seen)
	}
	r.clean()
}
