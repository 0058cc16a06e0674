package session

import (
	"errors"
	"fmt"
	"os"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
)

// openPlanned opens the device that was asked for, and rehearses before a client comes, or with an inline size that the
// device may refuse.
func (s *Session) openPlanned() error {
	p := &s.plan
	err := s.openDevice(p.Link.Device, p.Link.IBPort)
	if err == nil && (p.Queues.Inline > 0 || !p.Connects()) && s.tries() {
		err = s.rehearse()
	}
	return err
}

// rehearse makes the CQs, one queue pair and memory that is not ordinary, and closes them again: refusals of the device
// are reported before a client connects.
func (s *Session) rehearse() error {
	if most := s.attr.MaxQP; s.plan.Queues.QPs > most {
		return fmt.Errorf("queue pairs (-q) %d > %d, the limit of %s", s.plan.Queues.QPs, most, s.dev.Name())
	}
	try := &Session{plan: s.plan, dev: s.dev, attr: s.attr}
	return errors.Join(try.tryQP(), closeEach(try.srq), try.closeCQs(), closeEach(try.xrcd), closeEach(try.mrs...),
		closeEach(try.pd))
}

func (s *Session) tryQP() (err error) {
	if s.pd, err = s.dev.AllocPD(); err != nil {
		return err
	}
	if m := &s.plan.Memory; m.Kind != plan.Pages || m.OnDemand || m.Null {
		_, total, err := areas(&s.plan, os.Getpagesize(), cacheLine())
		if err == nil {
			err = s.openMemory(total)
		}
		if err != nil {
			return err
		}
	}
	return inOrder(s.makeCQs, s.makeShared, func() error {
		qo := s.qpOptions()
		qp, err := s.newQP(0, &qo)
		if err != nil {
			return err
		}
		return qp.Close()
	})
}
