//go:build linux

package engine

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

const dcKey = 0x1122334455667788

// dct makes a DCT that receives from s, in RTR.
func (n *node) dct(c *cq, s *srq, x attrs) *qp {
	q := n.qp(nil, c, qpOpts{typ: hca.DCT, srq: s, dc: hca.DC{AccessKey: dcKey}})
	q.init(x)
	q.modify(&hca.QPAttr{AH: n.addr(n.ctx.Device.Ports[0], x.sgid), PathMTU: x.mtu, MinRNRTimer: x.rnrT},
		hca.AttrAV|hca.AttrPathMTU|hca.AttrMinRNRTimer, hca.RTR)
	return q
}

// dci makes a DCI in RTS.
func (n *node) dci(c *cq, x attrs, o qpOpts) *qp {
	o.typ = hca.DCI
	q := n.qp(c, c, o)
	q.modify(&hca.QPAttr{Port: 1}, hca.AttrPKeyIndex|hca.AttrPort, hca.Init)
	q.modify(&hca.QPAttr{PathMTU: x.mtu}, hca.AttrPathMTU, hca.RTR)
	q.modify(&hca.QPAttr{SQPSN: x.psn, Timeout: x.timeout, RetryCnt: x.retry, RNRRetry: x.rnr, MaxRdAtomic: x.rd},
		hca.AttrSQPSN|hca.AttrTimeout|hca.AttrRetryCnt|hca.AttrRNRRetry|hca.AttrMaxRdAtomic, hca.RTS)
	return q
}

// dcAV is the segment that names a DCT.
func (n *node) dcAV(to *qp, key uint64, sgid uint8) []byte {
	av := n.av(to.q, 0, sgid, nil)
	be.PutUint64(av, key)
	return av
}

// dcRig is a DCI of one node, and of another DCTs with one SRQ.
type dcRig struct {
	*rig
	a, b   *node
	ac, bc *cq
	s      *srq
	i      *qp
	ts     [2]*qp
	ma, mb *mr
}

func newDC(t *testing.T, change func(*attrs), o qpOpts) *dcRig {
	r := &dcRig{rig: newRig(t, "mlx5_0", 0)}
	x := defaults()
	x.sgid = 3
	if change != nil {
		change(&x)
	}
	r.a, r.b = r.node(0), r.node(0)
	r.ac, r.bc = r.a.cq(64, 64), r.b.cq(64, 64)
	r.s = r.b.srq(16, 0, nil)
	r.i = r.a.dci(r.ac, x, o)
	for k := range r.ts {
		r.ts[k] = r.b.dct(r.bc, r.s, x)
	}
	r.ma, r.mb = r.a.mr(8192, anyAccess), r.b.mr(8192, anyAccess)
	fill(r.ma.buf[:500], 2)
	return r
}

func (r *dcRig) to(k int) []byte { return r.a.dcAV(r.ts[k], dcKey, 3) }

// Each request of a DCI names its DCT; receives complete with the DCT's number and user index.
func TestDC(t *testing.T) {
	r := newDC(t, nil, qpOpts{})
	if r.ts[0].q.Num == r.ts[1].q.Num || r.ts[0].q.Num == 0 {
		t.Fatalf("numbers of the DCTs: %#x, %#x", r.ts[0].q.Num, r.ts[1].q.Num)
	}
	for n := range 6 {
		k := n % 2
		rcv := r.s.recv(r.mb.sge(4096, 600))
		r.i.send(opSendImm, signaled, uint32(n), r.to(k), r.ma.sge(0, 500))
		r.ac.want(cqeReq, -1)
		v := r.bc.want(cqeRespSendImm, 500)
		if v.imm() != uint32(n) || v.qpn() != r.ts[k].q.Num || v.uidx() != r.ts[k].q.UIdx ||
			v.counter() != uint16(rcv) ||
			be.Uint32(v.b[24:])&0xffffff != r.i.q.Num || !bytes.Equal(r.ma.buf[:500], r.mb.buf[4096:4596]) {
			t.Errorf("message %d: completion %x", n, v.b)
		}
		clear(r.mb.buf)
		r.s.free(rcv)
	}
	addr, key := r.mb.at(100)
	r.i.post(opWrite, 0, 0, r.to(0), raddr(addr, key), r.ma.sge(0, 500))
	r.i.post(opRead, signaled, 0, r.to(1), raddr(addr, key), r.ma.sge(1000, 500))
	r.i.post(opAtomicFA, signaled, 0, r.to(0), raddr(addr+4, key), seg(uint64(5), uint64(0)), r.ma.sge(2000, 8))
	r.i.ring()
	r.ac.want(cqeReq, 500)
	r.ac.want(cqeReq, 8)
	if !bytes.Equal(r.ma.buf[1000:1500], r.ma.buf[:500]) || !bytes.Equal(r.ma.buf[2000:2008], r.ma.buf[4:12]) {
		t.Error("the read or the atomic brought something else")
	}
	if r.event(hca.EventCommEst) != 0 {
		t.Error("a DCT told of a connection")
	}
	r.clean()
}

// Nothing answers at a number that is no DCT's, with a wrong key or on another port; the DCT does not notice.
func TestDCNoAnswer(t *testing.T) {
	for name, av := range map[string]func(*dcRig) []byte{
		"wrong key":   func(r *dcRig) []byte { return r.a.dcAV(r.ts[0], dcKey+1, 3) },
		"no DCT":      func(r *dcRig) []byte { return r.a.dcAV(r.i, dcKey, 3) },
		"no QP":       func(r *dcRig) []byte { return append(seg(uint64(dcKey), uint32(0xfffff0)), r.to(0)[12:]...) },
		"other port":  func(r *dcRig) []byte { return append(r.to(0)[:32:32], make([]byte, 16)...) },
		"other RoCE":  func(r *dcRig) []byte { return r.a.dcAV(r.ts[0], dcKey, 2) },
		"wrong P_Key": func(r *dcRig) []byte { r.ts[0].q.Attr.PKeyIndex = 7; return r.to(0) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newDC(t, func(x *attrs) { x.timeout, x.retry = 1, 1 }, qpOpts{})
			r.s.recv(r.mb.sge(0, 600))
			r.i.send(opSend, signaled, 0, av(r), r.ma.sge(0, 500))
			r.ac.wantErr(cqeReqErr, synRetry)
			if r.i.q.State != hca.Err || r.ts[0].q.State != hca.RTR {
				t.Errorf("DCI in %v, DCT in %v", r.i.q.State, r.ts[0].q.State)
			}
			r.bc.none()
		})
	}
}

// A refused request breaks the DCI alone.
func TestDCRefused(t *testing.T) {
	for name, c := range map[string]struct {
		access hca.Access
		key    uint32
		syn    uint8
	}{
		"key":    {anyAccess &^ hca.AccessMWBind, 1, synRemoteAccess},
		"access": {hca.AccessRemoteRead, 0, synRemoteInval},
	} {
		t.Run(name, func(t *testing.T) {
			r := newDC(t, func(x *attrs) { x.access = c.access }, qpOpts{})
			addr, key := r.mb.at(0)
			r.i.send(opWrite, signaled, 0, r.to(0), raddr(addr, key^c.key), r.ma.sge(0, 500))
			r.ac.wantErr(cqeReqErr, c.syn)
			if r.i.q.State != hca.Err || r.ts[0].q.State != hca.RTR || len(r.events) != 0 {
				t.Errorf("DCI in %v, DCT in %v, events %v", r.i.q.State, r.ts[0].q.State, r.events)
			}
		})
	}
	t.Run("receive too short", func(t *testing.T) {
		r := newDC(t, nil, qpOpts{})
		r.s.recv(r.mb.sge(0, 10))
		r.i.send(opSend, signaled, 0, r.to(0), r.ma.sge(0, 500))
		r.ac.wantErr(cqeReqErr, synRemoteInval)
		r.bc.wantErr(cqeRespErr, synLocalLength)
		if r.ts[0].q.State != hca.RTR {
			t.Errorf("DCT in %v", r.ts[0].q.State)
		}
	})
	t.Run("RNR", func(t *testing.T) {
		r := newDC(t, func(x *attrs) { x.rnr = 1 }, qpOpts{})
		r.i.send(opSend, signaled, 0, r.to(0), r.ma.sge(0, 500))
		r.ac.wantErr(cqeReqErr, synRNR)
	})
	t.Run("destroyed DCT", func(t *testing.T) {
		r := newDC(t, func(x *attrs) { x.timeout, x.retry = 1, 1 }, qpOpts{})
		to := r.to(0)
		if e := hca.Destroy[hca.AnyQP](r.b.ctx, r.ts[0].q.Handle); e != 0 {
			t.Fatal(e)
		}
		r.i.send(opSend, signaled, 0, to, r.ma.sge(0, 500))
		r.ac.wantErr(cqeReqErr, synRetry)
	})
}

// An error stops its stream; the DCI breaks with as many as it was made for, and on a malformed WQE.
func TestDCIStreams(t *testing.T) {
	o := qpOpts{dc: hca.DC{HasStreams: true, Streams: 2, ErroredStreams: 1}}
	post := func(r *dcRig, stream uint16, op uint8, rkey uint32) {
		addr, key := r.mb.at(0)
		at := r.i.post(op, signaled, 0, r.to(int(stream)&1), raddr(addr, key^rkey), r.ma.sge(0, 500))
		be.PutUint16(r.i.sq[int(at)*64%len(r.i.sq)+9:], stream)
	}
	t.Run("isolation", func(t *testing.T) {
		r := newDC(t, nil, o)
		for _, w := range []struct {
			stream uint16
			bad    uint32
			syn    uint8
		}{{0, 0, 0}, {1, 1, synRemoteAccess}, {1, 0, synFlush}, {0, 0, 0}, {2, 0, 0}, {1, 0, synFlush}} {
			post(r, w.stream, opWrite, w.bad)
			r.i.ring()
			if w.syn == 0 {
				r.ac.want(cqeReq, -1)
			} else {
				r.ac.wantErr(cqeReqErr, w.syn)
			}
			if r.i.q.State != hca.RTS {
				t.Fatalf("stream %d: DCI in %v", w.stream, r.i.q.State)
			}
		}
		post(r, 3, opWrite, 1)
		r.i.ring()
		r.ac.wantErr(cqeReqErr, synRemoteAccess)
		if r.i.q.State != hca.Err {
			t.Errorf("with two streams in error the DCI is in %v", r.i.q.State)
		}
		r.clean()
	})
	t.Run("in one batch", func(t *testing.T) {
		r := newDC(t, nil, o)
		for _, s := range []uint16{0, 1, 1, 0} {
			post(r, s, opWrite, uint32(s))
		}
		r.i.ring()
		r.ac.want(cqeReq, -1)
		r.ac.wantErr(cqeReqErr, synRemoteAccess)
		r.ac.wantErr(cqeReqErr, synFlush)
		r.ac.want(cqeReq, -1)
		r.clean()
	})
	// perftest numbers its work requests without end on a DCI that has no streams.
	t.Run("without streams", func(t *testing.T) {
		r := newDC(t, nil, qpOpts{})
		post(r, 4711, opWrite, 0)
		post(r, 4, opWrite, 1)
		r.i.ring()
		r.ac.want(cqeReq, -1)
		r.ac.wantErr(cqeReqErr, synRemoteAccess)
		if r.i.q.State != hca.Err {
			t.Errorf("DCI in %v", r.i.q.State)
		}
		r.clean()
	})
}

// A DCI whose most reads are 0, or not given, has one: mlx5_ib sets their logarithm only if there are some.
func TestDCIAtomic(t *testing.T) {
	r := newDC(t, func(x *attrs) { x.rd = 0 }, qpOpts{})
	addr, key := r.mb.at(64)
	r.i.send(opAtomicFA, signaled, 0, r.to(0), raddr(addr, key), seg(uint64(5), uint64(0)), r.ma.sge(2000, 8))
	r.ac.want(cqeReq, 8)
	r.clean()
}

// What DC QPs need, and the ways between their states.
func TestDCStates(t *testing.T) {
	r := newDC(t, nil, qpOpts{})
	c, n := r.bc, r.b
	for name, i := range map[string]hca.QPInit{
		"DCT without SRQ":     {Type: hca.DCT},
		"DCI that receives":   {Type: hca.DCI, Cap: hca.QPCap{RecvWR: 1}},
		"DCI with receive SG": {Type: hca.DCI, Cap: hca.QPCap{RecvSGE: 1}},
	} {
		i.PD, i.SendCQ, i.RecvCQ = n.pd.Handle, c.q.Handle, c.q.Handle
		if _, e := hca.CreateQP(n.ctx, &i); e != unix.EINVAL {
			t.Errorf("%s: %v", name, e)
		}
	}
	q := n.qp(nil, c, qpOpts{typ: hca.DCT, srq: r.s, dc: hca.DC{AccessKey: dcKey}})
	if q.q.Num != 0 {
		t.Errorf("a DCT in RESET has the number %#x", q.q.Num)
	}
	refuse := func(q *qp, a *hca.QPAttr, mask hca.AttrMask, to hca.QPState) {
		t.Helper()
		if e := q.q.Modify(a, mask, to); e != unix.EINVAL {
			t.Errorf("%v from %v to %v: %v", q.q.Type, q.q.State, to, e)
		}
	}
	refuse(q, &hca.QPAttr{}, hca.AttrState, hca.RTR)
	refuse(q, &hca.QPAttr{}, hca.AttrState, hca.Err)
	q.init(defaults())
	refuse(q, &hca.QPAttr{Port: 1}, hca.AttrPort, hca.Reset) // no change of state
	refuse(q, &hca.QPAttr{}, hca.AttrState, hca.Reset)
	refuse(r.ts[0], &hca.QPAttr{}, hca.AttrState, hca.RTS)
	refuse(r.ts[0], &hca.QPAttr{}, hca.AttrState, hca.Err)
	refuse(r.i, &hca.QPAttr{}, hca.AttrState, hca.SQD)
	r.i.modify(&hca.QPAttr{}, 0, hca.Err)
	r.i.modify(&hca.QPAttr{}, 0, hca.Reset)
	if e := hca.Destroy[hca.AnyQP](n.ctx, q.q.Handle); e != 0 {
		t.Error(e)
	}
}
