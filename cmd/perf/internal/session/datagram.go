package session

import (
	"fmt"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// connectDatagrams makes the queue pairs ready, and an address handle of each one's peer.
func (s *Session) connectDatagrams() error {
	opt := &ibv.ConnectOptions{SL: s.plan.Link.SL, TrafficClass: s.plan.Link.TClass, PKeyIndex: s.plan.Link.PKeyIndex}
	for i, qp := range s.qps {
		opt.FlowLabel = s.plan.FlowLabel(i)
		if err := qp.Connect(ibv.Endpoint{}, opt); err != nil {
			return err
		}
		attr, err := qp.Address(s.peerAt(s.peer[i]), opt)
		if err != nil {
			return err
		}
		ah, err := s.pd.CreateAH(attr)
		if err != nil {
			return err
		}
		s.ahs = append(s.ahs, ah)
	}
	return nil
}

// checkDatagram refuses messages that do not fit into one packet.
func (s *Session) checkDatagram() error {
	if s.plan.Transport != wire.UD || s.plan.Load.Size <= uint64(s.mtu.Bytes()) {
		return nil
	}
	return fmt.Errorf("size (-s) %d > %d, the path mtu: a message of UD (-c) is one packet", s.plan.Load.Size,
		s.mtu.Bytes())
}
