package session

import (
	"errors"
	"fmt"
	"os"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
)

// rehearse makes the CQs, one queue pair and memory that is not ordinary, and closes them again: refusals of the device
// are reported before a client connects.
func (s *Session) rehearse() error {
	if most := s.attr.MaxQP; s.plan.Queues.QPs > most {
		return fmt.Errorf("queue pairs (-q) %d > %d, the limit of %s", s.plan.Queues.QPs, most, s.dev.Name())
	}
	try := &Session{plan: s.plan, dev: s.dev, attr: s.attr}
	err := try.tryQP()
	if try.srq != nil {
		err = errors.Join(err, try.srq.Close())
	}
	err = errors.Join(err, try.closeCQs())
	if try.xrcd != nil {
		err = errors.Join(err, try.xrcd.Close())
	}
	for _, m := range try.mrs {
		err = errors.Join(err, m.Close())
	}
	if try.pd != nil {
		err = errors.Join(err, try.pd.Close())
	}
	return err
}

func (s *Session) tryQP() (err error) {
	if s.pd, err = s.dev.AllocPD(); err != nil {
		return err
	}
	if m := &s.plan.Memory; m.Kind != plan.Pages || m.OnDemand || m.Null {
		_, total, err := areas(&s.plan, os.Getpagesize(), cacheLine())
		if err != nil {
			return err
		}
		if err := s.openMemory(total); err != nil {
			return err
		}
	}
	if err = s.makeCQs(); err != nil {
		return err
	}
	if err = s.makeShared(); err != nil {
		return err
	}
	qo := s.qpOptions()
	qp, err := s.newQP(0, &qo)
	if err != nil {
		return err
	}
	return qp.Close()
}
