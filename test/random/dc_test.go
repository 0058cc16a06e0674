//go:build linux

package random

import (
	"fmt"
	"math/rand/v2"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// askDC asks a device for DC. That an emulated one has none is an error.
func (o *offer) askDC(d *ibv.Device, emulated bool) error {
	ok, err := mlx5dv.IsSupported(d)
	if err != nil || !ok {
		if emulated {
			err = fmt.Errorf("%s has no DC: %v, %w", d.Name(), ok, err)
		} else {
			err = nil // not even libmlx5
		}
		return err
	}
	attr, err := mlx5dv.QueryDevice(d)
	if err != nil {
		return err
	}
	o.dc = true
	if emulated { // an adapter need not execute the streams of a DCI in the order of posting
		o.streams = attr.DCIStreams.MaxLogConcurrent // 0 before libmlx5 v37
	}
	return nil
}

// drawDC turns some of the RC links with receive queues into links of two DCIs and two DCTs. An end has an SRQ of its
// own in place of the receive queue.
func (p *program) drawDC() {
	if !p.offers[0].dc || !p.offers[1].dc {
		return
	}
	r := rand.New(rand.NewPCG(p.seed, 3<<32))
	for _, g := range p.groups {
		if g.sleep || one(r, 2) {
			continue
		}
		for _, l := range g.links {
			if l.typ != ibv.RC || l.srq || one(r, 3) {
				continue
			}
			l.typ, l.opt.Type = ibv.DCI, ibv.DCI
			l.lends, l.binds = 0, false
			if l.opt.SendOps != 0 {
				l.opt.SendOps = sendOps[ibv.DCI]
			}
			l.key = [2]uint64{r.Uint64(), r.Uint64()}
			if one(r, 2) {
				l.streams = min(uint8(1+r.IntN(3)), p.offers[0].streams, p.offers[1].streams)
			}
		}
	}
}

// onDC reports whether a fault is one of a DCI alone. Its peer goes on.
func (k kind) onDC() bool {
	switch k {
	case badRKey, outOfRange, misaligned, noRecv, badLKey, shortRecv, badRecvKey, peerGone, pendingSend:
		return true
	}
	return false
}

// address chooses the far ends of a round. The DCIs of a group address each other's DCTs, but for rounds with a fault.
func (m *model) address(rd *round) {
	var dc []int
	normally := true
	for i, l := range m.g.links {
		rd.to = append(rd.to, i)
		if l.typ == ibv.DCI {
			dc = append(dc, i)
		}
		normally = normally && rd.kinds[i] == normal
	}
	if !normally {
		return
	}
	for k, x := range m.r.Perm(len(dc)) {
		i, to := dc[k], dc[x]
		rd.to[i] = to
		rd.fates[to][0].from, rd.fates[to][1].from = i, i
	}
}

// planDCFault plans the consequences of a fault on a DC link for the end a, whose request fails, and its peer.
func (m *model) planDCFault(k kind, i int, a, b *fate) {
	if own := effects[k].own; own != 0 {
		b.msgs[i] = append(b.msgs[i], message{status: own})
	}
	a.skipSQ = k == pendingSend
	a.stream = m.g.links[i].streams > 0 && effects[k].status != 0 && !one(m.r, 3)
	for _, f := range []*fate{a, b} {
		f.renew = true
		f.rebuild = !f.stream && one(m.r, 2)
	}
}

// newDCI creates the sending half of an end of a DC link, and the other one if it is not there.
func (s *station) newDCI(q *end, opt ibv.QPOptions) (*ibv.QP, error) {
	var flags mlx5dv.QPCreateFlags
	if q.l.mem[s.e] == inDevice {
		flags = mlx5dv.DisableScatterToCQE
	}
	if q.target.qp == nil {
		if err := s.newDCT(q, flags); err != nil {
			return nil, err
		}
	}
	return mlx5dv.CreateQP(s.pd, s.send.cq, nil, &mlx5dv.QPOptions{QPOptions: opt, Flags: flags,
		DC: &mlx5dv.DCOptions{LogStreams: q.l.streams, LogErrored: min(q.l.streams, 1)}})
}

// newDCT creates what receives at an end of a DC link, ready to receive.
func (s *station) newDCT(q *end, flags mlx5dv.QPCreateFlags) error {
	x := &q.target
	cq, err := s.newTargetCQ(q)
	if err != nil {
		return err
	}
	if x.srq, err = s.base.CreateSRQ(&ibv.SRQOptions{MaxWR: q.l.slots, MaxSGE: q.l.opt.MaxRecvSGE,
		SingleThreaded: s.g.single}); err != nil {
		return err
	}
	if x.qp, err = mlx5dv.CreateQP(s.base, nil, cq, &mlx5dv.QPOptions{Flags: flags,
		QPOptions: ibv.QPOptions{Type: ibv.DCT, SRQ: x.srq, SingleThreaded: s.g.single},
		DC:        &mlx5dv.DCOptions{AccessKey: q.l.key[s.e]}}); err != nil {
		return err
	}
	if _, err = x.qp.Endpoint(s.rxe.Port, s.rxe.GID); err != nil {
		return err
	}
	if err = x.qp.Connect(ibv.Endpoint{}, s.options(q.l)); err == nil {
		x.hub.add(x.qp.Num(), x.box)
	}
	return err
}

// addressDC names the DCT of a work request.
func (s *station) addressDC(w *ibv.SendWR, q *end, o *op) {
	to := s.qps[o.to]
	w.AH, w.RemoteQPN, w.DCKey, w.DCStream = q.ah, to.peer.Target.QPN, to.l.key[1-s.e], o.stream
	if o.bad == peerGone { // a request by a wrong key is not answered
		w.DCKey ^= 0x55
	}
}
