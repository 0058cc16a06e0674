package session

import (
	"fmt"

	"github.com/pureverbs/pureverbs/efadv"
	"github.com/pureverbs/pureverbs/ibv"
)

// makeSRD makes a queue pair of EFA's reliable datagrams.
func (s *Session) makeSRD(i int, qo *ibv.QPOptions) (*ibv.QP, error) {
	qp, err := efadv.CreateQP(s.pd, s.queues(i).send, s.queues(i).recv, &efadv.QPOptions{QPOptions: *qo})
	if err != nil {
		return nil, fmt.Errorf("connection type (-c) SRD: %w", err)
	}
	return qp, nil
}
