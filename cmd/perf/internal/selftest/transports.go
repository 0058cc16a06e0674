package selftest

import (
	"fmt"
	"os"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// transportStep is step 8.
func transportStep(s *stage) {
	for _, path := range paths {
		s.check(fmt.Sprintf("UD with GRH, %v", path), func(b *box) { datagrams(b, path, true) })
		s.check(fmt.Sprintf("UD without GRH, %v", path), func(b *box) { datagrams(b, path, false) })
		s.check(fmt.Sprintf("XRC, %v", path), func(b *box) { xrc(b, path) })
		s.check(fmt.Sprintf("DC, %v", path), func(b *box) { dc(b, path) })
	}
}

// messages are the lengths that a transport moves.
var messages = []int{1, 32, 33, 64, 65, 200, 1000}

// datagrams sends over UD, and replies to where each datagram has come from.
func datagrams(b *box, path ibv.DataPath, global bool) {
	if !global && b.needsGRH() {
		b.skip("a port requires a GRH in each packet")
	}
	const grh, q = 40, ibv.DefaultQKey
	x, y := b.side(0, 8192, path, nil), b.side(1, 8192, path, nil)
	for _, s := range []*side{x, y} {
		s.newQP(ibv.QPOptions{Type: ibv.UD}, 0)
		s.ok(s.qp.Connect(s.address(s.qp), nil))
	}
	b.engine(x.qp)
	to := y.address(y.qp)
	attr := must(x.qp.Address(to, nil))(b)
	if attr.Global = global; global {
		attr.DGID, attr.SGIDIndex, attr.HopLimit = to.GID, uint8(x.end.GIDIndex), 64
		if to.GID == (ibv.GID{}) {
			attr.DGID = must(y.dev.QueryGID(uint8(y.end.Port), y.end.GIDIndex))(b)
		}
	}
	there := own(x.pd.CreateAH(attr))(b)
	for i, n := range messages {
		fill(x.mr.Bytes()[:n], i)
		b.recv(y.qp, 1, y.mr.SGE(0, grh+n))
		x.post(ibv.SendWR{ID: 2, Opcode: ibv.OpSend, Flags: ibv.Signaled, SGEs: []ibv.SGE{x.mr.SGE(0, n)}, AH: there,
			RemoteQPN: to.QPN, RemoteQKey: q})
		x.good(2)
		wc := y.good(1)
		if wc.ByteLen != uint32(grh+n) || (wc.Flags&ibv.WCGRH != 0) != global || wc.SrcQPN != x.qp.Num() {
			b.fail("%d bytes arrived as %+v", n, wc)
		}
		b.same(fmt.Sprintf("%d bytes", n), y.mr.Bytes()[grh:][:n], i)

		back := own(y.pd.CreateAHFromWC(uint8(y.end.Port), &wc, y.mr.Bytes()[:grh]))(b)
		b.recv(x.qp, 3, x.mr.SGE(4096, grh+n))
		y.post(ibv.SendWR{ID: 4, Opcode: ibv.OpSend, Flags: ibv.Signaled, SGEs: []ibv.SGE{y.mr.SGE(grh, n)}, AH: back,
			RemoteQPN: wc.SrcQPN, RemoteQKey: q})
		y.good(4)
		x.good(3)
		b.same(fmt.Sprintf("reply of %d bytes", n), x.mr.Bytes()[4096+grh:][:n], i)
		b.check.Count += 2
	}
}

// xrc sends to an XRC SRQ, and writes.
func xrc(b *box, path ibv.DataPath) {
	x, y := b.side(0, 8192, path, nil), b.side(1, 8192, path, nil)
	domain := own(y.dev.OpenXRCD(nil, os.O_CREATE))(b)
	target := own(domain.CreateQP())(b)
	srq := own(y.pd.CreateSRQ(&ibv.SRQOptions{Type: ibv.SRQXRC, XRCD: domain, CQ: y.cq, DataPath: path}))(b)
	num := must(srq.Num())(b)
	x.qp = own(x.pd.CreateQP(x.cq, nil, &ibv.QPOptions{Type: ibv.XRCSend}))(b)
	connect(x, y, x.qp, target, nil)
	b.engine(x.qp)
	b.exchange(x, y, srq, func(wr *ibv.SendWR) { wr.RemoteSRQN = num })
}

// dc sends from a DCI to a DCT, and writes.
func dc(b *box, path ibv.DataPath) {
	const key = 0x1234567890abcdef
	x, y := b.side(0, 8192, path, nil), b.side(1, 8192, path, nil)
	srq := y.srq(16, 1)
	dct := own(mlx5dv.CreateQP(y.pd, nil, y.cq, &mlx5dv.QPOptions{DC: &mlx5dv.DCOptions{AccessKey: key},
		QPOptions: ibv.QPOptions{Type: ibv.DCT, SRQ: srq}}))(b)
	x.qp = own(mlx5dv.CreateQP(x.pd, x.cq, nil, &mlx5dv.QPOptions{QPOptions: ibv.QPOptions{Type: ibv.DCI}}))(b)
	x.address(x.qp)
	y.address(dct)
	b.ok(dct.Connect(ibv.Endpoint{}, nil))
	b.ok(x.qp.Connect(ibv.Endpoint{}, nil))
	b.engine(x.qp)
	ah := own(x.pd.CreateAH(must(x.qp.Address(y.address(dct), nil))(b)))(b)
	b.exchange(x, y, srq, func(wr *ibv.SendWR) { wr.AH, wr.RemoteQPN, wr.DCKey = ah, dct.Num(), key })
}

// exchange sends and writes messages from x to y, whose receives are in an SRQ. to addresses a work request.
func (b *box) exchange(x, y *side, srq *ibv.SRQ, to func(wr *ibv.SendWR)) {
	for i, n := range messages {
		fill(x.mr.Bytes()[:n], i)
		b.recv(srq, 1, y.mr.SGE(0, n))
		wr := ibv.SendWR{ID: 2, Opcode: ibv.OpSendImm, Imm: uint32(n), Flags: ibv.Signaled,
			SGEs: []ibv.SGE{x.mr.SGE(0, n)}}
		to(&wr)
		x.post(wr)
		x.good(2)
		if wc := y.good(1); wc.ByteLen != uint32(n) || wc.Imm != uint32(n) {
			b.fail("%d bytes arrived as %+v", n, wc)
		}
		b.same(fmt.Sprintf("%d bytes", n), y.mr.Bytes()[:n], i)
		wr.Opcode, wr.Remote = ibv.OpWrite, y.mr.Remote().At(4096)
		x.post(wr)
		x.good(2)
		b.same(fmt.Sprintf("write of %d bytes", n), y.mr.Bytes()[4096:][:n], i)
		b.check.Count += 2
	}
}
