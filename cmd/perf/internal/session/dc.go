package session

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// dcKey is the access key of every DCT: perftest announces none to the peer.
const dcKey = 0xffeeddcc

// makeDC makes a DCT, or a DCI.
func (s *Session) makeDC(i int, qo *ibv.QPOptions) (qp *ibv.QP, err error) {
	if s.plan.Target(i) {
		qp, err = mlx5dv.CreateQP(s.pd, nil, s.cqs[0].recv, &mlx5dv.QPOptions{
			QPOptions: ibv.QPOptions{Type: ibv.DCT, SRQ: s.srq}, DC: &mlx5dv.DCOptions{AccessKey: dcKey}})
	} else {
		qp, err = mlx5dv.CreateQP(s.pd, s.cqs[0].send, nil, &mlx5dv.QPOptions{QPOptions: *qo})
	}
	if err != nil {
		return nil, fmt.Errorf("connection type (-c) DC: %w", err)
	}
	return qp, nil
}

// connectDC brings the DCTs up, which have their numbers from then on, and the DCIs, each with an address handle of its
// peer.
func (s *Session) connectDC() error {
	opt := s.connectOptions()
	s.ahs = make([]*ibv.AH, len(s.qps))
	for i, qp := range s.qps {
		d := s.peer[s.plan.Partner(i)]
		opt.MaxRdAtomic, opt.FlowLabel = s.readsAt(d), s.plan.FlowLabel(i)
		if err := qp.Connect(ibv.Endpoint{}, opt); err != nil {
			return err
		}
		if s.plan.Target(i) {
			s.own[i].QPN = qp.Num()
			continue
		}
		attr, err := qp.Address(s.peerAt(d), opt)
		if err != nil {
			return err
		}
		if s.ahs[i], err = s.pd.CreateAH(attr); err != nil {
			return err
		}
	}
	return nil
}
