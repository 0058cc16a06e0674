//go:build linux

package random

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/pureverbs/pureverbs/ibv"
)

// drawXRC turns some of the RC links with receive queues into links of two XRC connections, one in each direction. An
// end has an XRC SRQ of its own in place of the receive queue.
func (p *program) drawXRC() {
	if !p.offers[0].xrc || !p.offers[1].xrc {
		return
	}
	r := rand.New(rand.NewPCG(p.seed, 2<<32))
	for _, g := range p.groups {
		for _, l := range g.links {
			if l.typ != ibv.RC || l.srq || g.sleep || !one(r, 4) {
				continue
			}
			l.typ, l.opt.Type = ibv.XRCSend, ibv.XRCSend
			l.lends, l.binds = 0, false
			if l.opt.SendOps != 0 {
				l.opt.SendOps = sendOps[ibv.XRCSend]
			}
		}
	}
}

// reliable reports whether the link's transport has reads, fences and retries.
func (l *link) reliable() bool { return l.typ == ibv.RC || l.typ == ibv.XRCSend || l.typ == ibv.DCI }

// ownCQ reports whether an end of the link has a CQ of its own for what it receives.
func (l *link) ownCQ() bool { return l.typ == ibv.XRCSend || l.typ == ibv.DCI }

// target is the receiving half of an end of a link of XRC or DC.
type target struct {
	qp  *ibv.QP
	srq *ibv.SRQ
	hub *hub
	box *box
	num uint32 // of the SRQ
}

// newTarget creates what receives at an XRC end.
func (s *station) newTarget(q *end) (err error) {
	if s.xrcd == nil {
		if s.xrcd, err = s.h.dev.OpenXRCD(nil, os.O_CREATE); err != nil {
			return err
		}
	}
	x := &q.target
	cq, err := s.newTargetCQ(q)
	if err != nil {
		return err
	}
	if x.srq, err = s.base.CreateSRQ(&ibv.SRQOptions{Type: ibv.SRQXRC, XRCD: s.xrcd, CQ: cq, MaxWR: q.l.slots,
		MaxSGE: q.l.opt.MaxRecvSGE, SingleThreaded: s.g.single}); err != nil {
		return err
	}
	if x.num, err = x.srq.Num(); err != nil {
		return err
	}
	if x.qp, err = s.xrcd.CreateQP(); err == nil {
		x.hub.add(x.qp.Num(), x.box)
	}
	return err
}

// newTargetCQ creates the CQ of what receives at an end.
func (s *station) newTargetCQ(q *end) (*ibv.CQ, error) {
	cq, err := s.h.dev.CreateCQ(2*q.l.slots+64, &ibv.CQOptions{SingleThreaded: s.g.single})
	if err == nil {
		q.target.hub, q.target.box = &hub{cq: cq, box: make(map[uint32]*box), fixed: s.p.wire}, &box{}
	}
	return cq, err
}

// close destroys it, and fails if a completion is left.
func (x *target) close() error {
	if x.qp == nil {
		return nil
	}
	err := errors.Join(x.qp.Close(), x.srq.Close())
	if n, e := x.hub.cq.Poll(x.hub.wcs[:]); e != nil || n != 0 {
		err = errors.Join(err, fmt.Errorf("%d completions after an SRQ was closed: %w", n, e))
	}
	return errors.Join(err, x.hub.cq.Close())
}
