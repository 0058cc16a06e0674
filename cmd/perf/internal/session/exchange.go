package session

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// hello is the exchange before the queue pairs.
func (s *Session) hello() error {
	var err error
	s.terms, err = s.Conn.Hello(wire.Hello{
		PageSize: os.Getpagesize(), CacheLine: cacheLine(), MTU: int(s.mtu),
		Params: s.plan.Params(), MaxReads: s.attr.MaxQPRdAtom, ShortNeg: s.plan.Peer.ShortNeg,
	})
	s.mtu = ibv.MTU(s.terms.MTU)
	if err == nil {
		err = s.checkDatagram()
	}
	if err == nil && s.terms.Asked != (wire.Asked{}) {
		err = s.take(s.terms.Asked)
	}
	return err
}

// take has this end, which just waits, do what the peer asks for. What memory that needs, allocate checks.
func (s *Session) take(a wire.Asked) error {
	s.plan = s.plan.Take(a)
	if most := uint64(s.port.MaxMsgSize); most != 0 && s.plan.Load.Size > most {
		return &wire.ExchangeError{Peer: s.peerName(), Step: "parameters", Err: fmt.Errorf(
			"the peer's size (-s) %d > %d, the largest message of %s", s.plan.Load.Size, most, s.dev.Name())}
	}
	return nil
}

// Plan returns the plan with what the peer asked for.
func (s *Session) Plan() plan.Plan { return s.plan }

// connect announces the queue pairs to the peer and brings them up, in the order of this test's steps.
func (s *Session) connect() error {
	sends := s.plan.Verb == wire.Send
	round := func(name string, keep bool) func() error {
		return func() error {
			for i := range s.own {
				d, err := s.Conn.Keys(fmt.Sprintf("%s of queue pair %d", name, i+1), s.own[i])
				if err != nil {
					return err
				}
				if keep {
					s.peer[i] = d
				}
			}
			return nil
		}
	}
	meet := func(due bool, name string) func() error {
		return func() (err error) {
			if due {
				_, err = s.Conn.Keys(name, s.own[0])
			}
			return err
		}
	}
	// A DCT has its number when it is up.
	again := round("keys again", s.plan.Transport == wire.DC)
	return inOrder(meet(!s.plan.Bandwidth() && !sends, "first meeting"), round("keys", true), s.way.bringUp, s.pace,
		meet(sends, "meeting when ready"), again, meet(!sends, "meeting when ready"))
}

// Terms returns the values that both ends use.
func (s *Session) Terms() wire.Agreed { return s.terms }

// Barrier meets the peer, which may be late by limit.
func (s *Session) Barrier(step string, limit time.Duration) error {
	if !s.Meets() {
		return nil
	}
	return s.Conn.Barrier(step, s.own[0], limit)
}

// Finish meets the peer for the last time and closes the connection. The peer may be late by limit.
func (s *Session) Finish(limit time.Duration) error {
	if !s.Meets() {
		return nil
	}
	return s.Conn.Finish(s.own[0], limit)
}

// Explain returns err, or what is behind it where the peer has ended the connection of a queue
// pair: rdma_cm moves that to the error state then.
func (s *Session) Explain(err error) error {
	if err == nil || errors.Is(err, wire.ErrClosed) {
		return err
	}
	i, why := s.way.lost()
	if why == nil {
		return err
	}
	return &wire.ExchangeError{Peer: s.Conn.Peer(), Step: fmt.Sprintf("queue pair %d of %d", i+1, len(s.qps)),
		Err: fmt.Errorf("%w in the middle of the run: %w; %w", wire.ErrClosed, why, err)}
}
