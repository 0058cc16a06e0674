//go:build linux

package engine

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// tagRig is a sender, and a receiver whose SRQ matches tags.
type tagRig struct {
	*rig
	a, b     *node
	acq, bcq *cq
	qa, qb   *qp
	s        *srq
	cmd      *qp // of the SRQ
	ma, mb   *mr
}

// tags makes an SRQ that matches tags, and its command QP.
func (n *node) tags(entries int, c *cq) (*srq, *qp) {
	s := &srq{n: n, ring: n.r.a.alloc(entries * 32), db: n.r.a.alloc(64), tail: uint32(entries - 1)}
	for i := range entries - 1 {
		be.PutUint16(s.ring[i*32+2:], uint16(i+1))
	}
	n.r.uidx++
	q, e := hca.CreateSRQ(n.ctx, &hca.SRQInit{User: 0x5000, PD: n.pd.Handle, MaxWR: uint32(entries), MaxSGE: 1,
		Buf: va(s.ring), DB: va(s.db), UIdx: n.r.uidx, TM: true, Tags: 7, CQ: c.q.Handle})
	s.q = try(n.r, q, e)
	cmd := n.qp(c, c, qpOpts{srq: s})
	cmd.up(defaults(), cmd)
	return s, cmd
}

func newTagRig(t *testing.T, x attrs, up bool) *tagRig {
	r := newRig(t, "mlx5_0,link=ib", 0)
	g := &tagRig{rig: r, a: r.node(0), b: r.node(0)}
	g.acq, g.bcq = g.a.cq(64, 64), g.b.cq(64, 64)
	g.s, g.cmd = g.b.tags(16, g.bcq)
	g.qa, g.qb = g.a.qp(g.acq, g.acq, qpOpts{}), g.b.qp(g.bcq, g.bcq, qpOpts{srq: g.s})
	g.ma, g.mb = g.a.mr(1<<16, anyAccess), g.b.mr(1<<16, anyAccess)
	g.qa.up(x, g.qb)
	g.qb.init(x)
	g.qb.rtr(x, g.qa.q)
	if up {
		g.qb.rts(x)
	}
	return g
}

// tagSeg is a tag matching segment.
func tagSeg(op, flags byte, index, count uint16, tag, mask uint64) []byte {
	return seg(op<<4, flags, index, uint16(0), count, uint64(0), tag, mask)
}

// add adds a tag of any mask at place i.
func (g *tagRig) add(i int, tag uint64, data []byte) {
	g.t.Helper()
	g.cmd.send(opTagMatch, 0, 0, tagSeg(tagAppend, tagCQE, uint16(i+1), 0, tag, ^uint64(0)), data)
	g.op(g.bcq.want(cqeNoPacket, -1), tmAppend, uint16(i+1))
}

func (g *tagRig) op(v cqe, op byte, info uint16) {
	g.t.Helper()
	if v.b[40] != appTagMatching || v.b[41] != op || be.Uint16(v.b[42:]) != info {
		g.t.Fatalf("operation %d, %d, want %d, %d", v.b[41], be.Uint16(v.b[42:]), op, info)
	}
}

func header(op byte, tag uint64) []byte { return seg(op, []byte{0, 0, 0}, uint32(5), tag) }

// message sends a header, and memory of the sender behind it.
func (g *tagRig) message(head []byte, n int) {
	list := [][]byte{inlineSeg(head)}
	if n > 0 {
		list = [][]byte{g.ma.sge(0, len(head)+n)}
		copy(g.ma.buf, head)
	}
	g.qa.send(opSend, signaled, 0, list...)
}

func (g *tagRig) rendezvous(tag uint64, off, n int, rkey uint32) []byte {
	addr, key := g.ma.at(off)
	return append(header(tmhRendezvous, tag), seg(addr, key^rkey, uint32(n))...)
}

func TestTagEager(t *testing.T) {
	g := newTagRig(t, defaults(), true)
	fill(g.ma.buf[16:], 3)
	g.add(0, 9, g.mb.sge(100, 3000))
	g.add(1, 9, g.mb.sge(8000, 30))
	g.message(header(tmhEager, 9), 2500) // more than one packet
	g.acq.want(cqeReq, -1)
	g.op(g.bcq.want(cqeNoPacket, -1), tmConsumed, 0)
	if v := g.bcq.want(cqeRespSend, 2500); be.Uint64(v.b[8:]) != 0 {
		t.Errorf("the second completion has tag %d", be.Uint64(v.b[8:]))
	} else {
		g.op(v, tmExpected, 0)
	}
	if !bytes.Equal(g.mb.buf[100:2600], g.ma.buf[16:2516]) {
		t.Error("payload")
	}
	g.message(header(tmhEager, 9), 30)
	g.acq.want(cqeReq, -1)
	v := g.bcq.want(cqeRespSend, 30)
	if g.op(v, tmConsumedMsg, 1); !bytes.Equal(v.b[:16], header(tmhEager, 9)) || v.uidx() != g.s.q.UIdx {
		t.Errorf("completion %x", v.b)
	}
	// A write with immediate is no message for tags.
	g.s.recv(g.mb.sge(0, 64))
	addr, key := g.mb.at(9000)
	g.qa.send(opWriteImm, signaled, 7, raddr(addr, key), g.ma.sge(0, 16))
	g.acq.want(cqeReq, -1)
	if v := g.bcq.want(cqeRespWrImm, 16); v.b[40] != 0 || v.imm() != 7 {
		t.Errorf("completion %x", v.b)
	}
	g.cmd.send(opTagMatch, 0, 0, tagSeg(tagRemove, tagCQE, 1, 0, 0, 0)) // it matched
	if v := g.bcq.want(cqeNoPacket, -1); be.Uint32(v.b) != 0 {
		t.Errorf("completion %x", v.b)
	}
	g.clean()
}

func TestTagRendezvous(t *testing.T) {
	x := defaults()
	x.rnr = 7
	g := newTagRig(t, x, false)
	fill(g.ma.buf, 3)
	g.add(0, 1, g.mb.sge(0, 5000))
	g.add(1, 2, seg(uint32(0), uint32(invalidLKey), uint64(0)))
	g.message(g.rendezvous(1, 100, 5000, 0), 0)
	g.acq.want(cqeReq, -1)
	g.op(g.bcq.want(cqeNoPacket, -1), tmConsumed, 0)
	g.bcq.none() // it cannot read before it is in RTS
	g.qb.rts(x)
	v := g.bcq.want(cqeRespSend, 5000)
	if g.op(v, tmExpected, 0); be.Uint64(v.b[8:]) != 0 {
		t.Errorf("the second completion has tag %d", be.Uint64(v.b[8:]))
	}
	if !bytes.Equal(g.mb.buf[:5000], g.ma.buf[100:5100]) {
		t.Error("payload")
	}
	g.acq.none() // there is no receive
	g.qa.recv(g.ma.sge(8000, 64))
	g.acq.want(cqeRespSend, 32)
	want := g.rendezvous(1, 100, 5000, 0)
	want[0] = 2
	if !bytes.Equal(g.ma.buf[8000:8032], want) {
		t.Errorf("the sender is told %x, want %x", g.ma.buf[8000:8032], want)
	}
	g.qa.recv(g.ma.sge(8000, 64))
	g.message(g.rendezvous(2, 0, 0, 0), 0) // of no length
	g.acq.want(cqeReq, -1)
	g.op(g.bcq.want(cqeNoPacket, -1), tmConsumed, 1)
	g.op(g.bcq.want(cqeRespSend, 0), tmExpected, 1)
	g.acq.want(cqeRespSend, 32)
	g.add(2, 3, g.mb.sge(0, 10))
	g.message(g.rendezvous(3, 0, 11, 0), 0)
	g.acq.want(cqeReq, -1)
	g.op(g.bcq.want(cqeRespSend, 10), tmConsumedRendezvous, 2)
	g.clean()
}

// TestTagErrors has what breaks a connection.
func TestTagErrors(t *testing.T) {
	x := defaults()
	x.rnr = 0
	for name, f := range map[string]func(g *tagRig){
		"too long": func(g *tagRig) {
			g.add(0, 1, g.mb.sge(0, 10))
			g.s.recv(g.mb.sge(0, 64))
			g.message(header(tmhEager, 1), 11)
			g.acq.wantErr(cqeReqErr, synRemoteInval)
			g.bcq.wantErr(cqeRespErr, synLocalLength)
		},
		"key of a tag": func(g *tagRig) {
			addr, key := g.mb.at(0)
			g.add(0, 1, sgeSeg(key^0x100, addr, 64))
			g.message(header(tmhEager, 1), 11)
			g.acq.wantErr(cqeReqErr, synRemoteOp)
		},
		"no receive": func(g *tagRig) {
			g.message(header(tmhEager, 1), 11)
			g.acq.wantErr(cqeReqErr, synRNR)
		},
		"key of a rendezvous": func(g *tagRig) {
			g.add(0, 1, g.mb.sge(0, 5000))
			g.message(g.rendezvous(1, 0, 5000, 0x100), 0)
			g.acq.want(cqeReq, -1)
			g.op(g.bcq.want(cqeNoPacket, -1), tmConsumed, 0)
			g.op(g.bcq.want(cqeRespSend, -1), tmCanceled, 0)
			if g.bcq.none(); g.qb.q.State != hca.Err || g.qa.q.State != hca.Err {
				t.Errorf("states %v and %v", g.qa.q.State, g.qb.q.State)
			}
		},
		"no answer": func(g *tagRig) {
			g.qb.q.State = hca.SQD // as a wrong signature leaves it
			g.add(0, 1, g.mb.sge(0, 5000))
			g.message(g.rendezvous(1, 0, 5000, 0), 0)
			g.acq.want(cqeReq, -1)
			g.op(g.bcq.want(cqeNoPacket, -1), tmConsumed, 0)
			g.qa.modify(&hca.QPAttr{}, 0, hca.Err)
			g.qb.modify(&hca.QPAttr{CurState: hca.SQD}, hca.AttrCurState, hca.RTS)
			g.op(g.bcq.want(cqeRespSend, -1), tmCanceled, 0)
		},
		"no list": func(g *tagRig) {
			g.qa.send(opTagMatch, signaled, 0, tagSeg(tagNOP, tagCQE, 0, 0, 0, 0))
			g.acq.wantErr(cqeReqErr, synLocalQPOp)
		},
		"no command QP": func(g *tagRig) {
			g.qb.send(opTagMatch, signaled, 0, tagSeg(tagNOP, tagCQE, 0, 0, 0, 0))
			g.bcq.wantErr(cqeReqErr, synLocalQPOp)
		},
		"unknown operation": func(g *tagRig) {
			g.cmd.send(opTagMatch, signaled, 0, tagSeg(3, tagCQE, 0, 0, 0, 0))
			g.bcq.wantErr(cqeReqErr, synLocalQPOp)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTagRig(t, x, true)
			f(g)
			g.clean()
		})
	}
	g := newTagRig(t, x, true)
	for _, n := range []uint32{0, hca.MaxTags + 1} {
		if _, e := hca.CreateSRQ(g.b.ctx, &hca.SRQInit{PD: g.b.pd.Handle, MaxWR: 1, MaxSGE: 1, TM: true, Tags: n,
			CQ: g.bcq.q.Handle}); e != unix.EINVAL {
			t.Errorf("%d tags: %v", n, e)
		}
	}
	if _, e := hca.CreateQP(g.b.ctx, &hca.QPInit{PD: g.b.pd.Handle, Type: hca.UC, SendCQ: g.bcq.q.Handle,
		RecvCQ: g.bcq.q.Handle, SRQ: g.s.q.Handle}); e != unix.EINVAL {
		t.Errorf("UC: %v", e)
	}
}
