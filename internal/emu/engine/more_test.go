//go:build linux

package engine

import (
	"bytes"
	"testing"

	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

func TestSRQ(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	n := r.node(0)
	c := n.cq(64, 64)
	s := n.srq(16, 0, 0, nil)
	x := defaults()
	x.rnr = 0
	a1, a2 := n.qp(c, c, qpOpts{sq: 512}), n.qp(c, c, qpOpts{sq: 512})
	b1, b2 := n.qp(c, c, qpOpts{srq: s}), n.qp(c, c, qpOpts{srq: s})
	connect(x, a1, b1)
	connect(x, a2, b2)
	m := n.mr(1<<16, anyAccess)
	if e := n.ctx.ModifySRQ(s.q.Handle, 2, 0, 3); e != 0 {
		t.Fatal(e)
	}
	// Below the limit at once: nothing is posted yet.
	if r.event(hca.EventSRQLimitReached) != 1 {
		t.Fatalf("events %v", r.events)
	}
	where := map[uint32]int{}
	post := func(slot int) { where[s.recv(m.sge(slot*64, 64))] = slot }
	for i := range 15 {
		post(i)
	}
	if e := n.ctx.ModifySRQ(s.q.Handle, 2, 0, 3); e != 0 {
		t.Fatal(e)
	}
	for i := range 200 {
		a, b := a1, b1
		if i%3 == 0 {
			a, b = a2, b2
		}
		m.buf[40000] = byte(i)
		a.send(opSend, 0, 0, m.sge(40000, 1))
		v := c.want(cqeRespSend, 1)
		k := uint32(v.counter())
		if v.uidx() != b.q.UIdx || m.buf[where[k]*64] != byte(i) {
			t.Fatalf("message %d: entry %d, user index %d, payload %d", i, k, v.uidx(), m.buf[where[k]*64])
		}
		if i%5 == 4 { // out of order, so that the list is not the ring
			s.free(k)
			post(where[k])
		} else {
			s.free(k)
			post(where[k])
		}
	}
	if r.event(hca.EventSRQLimitReached) != 1 {
		t.Errorf("events %v", r.events)
	}
	for i := range 13 {
		a1.send(opSend, 0, 0, m.sge(40000, 1))
		c.next()
		if got := r.event(hca.EventSRQLimitReached) == 2; got != (i >= 12) {
			t.Fatalf("%d receives are left, events %v", 14-i, r.events)
		}
	}
	r.clean()
	b1.modify(&hca.QPAttr{}, 0, hca.Err)
	r.settle()
	if r.event(hca.EventQPLastWQEReached) != 1 {
		t.Errorf("events %v", r.events)
	}
	// Another QP's receives are still there, then none: RNR at once.
	for range 2 {
		a2.send(opSend, 0, 0, m.sge(40000, 1))
		c.want(cqeRespSend, 1)
	}
	a2.send(opSend, 0, 0, m.sge(40000, 1))
	c.wantErr(cqeReqErr, synRNR)
}

func TestSRQOutOfOrder(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	n := r.node(0)
	c := n.cq(64, 64)
	s := n.srq(16, 0, 0, nil)
	sc := n.cq(64, 64)
	a, b := n.qp(sc, sc, qpOpts{}), n.qp(c, c, qpOpts{srq: s})
	connect(defaults(), a, b)
	m := n.mr(1<<16, anyAccess)
	at := map[uint32]int{}
	for i := range 15 {
		at[s.recv(m.sge(i*64, 64))] = i
	}
	var kept []uint32
	for i := range 300 {
		m.buf[40000] = byte(i)
		a.send(opSend, signaled, 0, m.sge(40000, 1))
		sc.want(0, -1)
		k := uint32(c.want(cqeRespSend, 1).counter())
		if m.buf[at[k]*64] != byte(i) {
			t.Fatalf("message %d is not in entry %d", i, k)
		}
		kept = append(kept, k)
		if len(kept) == 7 {
			for _, j := range []int{3, 0, 6, 1, 5, 2, 4} {
				s.free(kept[j])
				slot := at[kept[j]]
				e := s.recv(m.sge(slot*64, 64))
				at[e] = slot
			}
			kept = kept[:0]
		}
	}
	r.clean()
}

func TestXRC(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	a, b := r.node(0), r.node(0)
	ac, bc := a.cq(16, 64), b.cq(16, 64)
	h, x, _, e := b.ctx.OpenXRCD(0, 0, 0)
	if e != 0 {
		t.Fatal(e)
	}
	_ = x
	s := b.srq(16, 0, h, bc)
	qa, qb := a.qp(ac, nil, qpOpts{typ: hca.XRCSend}), b.qp(nil, nil, qpOpts{typ: hca.XRCRecv, xrcd: h})
	connect(defaults(), qa, qb)
	ma, mb := a.mr(4096, anyAccess), b.mr(4096, anyAccess)
	fill(ma.buf[:100], 2)
	k := s.recv(mb.sge(0, 200))
	xrc := seg(s.q.Num, uint32(0), uint64(0))
	qa.send(opSendImm, signaled, 9, xrc, ma.sge(0, 100))
	ac.want(0, -1)
	v := bc.want(cqeRespSendImm, 100)
	if v.imm() != 9 || v.uidx() != s.q.UIdx || v.counter() != uint16(k) || !bytes.Equal(ma.buf[:100], mb.buf[:100]) {
		t.Errorf("completion %x", v.b)
	}
	addr, key := mb.at(1000)
	qa.send(opWrite, signaled, 0, xrc, raddr(addr, key), ma.sge(0, 100))
	ac.want(0, -1)
	if !bytes.Equal(ma.buf[:100], mb.buf[1000:1100]) {
		t.Error("payload of the write")
	}
	r.clean()
	qa.send(opSend, signaled, 0, seg(uint32(0x999), uint32(0), uint64(0)), ma.sge(0, 100))
	ac.wantErr(cqeReqErr, synRemoteInval)
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
			if e := n.ctx.AttachMcast(q.q.Handle, gid, 0xc001); e != 0 {
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

func TestUC(t *testing.T) {
	p := newPair(t, qpOpts{typ: hca.UC}, nil)
	fill(p.ma.buf[:5000], 3)
	addr, key := p.mb.at(0)
	p.qa.send(opWrite, signaled, 0, raddr(addr, key), p.ma.sge(0, 5000))
	p.acq.want(0, -1)
	if !bytes.Equal(p.ma.buf[:5000], p.mb.buf[:5000]) {
		t.Error("payload")
	}
	// Lost in silence: no receive, a bad key.
	p.qa.send(opSend, signaled, 0, p.ma.sge(0, 8))
	p.acq.want(0, -1)
	p.qa.send(opWrite, signaled, 0, raddr(addr, key+1), p.ma.sge(0, 8))
	p.acq.want(0, -1)
	p.qb.recv(p.mb.sge(0, 64))
	p.qa.send(opSend, signaled, 0, p.ma.sge(0, 8))
	p.acq.want(0, -1)
	p.bcq.want(cqeRespSend, 8)
	p.r.clean()
	p.qa.send(opWrite, signaled, 0, raddr(addr, key), sgeSeg(1, 0, 8))
	p.acq.wantErr(cqeReqErr, synLocalProt)
	if p.qa.q.State != hca.SQE || p.qb.q.State != hca.RTS {
		t.Errorf("states %v, %v", p.qa.q.State, p.qb.q.State)
	}
}

// bind builds what binds a window, or invalidates it when n is 0.
func bind(q *qp, typ int, mr *mr, off, n int, access byte, variant byte) []byte {
	ctrl := make([]byte, 48)
	ctrl[0] = 1<<4 | 1<<7
	mask := uint64(1<<29 | 1<<13)
	qpn := uint32(0xffffff)
	if typ == 2 {
		mask |= 1 << 14
	}
	ctx := make([]byte, 64)
	klm := []byte(nil)
	if n > 0 {
		be.PutUint16(ctrl[4:], 4)
		if typ == 2 {
			ctrl[0] |= 1 << 5
			qpn = q.q.Num
		}
		mask |= 1 | 1<<6 | 1<<18 | 1<<19 | 1<<20 | 1<<21
		ctx[2] = access
		be.PutUint64(ctx[16:], va(mr.buf)+uint64(off))
		be.PutUint64(ctx[24:], uint64(n))
		klm = append(seg(uint32(n), mr.key.Key, va(mr.buf)+uint64(off)), make([]byte, 48)...)
	} else {
		ctx[0] = 1 << 6
		if typ == 2 {
			ctrl[0] |= 1 << 3
		}
	}
	be.PutUint64(ctrl[8:], mask)
	be.PutUint32(ctx[4:], qpn<<8|uint32(variant))
	return append(append(ctrl, ctx...), klm...)
}

func TestWindows(t *testing.T) {
	for _, typ := range []int{1, 2} {
		p := newPair(t, qpOpts{}, nil)
		mw, e := p.b.ctx.AllocMW(p.b.pd.Handle, uint8(typ))
		if e != 0 {
			t.Fatal(e)
		}
		old := mw.Key
		rkey := old&^0xff | 0x5a
		p.qb.send(opUMR, signaled, old, bind(p.qb, typ, p.mb, 4096, 100, 1<<4|1<<5, 0x5a))
		p.bcq.want(0, -1)
		addr, _ := p.mb.at(4096)
		p.qa.send(opWrite, signaled, 0, raddr(addr, rkey), p.ma.sge(0, 100))
		p.acq.want(0, -1)
		if typ == 2 {
			p.qb.recv(p.mb.sge(0, 64))
			p.qa.send(opSendInval, signaled, rkey, p.ma.sge(0, 8))
			p.acq.want(0, -1)
			if v := p.bcq.want(cqeRespSendInv, 8); v.imm() != rkey {
				t.Errorf("invalidated %#x", v.imm())
			}
			rkey = old&^0xff | 0x11
			p.qb.send(opUMR, signaled, old&^0xff|0x5a, bind(p.qb, typ, p.mb, 4096, 100, 1<<4|1<<5, 0x11))
			p.bcq.want(0, -1)
			p.qa.send(opRead, signaled, 0, raddr(addr, rkey), p.ma.sge(0, 100))
			p.acq.want(0, 100)
			p.qb.send(opUMR, signaled, rkey, bind(p.qb, typ, nil, 0, 0, 0, 0))
			p.bcq.want(0, -1)
			p.r.clean()
			p.qa.send(opRead, signaled, 0, raddr(addr, rkey), p.ma.sge(0, 100))
			p.acq.wantErr(cqeReqErr, synRemoteAccess)
			continue
		}
		p.r.clean()
		p.qa.send(opWrite, signaled, 0, raddr(addr-1, rkey), p.ma.sge(0, 10))
		p.acq.wantErr(cqeReqErr, synRemoteAccess)
	}
	p := newPair(t, qpOpts{}, nil)
	mw, _ := p.b.ctx.AllocMW(p.b.pd.Handle, 2)
	p.qb.send(opUMR, signaled, mw.Key, bind(p.qb, 2, p.mb, 1<<20-50, 100, 1<<5, 1))
	p.bcq.wantErr(cqeReqErr, synMWBind)
}

func TestAcrossDevices(t *testing.T) {
	for _, devices := range []string{"mlx5_0 mlx5_1"} {
		r := newRigDevices(t, devices)
		a, b := r.node(0), r.node(1)
		ac, bc := a.cq(64, 64), b.cq(64, 64)
		qa, qb := a.qp(ac, ac, qpOpts{}), b.qp(bc, bc, qpOpts{})
		connect(defaults(), qa, qb)
		ma, mb := a.mr(8192, anyAccess), b.mr(8192, anyAccess)
		fill(ma.buf[:100], 2)
		qb.recv(mb.sge(0, 1000))
		qa.send(opSend, signaled, 0, ma.sge(0, 100))
		ac.want(0, -1)
		bc.want(cqeRespSend, 100)
		if !bytes.Equal(ma.buf[:100], mb.buf[:100]) {
			t.Error("payload")
		}
		r.clean()
	}
}

func TestTimeoutIsKept(t *testing.T) {
	p := newPair(t, qpOpts{}, func(a *attrs) { a.timeout, a.retry = 12, 1 }) // 16.8 ms, twice
	p.r.f.Devices[0].SetPort(1, false)
	p.qa.send(opNOP, signaled, 0)
	p.acq.want(0, -1)
	start := nanos()
	addr, key := p.mb.at(0)
	p.qa.send(opWrite, signaled, 0, raddr(addr, key), p.ma.sge(0, 8))
	p.acq.wantErr(cqeReqErr, synRetry)
	if d := nanos() - start; d < 33e6 || d > 200e6 {
		t.Errorf("failed after %d ms, want 34", d/1e6)
	}
	// The same, and the port comes back in time.
	p = newPair(t, qpOpts{}, func(a *attrs) { a.timeout, a.retry = 12, 3 })
	p.r.f.Devices[0].SetPort(1, false)
	addr, key = p.mb.at(0)
	p.qa.send(opWrite, signaled, 0, raddr(addr, key), p.ma.sge(0, 8))
	p.acq.none()
	p.r.f.Devices[0].SetPort(1, true)
	p.acq.want(0, -1)
	p.r.clean()
}
