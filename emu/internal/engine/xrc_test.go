//go:build linux

package engine

import (
	"bytes"
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

func TestXRC(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	a, b := r.node(0), r.node(0)
	ac, bc := a.cq(16, 64), b.cq(16, 64)
	d, e := hca.OpenXRCD(b.ctx, 0, 0, 0)
	if e != 0 {
		t.Fatal(e)
	}
	h := d.Handle
	s := b.srq(16, h, bc)
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
