//go:build linux

package engine

import "testing"

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
