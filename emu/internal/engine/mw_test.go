//go:build linux

package engine

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

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
		mw, e := hca.AllocMW(p.b.ctx, p.b.pd.Handle, uint8(typ))
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
	mw, _ := hca.AllocMW(p.b.ctx, p.b.pd.Handle, 2)
	p.qb.send(opUMR, signaled, mw.Key, bind(p.qb, 2, p.mb, 1<<20-50, 100, 1<<5, 1))
	p.bcq.wantErr(cqeReqErr, synMWBind)
}

// What an adapter refuses of windows, whatever libraries check before.
func TestWindowRules(t *testing.T) {
	type lab struct {
		*pair
		mw  *hca.MKey
		key uint32
	}
	// bound binds the window, from b's QP.
	bound := func(l *lab, typ int) {
		l.key = l.mw.Key&^0xff | 0x5a
		l.qb.send(opUMR, signaled, l.mw.Key, bind(l.qb, typ, l.mb, 0, 64, 1<<4|1<<5, 0x5a))
		l.bcq.want(0, -1)
	}
	read := func(l *lab) {
		addr, _ := l.mb.at(0)
		l.qa.send(opRead, signaled, 0, raddr(addr, l.key), l.ma.sge(0, 64))
	}
	for _, c := range []struct {
		name string
		typ  int
		do   func(l *lab)
	}{
		{"a bound window of type 2", 2, func(l *lab) {
			bound(l, 2)
			l.qb.send(opUMR, signaled, l.key, bind(l.qb, 2, l.mb, 0, 8, 1<<5, 1))
		}},
		{"a window of another PD", 2, func(l *lab) {
			mw, _ := hca.AllocMW(l.a.ctx, l.a.pd.Handle, 2)
			l.qb.send(opUMR, signaled, mw.Key, bind(l.qb, 2, l.mb, 0, 8, 1<<5, 1))
		}},
		{"a region of another PD", 2, func(l *lab) {
			l.qb.send(opUMR, signaled, l.mw.Key, bind(l.qb, 2, l.ma, 0, 8, 1<<5, 1))
		}},
		{"a region that takes no windows", 2, func(l *lab) {
			l.qb.send(opUMR, signaled, l.mw.Key, bind(l.qb, 2, l.b.mr(4096, hca.AccessLocalWrite), 0, 8, 1<<5, 1))
		}},
		{"writes on a region that is read only", 2, func(l *lab) {
			l.qb.send(opUMR, signaled, l.mw.Key, bind(l.qb, 2, l.b.mr(4096, hca.AccessMWBind), 0, 8, 1<<5, 1))
		}},
		{"a region's key in place of a window's", 2, func(l *lab) {
			l.qb.send(opUMR, signaled, l.mb.key.Key, bind(l.qb, 2, l.mb, 0, 8, 1<<5, 1))
		}},
		{"no key", 2, func(l *lab) { l.qb.send(opUMR, signaled, 0xffffff00, bind(l.qb, 2, l.mb, 0, 8, 1<<5, 1)) }},
		{"to invalidate what is not bound", 2, func(l *lab) {
			l.qb.send(opUMR, signaled, l.mw.Key, bind(l.qb, 2, nil, 0, 0, 0, 0))
		}},
		{"to invalidate by an old key", 2, func(l *lab) {
			was := l.mw.Key
			bound(l, 2)
			l.qb.send(opUMR, signaled, was, bind(l.qb, 2, nil, 0, 0, 0, 0))
		}},
		{"to invalidate what another QP bound", 2, func(l *lab) {
			bound(l, 2)
			other := l.b.qp(l.bcq, l.bcq, qpOpts{})
			peer := l.a.qp(l.acq, l.acq, qpOpts{})
			connect(l.attributes, peer, other)
			other.send(opUMR, signaled, l.key, bind(other, 2, nil, 0, 0, 0, 0))
		}},
		{"to invalidate type 1", 1, func(l *lab) {
			bound(l, 1)
			l.qb.send(opUMR, signaled, l.key, bind(l.qb, 2, nil, 0, 0, 0, 0))
		}},
	} {
		p := newPair(t, qpOpts{}, nil)
		mw, e := hca.AllocMW(p.b.ctx, p.b.pd.Handle, uint8(c.typ))
		if e != 0 {
			t.Fatal(e)
		}
		t.Log(c.name)
		c.do(&lab{pair: p, mw: mw})
		p.bcq.wantErr(cqeReqErr, synMWBind)
	}

	// A region is busy below a window, and is free when that is gone.
	l := &lab{pair: newPair(t, qpOpts{}, nil)}
	l.mw, _ = hca.AllocMW(l.b.ctx, l.b.pd.Handle, 2)
	bound(l, 2)
	if e := hca.Destroy[*hca.MKey](l.b.ctx, l.mb.key.Handle); e != unix.EBUSY {
		t.Errorf("deregistration below a window: %v", e)
	}
	read(l)
	l.acq.want(0, 64)
	if e := hca.Destroy[*hca.MKey](l.b.ctx, l.mw.Handle); e != 0 {
		t.Error(e)
	}
	read(l)
	l.acq.wantErr(cqeReqErr, synRemoteAccess)
	if e := hca.Destroy[*hca.MKey](l.b.ctx, l.mb.key.Handle); e != 0 {
		t.Errorf("deregistration after the window: %v", e)
	}

	// The peer cannot invalidate type 1.
	l = &lab{pair: newPair(t, qpOpts{}, nil)}
	l.mw, _ = hca.AllocMW(l.b.ctx, l.b.pd.Handle, 1)
	bound(l, 1)
	l.qb.recv(l.mb.sge(0, 64))
	l.qa.send(opSendInval, signaled, l.key, l.ma.sge(0, 8))
	l.acq.wantErr(cqeReqErr, synRemoteAccess)
}

// The fault of a bind leaves the window as it was, and other work requests alone.
func TestFaultBind(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	mw, _ := hca.AllocMW(p.b.ctx, p.b.pd.Handle, 2)
	p.r.e.Hooks.AtWQE = func(*hca.QP, uint8, uint64) fault.Kind { return fault.MWBind }
	p.qb.send(opWrite, signaled, 0, raddr(va(p.ma.buf), p.ma.key.Key), p.mb.sge(0, 8))
	p.bcq.want(0, -1)
	p.qb.send(opUMR, signaled, mw.Key, bind(p.qb, 2, p.mb, 0, 8, 1<<5, 1))
	p.bcq.wantErr(cqeReqErr, synMWBind)
	if !mw.Free {
		t.Error("the window is bound")
	}
}
