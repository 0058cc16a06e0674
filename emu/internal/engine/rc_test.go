//go:build linux

package engine

import (
	"bytes"
	"math/bits"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

func fill(b []byte, x byte) {
	for i := range b {
		b[i] = byte(i)*7 + x
	}
}

func TestWrite(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	for i, n := range []int{1, 8, 4096, 65536, 300 << 10, 1 << 20} {
		fill(p.ma.buf[:n], byte(i))
		remote, rkey := p.mb.at(0)
		at := p.qa.send(opWrite, signaled, 0, raddr(remote, rkey), p.ma.sge(0, n))
		c := p.acq.want(0, -1)
		if c.counter() != uint16(at) || c.qpn() != p.qa.q.Num || c.uidx() != p.qa.q.UIdx || c.wqeOp() != opWrite {
			t.Errorf("completion %x", c.b)
		}
		if !bytes.Equal(p.ma.buf[:n], p.mb.buf[:n]) {
			t.Fatalf("%d bytes: the payload differs", n)
		}
	}
	p.bcq.none()
	p.r.clean()
}

func TestGatherAndScatter(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	fill(p.ma.buf[:100], 3)
	p.qb.recv(p.mb.sge(10, 7), p.mb.sge(100, 13), p.mb.sge(50, 20))
	p.qa.send(opSendImm, signaled|solicited, 0xabcd, p.ma.sge(0, 10), p.ma.sge(30, 5), p.ma.sge(60, 11))
	p.acq.want(0, -1)
	c := p.bcq.want(cqeRespSendImm, 26)
	if c.imm() != 0xabcd || !c.se() || c.qpn() != p.qb.q.Num || c.uidx() != p.qb.q.UIdx {
		t.Errorf("completion %x", c.b)
	}
	a, b := p.ma.buf, p.mb.buf
	want := append(append(append([]byte{}, a[:10]...), a[30:35]...), a[60:71]...)
	got := append(append(append([]byte{}, b[10:17]...), b[100:113]...), b[50:56]...)
	if !bytes.Equal(got, want) || b[56] != 0 {
		t.Errorf("got %x, want %x", got, want)
	}
	p.r.clean()
}

func TestWriteImm(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	fill(p.ma.buf[:5000], 1)
	p.qb.recv()
	remote, rkey := p.mb.at(64)
	p.qa.send(opWriteImm, signaled, 77, raddr(remote, rkey), p.ma.sge(0, 5000))
	p.acq.want(0, -1)
	if c := p.bcq.want(cqeRespWrImm, 5000); c.imm() != 77 {
		t.Errorf("immediate %d", c.imm())
	}
	if !bytes.Equal(p.mb.buf[64:5064], p.ma.buf[:5000]) {
		t.Error("payload")
	}
	p.r.clean()
}

func TestRead(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	for i, n := range []int{1, 100, 5000, 600 << 10} {
		fill(p.mb.buf[:n], byte(i+9))
		remote, rkey := p.mb.at(0)
		p.qa.send(opRead, signaled, 0, raddr(remote, rkey), p.ma.sge(0, n/2), p.ma.sge(n/2, n-n/2))
		if n == 1 { // a segment of length 0 is 2 GiB
			p.acq.wantErr(cqeReqErr, synLocalProt)
			p = newPair(t, qpOpts{}, nil)
			continue
		}
		p.acq.want(0, n)
		if !bytes.Equal(p.ma.buf[:n], p.mb.buf[:n]) {
			t.Fatalf("%d bytes: the payload differs", n)
		}
	}
	p.r.clean()
}

// TestNullKey uses the device's own key: it reads as zeros and swallows what is written, anywhere, and is no remote
// key.
func TestNullKey(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	null := func(addr uint64, n int) []byte { return sgeSeg(hca.NullKey, addr, uint32(n)) }
	for _, n := range []int{1, 30, 3000, 300 << 10} {
		// Sent from, between memory.
		fill(p.mb.buf[:3*n], 1)
		fill(p.ma.buf[:n], 7)
		p.qb.recv(p.mb.sge(0, 3*n))
		p.qa.send(opSend, signaled, 0, null(^uint64(0)-5, n), p.ma.sge(0, n), null(0, n))
		p.acq.want(0, -1)
		p.bcq.want(cqeRespSend, 3*n)
		if !bytes.Equal(p.mb.buf[:3*n], slices.Concat(make([]byte, n), p.ma.buf[:n], make([]byte, n))) {
			t.Errorf("%d bytes of zeros before and behind: not so", n)
		}
		// Received into, between memory.
		clear(p.mb.buf[:2*n])
		fill(p.ma.buf[:3*n], 3)
		p.qb.recv(p.mb.sge(0, n), null(0, n), p.mb.sge(n, n))
		p.qa.send(opSend, signaled, 0, p.ma.sge(0, 3*n))
		p.acq.want(0, -1)
		p.bcq.want(cqeRespSend, 3*n)
		if !bytes.Equal(p.mb.buf[:2*n], slices.Concat(p.ma.buf[:n], p.ma.buf[2*n:3*n])) {
			t.Errorf("%d bytes in the middle swallowed: not so", n)
		}
		// Read into.
		remote, rkey := p.mb.at(0)
		p.qa.send(opRead, signaled, 0, raddr(remote, rkey), null(0, 2*n))
		p.acq.want(0, -1)
	}
	remote, rkey := p.mb.at(0)
	before := ne.Uint64(p.mb.buf)
	p.qa.send(opAtomicFA, signaled, 0, raddr(remote, rkey), seg(uint64(5), uint64(0)), null(8, 8))
	p.acq.want(0, 8)
	if now := ne.Uint64(p.mb.buf); now != before+5 {
		t.Errorf("%#x, want %#x", now, before+5)
	}
	p.r.clean()
	p.qa.send(opWrite, signaled, 0, raddr(0, hca.NullKey), p.ma.sge(0, 8))
	p.acq.wantErr(cqeReqErr, synRemoteAccess)
}

func TestAtomics(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	word := func() uint64 { return ne.Uint64(p.mb.buf[8:]) }
	remote, rkey := p.mb.at(8)
	do := func(op uint8, segs []byte, old, now uint64) {
		t.Helper()
		p.qa.send(op, signaled, 0, raddr(remote, rkey), segs, p.ma.sge(0, 8))
		p.acq.want(0, 8)
		if got := ne.Uint64(p.ma.buf); got != old || word() != now {
			t.Errorf("opcode %#x: returned %#x and left %#x, want %#x and %#x", op, got, word(), old, now)
		}
	}
	do(opAtomicFA, seg(uint64(5), uint64(0)), 0, 5)
	do(opAtomicFA, seg(^uint64(0), uint64(0)), 5, 4)
	do(opAtomicCS, seg(uint64(100), uint64(4)), 4, 100)
	do(opAtomicCS, seg(uint64(7), uint64(4)), 100, 100)
	do(opMaskedCS, seg(uint64(0xff00), uint64(100), uint64(0xff00), uint64(0xff)), 100, 0xff64)
	do(opMaskedFA, seg(uint64(0x1_0101), uint64(0x8080)), 0xff64, 0x1_0065)
	p.r.clean()
	p.qa.send(opAtomicFA, signaled, 0, raddr(remote+1, rkey), seg(uint64(5), uint64(0)), p.ma.sge(0, 8))
	p.acq.wantErr(cqeReqErr, synRemoteInval)
}

// Atomics with a size in the modifier: 4, 16 and 32 bytes.
func TestExtendedAtomics(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	remote, rkey := p.mb.at(32)
	ones := ^uint64(0)
	do := func(op uint8, size uint32, segs []byte, old, now []byte) {
		t.Helper()
		copy(p.mb.buf[32:], old)
		mod := uint8(bits.TrailingZeros32(size) + 6)
		p.qa.sendMod(op, mod, signaled, 0, raddr(remote, rkey), segs, p.ma.sge(0, int(size)))
		p.acq.want(0, int(size))
		if got := p.ma.buf[:size]; !bytes.Equal(got, swapped(old)) || !bytes.Equal(p.mb.buf[32:][:size], now) {
			t.Errorf("opcode %#x of %d bytes: returned % x and left % x, want % x and % x", op, size, got,
				p.mb.buf[32:][:size], swapped(old), now)
		}
	}
	do(opMaskedFA, 4, seg(uint32(0x10001), uint32(0x8000), uint64(0)), native(uint32(0xffff)), native(uint32(0x10000)))
	do(opMaskedCS, 4, seg(uint32(9), uint32(7), uint32(0xf), uint32(0xff)), native(uint32(0x107)),
		native(uint32(0x109)))
	do(opMaskedFA, 16, seg(uint64(1), uint64(2), uint64(1)<<63, uint64(1)<<63), native(ones, uint64(5)),
		native(uint64(0), uint64(7)))
	do(opMaskedCS, 16, seg(uint64(3), uint64(4), uint64(1), uint64(2), ones, uint64(0), ones, ones),
		native(uint64(1), uint64(2)), native(uint64(3), uint64(2)))
	do(opMaskedCS, 16, seg(uint64(3), uint64(4), uint64(1), uint64(9), ones, ones, ones, ones),
		native(uint64(1), uint64(2)), native(uint64(1), uint64(2)))
	do(opMaskedFA, 32, seg(uint64(1), uint64(2), uint64(3), uint64(4), uint64(0), uint64(0), uint64(0), uint64(0)),
		native(uint64(10), uint64(20), uint64(30), uint64(40)), native(uint64(11), uint64(22), uint64(33), uint64(44)))
	p.r.clean()
	p.qa.sendMod(opMaskedFA, 10, signaled, 0, raddr(remote+8, rkey), seg(uint64(1), uint64(2), uint64(0), uint64(0)),
		p.ma.sge(0, 16))
	p.acq.wantErr(cqeReqErr, synRemoteInval)
}

// swapped returns the words of b, or its half word, in the other order of bytes.
func swapped(b []byte) []byte {
	b = bytes.Clone(b)
	for w := range slices.Chunk(b, 8) {
		slices.Reverse(w)
	}
	return b
}

// sendMod is send with a modifier of the opcode.
func (q *qp) sendMod(op, mod, flags uint8, imm uint32, segs ...[]byte) {
	at := q.post(op, flags, imm, segs...)
	q.sq[int(at)*64%len(q.sq)], q.last[0] = mod, mod
	q.ring()
}

// native returns numbers as they lie in memory.
func native(values ...any) (b []byte) {
	for _, v := range values {
		switch v := v.(type) {
		case uint32:
			b = ne.AppendUint32(b, v)
		case uint64:
			b = ne.AppendUint64(b, v)
		}
	}
	return b
}

func TestInlineWraps(t *testing.T) {
	p := newPair(t, qpOpts{sq: 16}, nil)
	remote, rkey := p.mb.at(0)
	data := make([]byte, 150) // 3 blocks: 16 is no multiple
	for i := range 40 {
		fill(data, byte(i))
		p.qa.send(opWrite, signaled, 0, raddr(remote, rkey), inlineSeg(data))
		p.acq.want(0, -1)
		if !bytes.Equal(p.mb.buf[:150], data) {
			t.Fatalf("post %d: the payload differs", i)
		}
	}
	p.r.clean()
}

func TestBatch(t *testing.T) {
	p := newPair(t, qpOpts{sq: 256, rq: 64}, nil)
	fill(p.ma.buf[:64*64], 5)
	for i := range 60 {
		p.qb.recv(p.mb.sge(64*i, 64))
		p.qa.post(opSend, 0, 0, p.ma.sge(64*i, 64))
	}
	p.qa.post(opNOP, signaled, 0)
	p.qa.ring()
	c := p.acq.want(0, -1)
	if c.wqeOp() != opNOP || c.counter() != 60 {
		t.Errorf("completion %x", c.b)
	}
	for i := range 60 {
		if c := p.bcq.want(cqeRespSend, 64); c.counter() != uint16(i) {
			t.Fatalf("receive %d completes as %d", i, c.counter())
		}
	}
	if !bytes.Equal(p.ma.buf[:60*64], p.mb.buf[:60*64]) {
		t.Error("payload")
	}
	p.r.clean()
}

func TestScatterToCQE(t *testing.T) {
	for _, size := range []int{64, 128} {
		r := newRig(t, "mlx5_0", 0)
		n := r.node(0)
		c := n.cq(16, size)
		o := qpOpts{flags: qpScatterCQE, sigAll: true}
		a, b := n.qp(c, c, o), n.qp(c, c, o)
		m := n.mr(4096, anyAccess)
		connect(defaults(), a, b)
		k := size / 2
		fill(m.buf[:k], 9)
		payload := func(v cqe) []byte {
			if size == 128 {
				return v.hi
			}
			return v.b[:32]
		}
		b.recv(m.sge(1024, 100))
		a.send(opSend, signaled, 0, m.sge(0, k))
		r.settle()
		for range 2 {
			v := c.next()
			if v.opcode() == cqeRespSend && (!bytes.Equal(payload(v), m.buf[:k]) || v.bytes() != uint32(k) ||
				v.format() != uint8(size/64)) {
				t.Errorf("CQE of %d bytes: %x %x", size, v.hi, v.b)
			}
		}
		remote, rkey := m.at(0)
		a.send(opRead, signaled, 0, raddr(remote, rkey), m.sge(2048, k))
		if v := c.want(0, k); !bytes.Equal(payload(v), m.buf[:k]) || v.format() != uint8(size/64) {
			t.Errorf("read into a CQE of %d bytes: %x %x", size, v.hi, v.b)
		}
		a.send(opRead, signaled, 0, raddr(remote, rkey), m.sge(2048, k+1))
		if v := c.want(0, k+1); v.format() != 0 || !bytes.Equal(m.buf[2048:2048+k+1], m.buf[:k+1]) {
			t.Errorf("read past a CQE: %x", v.b)
		}
		if m.buf[1024] != 0 {
			t.Error("a payload in a CQE was written to memory too")
		}
		r.clean()
	}
}

func TestRemoteErrors(t *testing.T) {
	type bad struct {
		name   string
		change func(*attrs)
		post   func(*pair)
		syn    uint8
		event  hca.EventType
	}
	remote := func(p *pair, off int) []byte { a, k := p.mb.at(off); return raddr(a, k) }
	for _, c := range []bad{
		{"rkey", nil, func(p *pair) { a, k := p.mb.at(0); p.qa.send(opWrite, 0, 0, raddr(a, k+1), p.ma.sge(0, 8)) },
			synRemoteAccess, hca.EventQPAccessErr},
		{"range", nil, func(p *pair) { p.qa.send(opWrite, 0, 0, remote(p, 1<<20-4), p.ma.sge(0, 8)) }, synRemoteAccess,
			hca.EventQPAccessErr},
		{"rights", nil, func(p *pair) {
			m := p.b.mr(4096, hca.AccessLocalWrite)
			a, k := m.at(0)
			p.qa.send(opRead, 0, 0, raddr(a, k), p.ma.sge(0, 8))
		}, synRemoteAccess, hca.EventQPAccessErr},
		{"domain", nil, func(p *pair) {
			pd, _ := hca.AllocPD(p.b.ctx)
			p.b.pd = pd
			m := p.b.mr(4096, anyAccess)
			a, k := m.at(0)
			p.qa.send(opWrite, 0, 0, raddr(a, k), p.ma.sge(0, 8))
		}, synRemoteAccess, hca.EventQPAccessErr},
		{"queue pair's rights", func(a *attrs) { a.access = hca.AccessRemoteRead },
			func(p *pair) { p.qa.send(opWrite, 0, 0, remote(p, 0), p.ma.sge(0, 8)) },
			synRemoteInval, hca.EventQPReqErr},
		{"local key", nil, func(p *pair) {
			p.qa.send(opWrite, 0, 0, remote(p, 0), sgeSeg(p.ma.key.Key+1, va(p.ma.buf), 8))
		}, synLocalProt, 0},
		{"local range", nil, func(p *pair) { p.qa.send(opWrite, 0, 0, remote(p, 0), p.ma.sge(1<<20-4, 8)) },
			synLocalProt, 0},
		{"local rights", nil, func(p *pair) {
			m := p.a.mr(4096, hca.AccessRemoteRead)
			p.qa.send(opRead, 0, 0, remote(p, 0), m.sge(0, 8))
		}, synLocalProt, 0},
		{"no answer", nil, func(p *pair) {
			p.qb.modify(&hca.QPAttr{}, 0, hca.Reset)
			p.qa.send(opWrite, 0, 0, remote(p, 0), p.ma.sge(0, 8))
		}, synRetry, 0},
		{"wrong sequence number", func(a *attrs) { a.peerPSN++ },
			func(p *pair) { p.qa.send(opWrite, 0, 0, remote(p, 0), p.ma.sge(0, 8)) }, synRetry, 0},
		{"port down", nil, func(p *pair) {
			p.r.f.Devices[0].Ports[0].SetLink(false)
			p.qa.send(opWrite, 0, 0, remote(p, 0), p.ma.sge(0, 8))
		}, synRetry, 0},
		{"receiver not ready", nil, func(p *pair) { p.qa.send(opSend, 0, 0, p.ma.sge(0, 8)) }, synRNR, 0},
		{"opcode", nil, func(p *pair) { p.qa.send(opSetPSV, 0, 0, p.ma.sge(0, 16)) }, synLocalQPOp, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, qpOpts{}, c.change)
			p.qa.recv(p.ma.sge(0, 64))
			c.post(p)
			p.qa.send(opNOP, 0, 0) // to be flushed, though it is not signaled
			v := p.acq.wantErr(cqeReqErr, c.syn)
			if v.b[54] != vendorSyndrome[c.syn] || v.uidx() != p.qa.q.UIdx || v.counter() != 0 {
				t.Errorf("completion %x", v.b)
			}
			if v := p.acq.wantErr(cqeReqErr, synFlush); v.counter() != 1 {
				t.Errorf("flushed %d", v.counter())
			}
			p.acq.wantErr(cqeRespErr, synFlush)
			p.acq.none()
			if p.qa.q.State != hca.Err {
				t.Errorf("the requester is in %v", p.qa.q.State)
			}
			if c.event != 0 && (p.r.event(c.event) != 1 || p.qb.q.State != hca.Err) {
				t.Errorf("events %v, the responder is in %v", p.r.events, p.qb.q.State)
			}
			// What is posted later is flushed as well.
			p.qa.send(opSend, 0, 0, p.ma.sge(0, 8))
			p.acq.wantErr(cqeReqErr, synFlush)
			p.qa.recv(p.ma.sge(0, 64))
			p.acq.wantErr(cqeRespErr, synFlush)
			p.r.clean()
		})
	}
}

func TestReceiveErrors(t *testing.T) {
	for _, c := range []struct {
		name     string
		recv     func(p *pair)
		own, nak uint8
	}{
		{"length", func(p *pair) { p.qb.recv(p.mb.sge(0, 7)) }, synLocalLength, synRemoteInval},
		{"protection", func(p *pair) { p.qb.recv(sgeSeg(1, va(p.mb.buf), 64)) }, synLocalProt, synRemoteOp},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, qpOpts{}, nil)
			c.recv(p)
			p.qb.recv(p.mb.sge(0, 64))
			p.qa.send(opSend, signaled, 0, p.ma.sge(0, 8))
			p.acq.wantErr(cqeReqErr, c.nak)
			p.bcq.wantErr(cqeRespErr, c.own)
			p.bcq.wantErr(cqeRespErr, synFlush)
			p.r.clean()
		})
	}
}

func TestRNRRetry(t *testing.T) {
	p := newPair(t, qpOpts{}, func(a *attrs) { a.rnr = 7 })
	p.qa.send(opSend, signaled, 0, p.ma.sge(0, 8))
	p.acq.none()
	p.qb.recv(p.mb.sge(0, 64))
	p.acq.want(0, -1)
	p.bcq.want(cqeRespSend, 8)
	p.r.clean()
}

func TestFlushOnModify(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	for range 3 {
		p.qa.recv(p.ma.sge(0, 64))
	}
	p.qa.modify(&hca.QPAttr{}, 0, hca.Err)
	for i := range 3 {
		if v := p.acq.wantErr(cqeRespErr, synFlush); v.counter() != uint16(i) {
			t.Errorf("receive %d flushed as %d", i, v.counter())
		}
	}
	p.acq.none()
	p.r.clean()
}

func TestMemoryGone(t *testing.T) {
	for _, side := range []string{"local", "remote"} {
		p := newPair(t, qpOpts{}, nil)
		m := p.ma
		if side == "remote" {
			m = p.mb
		}
		// Two good WQEs go before the bad one in the same batch.
		a, k := p.mb.at(0)
		for i := range 2 {
			p.qa.post(opWrite, signaled, 0, raddr(a+uint64(i), k), p.ma.sge(0, 1))
		}
		p.qa.post(opWrite, signaled, 0, raddr(a+8192, k), p.ma.sge(8192, 64))
		p.qa.ring()
		protect(t, m.buf[8192:12288])
		p.acq.want(0, -1)
		p.acq.want(0, -1)
		if side == "local" {
			p.acq.wantErr(cqeReqErr, synLocalProt)
		} else {
			p.acq.wantErr(cqeReqErr, synRemoteAccess)
		}
		if !p.r.violated(RuleMRUnmapped) {
			t.Error("not noticed")
		}
	}
}

func TestCommEst(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	n := r.node(0)
	c := n.cq(16, 64)
	a, b := n.qp(c, c, qpOpts{}), n.qp(c, c, qpOpts{})
	x := defaults()
	a.up(x, b)
	b.init(x)
	b.rtr(x, a.q)
	m := n.mr(4096, anyAccess)
	for range 2 {
		b.recv(m.sge(0, 64))
		a.send(opSend, signaled, 0, m.sge(64, 8))
		c.next()
		c.next()
	}
	if r.event(hca.EventCommEst) != 1 {
		t.Errorf("events %v", r.events)
	}
	r.clean()
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
	p.r.f.Devices[0].Ports[0].SetLink(false)
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
	p.r.f.Devices[0].Ports[0].SetLink(false)
	addr, key = p.mb.at(0)
	p.qa.send(opWrite, signaled, 0, raddr(addr, key), p.ma.sge(0, 8))
	p.acq.none()
	p.r.f.Devices[0].Ports[0].SetLink(true)
	p.acq.want(0, -1)
	p.r.clean()
}

// TestReadResources posts more READs and atomics than the responder has resources for. An adapter sends as many as its
// own limit admits before the first answer comes, and gets a NAK for an invalid request.
func TestReadResources(t *testing.T) {
	const fence = 4 << 5
	for _, c := range []struct {
		name      string
		own, most uint8
		posts     int
		flags     uint8 // of each post
		apart     bool  // each is answered before the next is posted
		ok        int
	}{
		{"as many", 4, 4, 8, signaled, false, 8},
		{"own limit is smaller", 1, 2, 8, signaled, false, 8},
		{"more", 4, 2, 4, signaled, false, 2},
		{"more, unsignaled", 4, 2, 4, 0, false, 2},
		{"none", 4, 0, 1, signaled, false, 0},
		{"one after the other", 4, 1, 4, signaled, true, 4},
		{"fenced", 4, 1, 4, signaled | fence, false, 4},
	} {
		for _, op := range []uint8{opRead, opAtomicFA} {
			p := newPair(t, qpOpts{}, nil)
			p.qa.q.Attr.MaxRdAtomic, p.qb.q.Attr.MaxDestRdAtomic = c.own, c.most
			remote, rkey := p.mb.at(0)
			for range c.posts {
				segs := [][]byte{raddr(remote, rkey)}
				if op == opAtomicFA {
					segs = append(segs, seg(uint64(1), uint64(0)))
				}
				p.qa.post(op, c.flags, 0, append(segs, p.ma.sge(0, 8))...)
				if c.apart {
					p.qa.ring()
					p.r.settle()
				}
			}
			if !c.apart {
				p.qa.ring()
			}
			if c.flags&signaled != 0 {
				for range c.ok {
					p.acq.want(0, 8)
				}
			}
			if c.ok == c.posts {
				p.acq.none()
				p.r.clean()
				continue
			}
			if v := p.acq.wantErr(cqeReqErr, synRemoteInval); v.counter() != uint16(c.ok) {
				t.Errorf("%s: %d ended with the error, want %d", c.name, v.counter(), c.ok)
			}
			if p.qb.q.State != hca.Err || p.r.event(hca.EventQPReqErr) != 1 ||
				p.r.violated(RuleRdAtomic) != (c.most > 0) {
				t.Errorf("%s: the responder is in %v, events %v, violations %v", c.name, p.qb.q.State, p.r.events,
					p.r.broken)
			}
		}
	}
}
