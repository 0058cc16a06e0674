package session

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// makeShared makes what queue pairs share: the queue of receives, and XRC's domain. XRC and DC also have the queue for
// writes and reads: perftest sends XRC's number, and a DCT cannot be without.
func (s *Session) makeShared() (err error) {
	p := &s.plan
	target := p.Target(p.Ends() - 1)
	if !p.Shares() && !target {
		return nil
	}
	opt := &ibv.SRQOptions{MaxWR: max(p.Queues.RxDepth, 1)}
	xrc := target && p.Transport == wire.XRC
	if xrc {
		if s.xrcd, err = s.dev.OpenXRCD(nil, 0); err != nil {
			return err
		}
		opt.Type, opt.CQ, opt.XRCD = ibv.SRQXRC, s.cqs[0].recv, s.xrcd
	}
	if s.srq, err = s.pd.CreateSRQ(opt); err != nil || !xrc {
		return err
	}
	s.srqn, err = s.srq.Num()
	return err
}

// newQP makes queue pair i. If the inline size is the device's choice, qo has it then.
func (s *Session) newQP(i int, qo *ibv.QPOptions) (*ibv.QP, error) {
	auto := s.plan.Queues.Inline == plan.Auto
	qp, err := s.makeQP(i, qo)
	if err != nil && auto && qo.MaxInline > 0 {
		qo.MaxInline = 0
		qp, err = s.makeQP(i, qo)
	}
	if err != nil || s.plan.Target(i) {
		return qp, err
	}
	granted := qp.Cap().MaxInline
	if !auto && granted < qo.MaxInline {
		return nil, errors.Join(fmt.Errorf("inline size (-I) %d > %d, what %s grants", qo.MaxInline, granted,
			s.dev.Name()), qp.Close())
	}
	qo.MaxInline = min(qo.MaxInline, granted)
	return qp, nil
}

// makeQP makes queue pair i.
func (s *Session) makeQP(i int, qo *ibv.QPOptions) (*ibv.QP, error) {
	switch {
	case s.plan.Transport == wire.DC:
		return s.makeDC(i, qo)
	case s.plan.Transport == wire.SRD:
		return s.makeSRD(i, qo)
	case s.plan.Target(i):
		return s.xrcd.CreateQP()
	case s.plan.Transport == wire.XRC:
		return s.pd.CreateQP(s.queues(i).send, nil, qo)
	}
	return s.pd.CreateQP(s.queues(i).send, s.queues(i).recv, qo)
}

func (s *Session) qpOptions() ibv.QPOptions {
	p := &s.plan
	qo := ibv.QPOptions{Type: p.QPType(), MaxSendWR: s.sendDepth(), MaxRecvWR: max(p.Queues.RxDepth, 1),
		MaxInline: p.Queues.Inline}
	if p.Queues.Inline == plan.Auto {
		qo.MaxInline = p.AutoInline()
	}
	if p.Transport.OneWay() {
		qo.MaxRecvWR = 0
	} else {
		qo.SRQ = s.srq
	}
	return qo
}
