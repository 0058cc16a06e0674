package engine

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/payload"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// verify compares what arrived here with what was sent. Everything has come to
// rest: it is after the last meeting with the peer.
func (r *run) verify() error {
	p := &r.plan
	if !p.Verify {
		return nil
	}
	if !r.Terms().Ours {
		return errors.New("payload check (--verify): the peer is a stock perftest, which sends no known payload")
	}
	if !p.Lands() {
		return nil
	}
	n := p.Load.Iters
	if p.Load.Duration > 0 {
		n = 1 // how many there were is the peer's to know
	}
	skip := -1
	if !p.Bandwidth() && p.Verb == wire.Write {
		skip = int(p.Load.Size) - 1 // the number of the message
	}
	for i := range p.Queues.QPs {
		got, err := r.Landed(i)
		if err != nil {
			return err
		}
		err = payload.Check(got, r.Payload(i), p.Load.Size, r.cycle(), uint64(r.Terms().CacheLine), n, skip)
		if err != nil {
			return fmt.Errorf("payload of queue pair %d is wrong: %w", i, err)
		}
	}
	r.res.Verified = true
	return nil
}
