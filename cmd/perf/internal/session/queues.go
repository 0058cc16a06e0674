package session

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// makeCQs makes the CQs of each thread.
func (s *Session) makeCQs() error {
	p := &s.plan
	opt := &ibv.CQOptions{NoEvents: !p.Queues.Events, CompVector: p.Queues.Vector}
	if p.Report.HWTimestamps {
		opt.Fields = ibv.FieldsStandard | ibv.FieldTimestamp
		if err := s.checkClock(); err != nil {
			return err
		}
	}
	each := p.Queues.QPs / p.ThreadCount()
	for range p.ThreadCount() {
		send, err := s.dev.CreateCQ(s.sendDepth()*each, opt)
		if err != nil {
			return err
		}
		s.cqs = append(s.cqs, queues{send, send})
		if p.Verb.Consumes() {
			q := &s.cqs[len(s.cqs)-1]
			if q.recv, err = s.dev.CreateCQ(max(p.Queues.RxDepth*each, 1), opt); err != nil {
				q.recv = send
				return err
			}
		}
	}
	return nil
}

// SendCQ returns the CQ of what a thread sends.
func (s *Session) SendCQ(thread int) *ibv.CQ { return s.cqs[thread].send }

// RecvCQ returns the CQ of what a thread receives.
func (s *Session) RecvCQ(thread int) *ibv.CQ { return s.cqs[thread].recv }

func (s *Session) closeCQs() error {
	var errs []error
	for _, q := range s.cqs {
		if q.recv != q.send {
			errs = append(errs, q.recv.Close())
		}
		errs = append(errs, q.send.Close())
	}
	return errors.Join(errs...)
}

// checkClock refuses a device that does not report the unit of its timestamps.
func (s *Session) checkClock() error {
	if tick, _ := s.Clock(); tick == 0 {
		return fmt.Errorf("timestamps of the adapter (--hw-timestamps): %s does not report the rate of its clock",
			s.dev.Name())
	}
	return nil
}

// Clock returns how many nanoseconds a tick of the device's clock has, and which bits of a timestamp count; zeros if
// the device does not report them.
func (s *Session) Clock() (tick float64, mask uint64) {
	ex := s.attr.Ex
	if ex == nil || ex.HCACoreClockKHz == 0 || ex.CompletionTimestampMask == 0 {
		return 0, 0
	}
	return 1e6 / float64(ex.HCACoreClockKHz), ex.CompletionTimestampMask
}
