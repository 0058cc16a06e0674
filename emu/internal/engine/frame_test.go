//go:build linux

package engine

import (
	"bytes"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// frameRig is a raw packet QP on each of two devices. That of the second one gets what is sent to its port.
type frameRig struct {
	*rig
	a, b     *node
	qa, qb   *qp
	acq, bcq *cq
	ma, mb   *mr
}

func newFrameRig(t *testing.T, devices string, flags uint32) *frameRig {
	r := &frameRig{rig: newRigDevices(t, devices)}
	r.a, r.b = r.node(0), r.node(1)
	r.acq, r.bcq = r.a.cq(64, 64), r.b.cq(64, 64)
	r.qa, r.qb = r.rawQP(r.a, r.acq, flags), r.rawQP(r.b, r.bcq, 0)
	r.ma, r.mb = r.a.mr(1<<19, anyAccess), r.b.mr(1<<16, anyAccess)
	r.rule(r.qb, hca.FlowInit{Matches: []hca.FlowMatch{r.to(1)}})
	return r
}

// rawOf is a raw packet QP beside those of a pair.
func rawOf(p *pair) *qp { return (&frameRig{rig: p.r}).rawQP(p.a, p.acq, 0) }

func (r *frameRig) rawQP(n *node, c *cq, flags uint32) *qp {
	q := n.qp(c, c, qpOpts{typ: hca.RawPacket, flags: flags})
	q.modify(&hca.QPAttr{Port: 1}, hca.AttrPort, hca.Init)
	q.modify(&hca.QPAttr{}, 0, hca.RTR)
	q.modify(&hca.QPAttr{}, 0, hca.RTS)
	return q
}

func (r *frameRig) rule(to *qp, i hca.FlowInit) *hca.Flow {
	r.t.Helper()
	i.QP, i.Port = to.q.Handle, 1
	f, e := hca.CreateFlow(to.n.ctx, &i)
	return try(r.rig, f, e)
}

// to is the match of an Ethernet address: that of a device's port.
func (r *frameRig) to(dev int) hca.FlowMatch {
	m := hca.FlowMatch{Spec: hca.SpecEth, Value: make([]byte, 16), Mask: make([]byte, 16)}
	mac := r.f.Devices[dev].Ports[0].Config.MAC
	copy(m.Value, mac[:])
	copy(m.Mask, bytes.Repeat([]byte{255}, 6))
	return m
}

// frame is from the first device to the second, n bytes with the header.
func (r *frameRig) frame(n int) []byte {
	f := make([]byte, n)
	fill(f, 7)
	to, from := r.f.Devices[1].Ports[0].Config.MAC, r.f.Devices[0].Ports[0].Config.MAC
	copy(f, to[:])
	copy(f[6:], from[:])
	f[12], f[13] = 0x88, 0xb5
	return f
}

// ethSeg is an Ethernet segment with a header of the frame in it.
func ethSeg(cs byte, mss uint16, header []byte) []byte {
	b := seg(uint32(0), cs, byte(0), mss, uint32(0), uint16(len(header)), header)
	for len(b)%16 != 0 {
		b = append(b, 0)
	}
	return b
}

func (r *frameRig) send(segs ...[]byte) {
	r.qa.send(opSend, signaled, 0, segs...)
	r.acq.want(0, -1)
}

// got returns the next frame that came, and its completion.
func (r *frameRig) got() ([]byte, cqe) {
	r.t.Helper()
	v := r.bcq.next()
	if v.opcode() != cqeRespSend {
		r.t.Fatalf("completion %x", v.b)
	}
	return r.mb.buf[:v.bytes()], v
}

func TestFrame(t *testing.T) {
	r := newFrameRig(t, "mlx5_0 mlx5_1", 0)
	f := r.frame(300)
	copy(r.ma.buf, f)
	tag := []byte{0x81, 0, 0x60, 5}
	tagged := slices.Concat(f[:12], tag, f[12:])
	for _, c := range []struct {
		name string
		segs [][]byte
		want []byte
	}{
		{"no header", [][]byte{ethSeg(0, 0, nil), r.ma.sge(0, 300)}, f},
		{"a header of 2", [][]byte{ethSeg(0, 0, f[:2]), r.ma.sge(2, 298)}, f},
		{"a header of 18", [][]byte{ethSeg(0, 0, f[:18]), r.ma.sge(18, 282)}, f},
		{"a header of 34, inline data", [][]byte{ethSeg(0, 0, f[:34]), inlineSeg(f[34:100]), r.ma.sge(100, 200)}, f},
		{"a tag", [][]byte{seg(uint64(0), uint32(0), uint16(1<<15), tag[2:]), r.ma.sge(0, 300)}, tagged},
	} {
		r.qb.recv(r.mb.sge(0, 2000))
		r.send(c.segs...)
		got, v := r.got()
		if !bytes.Equal(got, c.want) || v.b[28] != cqeL2OK || v.b[29] != 0 || v.qpn() != 0 || v.uidx() != r.qb.q.UIdx {
			t.Errorf("%s: %x\n%x", c.name, got, v.b)
		}
	}
	// Without a receive it is lost.
	r.send(ethSeg(0, 0, nil), r.ma.sge(0, 300))
	r.bcq.none()
	if n := r.f.Devices[1].Ports[0].Count[hca.OutOfBuffer]; n != 1 {
		t.Errorf("out_of_buffer is %d", n)
	}
	r.clean()
}

// What the completion says of a frame's headers.
func TestFrameHeaders(t *testing.T) {
	r := newFrameRig(t, "mlx5_0 mlx5_1", 0)
	l4 := func(n int) []byte { return make([]byte, n) }
	v4 := func(proto byte, frag uint16, l4 []byte) []byte {
		return append(seg(uint16(0x0800), byte(0x45), byte(0), uint16(20+len(l4)), uint16(1), frag, byte(64), proto,
			uint16(0),
			uint32(0x0a000001), uint32(0x0a000002)), l4...)
	}
	v6 := func(next byte, l4 []byte) []byte {
		return append(seg(uint16(0x86dd), uint32(6<<28), uint16(len(l4)), next, byte(64), uint64(1), uint64(2),
			uint64(3),
			uint64(4)), l4...)
	}
	tcp := l4(30)
	tcp[12] = 5 << 4
	ack := l4(20)
	ack[12] = 5 << 4
	options := append([]byte{17, 0, 0, 0, 0, 0, 0, 0}, l4(12)...) // of IPv6, UDP behind them
	const good = cqeL2OK | cqeL3OK
	for _, c := range []struct {
		name   string
		data   []byte
		flags  byte // with checksums computed
		types  byte
		broken byte // flags without
	}{
		{"TCP", v4(6, 0, tcp), good | cqeL4OK, cqeIPv4 | cqeTCP, cqeL2OK},
		{"an acknowledgement", v4(6, 0, ack), good | cqeL4OK, cqeIPv4 | cqeTCPNoData, cqeL2OK},
		{"UDP without a checksum", v4(17, 0, l4(12)), good | cqeL4OK, cqeIPv4 | cqeUDP, cqeL2OK | cqeL4OK},
		{"a fragment", v4(17, 0x2000, l4(12)), good, cqeIPv4, cqeL2OK},
		{"ICMP", v4(1, 0, l4(8)), good, cqeIPv4, cqeL2OK},
		{"TCP over IPv6", v6(6, tcp), good | cqeL4OK, cqeIPv6 | cqeTCP, good},
		{"UDP behind options", v6(60, options), good | cqeL4OK, cqeIPv6 | cqeUDP, good},
		{"a header cut off, and padded", v4(6, 0, tcp)[:12], cqeL2OK, cqeIPv4, cqeL2OK},
		{"IPv4 that says more than there is", v4(6, 0, tcp)[:30], good, cqeIPv4, cqeL2OK},
		{"no IP", l4(40), cqeL2OK, 0, cqeL2OK},
	} {
		f := append(r.frame(14)[:12], c.data...)
		copy(r.ma.buf, f)
		for _, cs := range []byte{0, ethL3Csum | ethL4Csum} {
			r.qb.recv(r.mb.sge(0, 2000))
			r.send(ethSeg(cs, 0, nil), r.ma.sge(0, len(f)))
			_, v := r.got()
			want := c.flags
			if cs == 0 {
				want = c.broken
			}
			if v.b[28] != want || v.b[29] != c.types {
				t.Errorf("%s, cs %#x: flags %#x, types %#x, want %#x, %#x", c.name, cs, v.b[28], v.b[29], want, c.types)
			}
		}
	}
	r.clean()
}

// What strict mode says, and how the WQE ends: with an error, or on its way.
func TestFrameRules(t *testing.T) {
	for _, c := range []struct {
		name, devices string
		op            uint8
		segs          func(r *frameRig) [][]byte
		rule          string
		syndrome      uint8 // 0: it succeeds
		arrives       bool
	}{
		{"unknown checksums", "mlx5_0 mlx5_1", opSend, func(r *frameRig) [][]byte {
			return [][]byte{ethSeg(ethL3Csum|1, 0, nil), r.ma.sge(0, 100)}
		}, RuleEthSegment, 0, true},
		{"metadata", "mlx5_0 mlx5_1", opSend, func(r *frameRig) [][]byte {
			return [][]byte{seg(uint64(0), uint32(1), uint32(0)), r.ma.sge(0, 100)}
		}, RuleEthSegment, 0, true},
		{"shorter than a header", "mlx5_0 mlx5_1", opSend, func(r *frameRig) [][]byte {
			return [][]byte{ethSeg(0, 0, nil), r.ma.sge(0, 13)}
		}, RuleFrameSize, synLocalQPOp, false},
		{"longer than the port", "mlx5_0 mlx5_1", opSend, func(r *frameRig) [][]byte {
			return [][]byte{ethSeg(0, 0, nil), r.ma.sge(0, 1519)}
		}, RuleFrameSize, 0, false},
		{"longer with its tag", "mlx5_0 mlx5_1", opSend, func(r *frameRig) [][]byte {
			return [][]byte{seg(uint64(0), uint32(0), uint32(1<<31|5)), r.ma.sge(0, 1517)}
		}, RuleFrameSize, 0, false},
		{"nothing inline", "mlx5_0,min_inline=18 mlx5_1", opSend, func(r *frameRig) [][]byte {
			return [][]byte{ethSeg(0, 0, nil), r.ma.sge(0, 100)}
		}, RuleEthInline, synLocalQPOp, false},
		{"a header beyond the WQE", "mlx5_0 mlx5_1", opSend, func(r *frameRig) [][]byte {
			return [][]byte{seg(uint64(0), uint32(0), uint32(100<<16))}
		}, RuleWQEFormat, synLocalQPOp, false},
		{"half a segment", "mlx5_0 mlx5_1", opSend, func(r *frameRig) [][]byte { return nil }, RuleWQEFormat,
			synLocalQPOp, false},
		{"a write", "mlx5_0 mlx5_1", opWrite, func(r *frameRig) [][]byte {
			return [][]byte{raddr(0, 0), r.ma.sge(0, 100)}
		}, RuleWQEOpcode, synLocalQPOp, false},
		{"TSO without MSS", "mlx5_0 mlx5_1", opTSO, func(r *frameRig) [][]byte {
			return [][]byte{ethSeg(0, 0, r.frame(54)), r.ma.sge(0, 100)}
		}, RuleEthSegment, synLocalQPOp, false},
		{"TSO of something else", "mlx5_0 mlx5_1", opTSO, func(r *frameRig) [][]byte {
			return [][]byte{ethSeg(0, 10, r.frame(54)), r.ma.sge(0, 100)}
		}, RuleEthSegment, synLocalQPOp, false},
		{"too much TSO", "mlx5_0 mlx5_1", opTSO, func(r *frameRig) [][]byte {
			return [][]byte{ethSeg(0, 10, r.frame(54)), r.ma.sge(0, hca.MaxTSO+1)}
		}, "", synLocalLength, false},
		{"memory that is not registered", "mlx5_0 mlx5_1", opSend, func(r *frameRig) [][]byte {
			return [][]byte{ethSeg(0, 0, nil), sgeSeg(0x4711, 0, 100)}
		}, "", synLocalProt, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFrameRig(t, c.devices, 0)
			copy(r.ma.buf, r.frame(1600))
			r.qb.recv(r.mb.sge(0, 2000))
			r.qa.send(c.op, signaled, 0, c.segs(r)...)
			if c.syndrome != 0 {
				r.acq.wantErr(cqeReqErr, c.syndrome)
				if r.qa.q.State != hca.SQE {
					t.Errorf("the QP is in %v", r.qa.q.State)
				}
			} else {
				r.acq.want(0, -1)
			}
			if c.arrives {
				r.got()
			}
			r.bcq.none()
			if c.rule != "" && !r.violated(c.rule) || c.rule == "" && len(r.broken) > 0 {
				t.Errorf("violations %v, want %q", r.broken, c.rule)
			}
		})
	}
}

// A receive that cannot take a frame ends with an error, and the QP with it.
func TestFrameBadReceive(t *testing.T) {
	for name, c := range map[string]struct {
		size     int
		lkey     uint32
		syndrome uint8
	}{"too short": {99, 0, synLocalLength}, "no memory": {2000, 0x4711, synLocalProt}} {
		t.Run(name, func(t *testing.T) {
			r := newFrameRig(t, "mlx5_0 mlx5_1", 0)
			copy(r.ma.buf, r.frame(100))
			s := r.mb.sge(0, c.size)
			if c.lkey != 0 {
				s = sgeSeg(c.lkey, 0, uint32(c.size))
			}
			r.qb.recv(s)
			r.send(ethSeg(0, 0, nil), r.ma.sge(0, 100))
			r.bcq.wantErr(cqeRespErr, c.syndrome)
			if r.qb.q.State != hca.Err {
				t.Errorf("the QP is in %v", r.qb.q.State)
			}
		})
	}
}

// A QP gets frames of its own device only if it was made so.
func TestFrameToSelf(t *testing.T) {
	for _, flags := range []uint32{0, hca.SelfUnicast, hca.SelfMulticast} {
		r := newFrameRig(t, "mlx5_0 mlx5_1", flags)
		r.rule(r.qa, hca.FlowInit{Type: hca.FlowAllDefault})
		rcv := func() { r.qa.recv(r.ma.sge(4096, 2000)) }
		f := r.frame(100)
		own := r.f.Devices[0].Ports[0].Config.MAC
		for _, c := range []struct {
			to   []byte
			flag uint32
		}{{own[:], hca.SelfUnicast}, {bytes.Repeat([]byte{255}, 6), hca.SelfMulticast}} {
			copy(f, c.to)
			copy(r.ma.buf, f)
			rcv()
			r.qa.send(opSend, signaled, 0, ethSeg(0, 0, nil), r.ma.sge(0, 100))
			if flags&c.flag != 0 {
				r.acq.want(cqeRespSend, 100)
			}
			r.acq.want(0, -1)
			r.acq.none()
		}
	}
}

// A frame to the sender's own port comes to QPs of another context without a flag: two contexts are two transport
// domains, for which Linux enables the port's local loopback (mlx5_ib_enable_lb).
func TestFrameToOtherContext(t *testing.T) {
	r := newFrameRig(t, "mlx5_0 mlx5_1", 0)
	n := r.node(0)
	c, m := n.cq(64, 64), n.mr(4096, anyAccess)
	q := r.rawQP(n, c, 0)
	r.rule(q, hca.FlowInit{Type: hca.FlowAllDefault})
	own := r.f.Devices[0].Ports[0].Config.MAC
	for _, to := range [][]byte{own[:], bytes.Repeat([]byte{255}, 6), {1, 0x50, 0x56, 0x19, 0x20, 0xa7}} {
		copy(r.ma.buf, r.frame(100))
		copy(r.ma.buf, to)
		q.recv(m.sge(0, 2000))
		r.qa.send(opSend, signaled, 0, ethSeg(0, 0, nil), r.ma.sge(0, 100))
		c.want(cqeRespSend, 100)
		if !bytes.Equal(m.buf[:100], r.ma.buf[:100]) {
			t.Errorf("%x: the frame is %x", to, m.buf[:100])
		}
		r.acq.want(0, -1)
	}
	r.clean()
}

// A port that is down sends nothing and gets nothing; injected faults of WQEs end them.
func TestFrameFaults(t *testing.T) {
	r := newFrameRig(t, "mlx5_0 mlx5_1", 0)
	copy(r.ma.buf, r.frame(100))
	segs := [][]byte{ethSeg(0, 0, nil), r.ma.sge(0, 100)}
	for dev := range 2 {
		r.qb.recv(r.mb.sge(0, 2000))
		p := r.f.Devices[dev].Ports[0]
		p.Active = false
		r.send(segs...)
		r.bcq.none()
		p.Active = true
	}
	r.e.Hooks.AtWQE = func(*hca.QP, uint8, uint64) fault.Kind { return fault.BitFlip }
	r.send(segs...)
	if got, _ := r.got(); got[99] != r.ma.buf[99]^1 {
		t.Errorf("no bit of %x is flipped", got)
	}
	r.e.Hooks.AtWQE = func(*hca.QP, uint8, uint64) fault.Kind { return fault.RNR } // nobody acknowledges a frame
	r.send(segs...)
	r.got()
	r.e.Hooks.AtWQE = func(*hca.QP, uint8, uint64) fault.Kind { return fault.Flush }
	r.qa.send(opSend, signaled, 0, segs...)
	r.acq.wantErr(cqeReqErr, synFlush)
	r.bcq.none()
	r.clean()
}

// Headers of any bytes are parsed without a panic, and every field lies in the frame.
func FuzzHeaders(f *testing.F) {
	for _, kind := range []uint16{0x0800, 0x86dd, 0x8100, 0x8847} {
		f.Add(append(make([]byte, 12), seg(kind, byte(0x45), make([]byte, 60))...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < etherHeader {
			return
		}
		var h headers
		h.parse(b)
		for _, s := range []uint32{hca.SpecEth, hca.SpecIPv4, hca.SpecIPv6, hca.SpecESP, hca.SpecTCP, hca.SpecUDP,
			hca.SpecVXLAN, hca.SpecGRE, hca.SpecMPLS} {
			h.fields(s)
			h.fields(s | hca.SpecInner)
		}
		h.outer.good(b)
		h.outer.fill(b, true, true)
	})
}
