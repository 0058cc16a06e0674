package session

import (
	"fmt"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// makeConnected makes queue pairs that rdma_cm has no part in, and what the peer has to know of them.
func (s *Session) makeConnected(qo ibv.QPOptions) error {
	p := &s.plan
	for i := range p.Ends() {
		qp, err := s.newQP(i, &qo)
		if err != nil {
			return fmt.Errorf("queue pair %d of %d: %w", i+1, p.Ends(), err)
		}
		s.qps = append(s.qps, qp)
	}
	s.setup.Local.Inline = qo.MaxInline
	for i, qp := range s.qps {
		index, err := s.gidFor(s.plan.IBPortOf(i))
		if err != nil {
			return err
		}
		ep, err := qp.Endpoint(s.plan.IBPortOf(i), index)
		if err != nil {
			return err
		}
		key, addr := s.exposed(i % p.Queues.QPs)
		s.own = append(s.own, wire.Dest{
			LID: ep.LID, OutReads: uint16(s.setup.OutReads), QPN: ep.QPN, PSN: ep.PSN,
			RKey: key, VAddr: addr, GID: ep.GID, SRQN: s.srqn,
		})
	}
	return s.join()
}

// connectPairs connects them to the peer's.
func (s *Session) connectPairs() error {
	p, opt := &s.plan, s.connectOptions()
	if p.Transport == wire.UC {
		opt.AckTimeout, opt.MaxDestRdAtomic = 0, 0 // it knows neither
	}
	for i, qp := range s.qps {
		d := s.peer[p.Partner(i)]
		opt.MaxRdAtomic, opt.FlowLabel = s.readsAt(d), p.FlowLabel(i)
		if err := qp.Connect(s.peerAt(d), opt); err != nil {
			return err
		}
	}
	return nil
}
