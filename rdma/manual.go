package rdma

import (
	"context"
	"runtime"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// manualPause is how often an engine with EngineOptions.Manual looks for completions while a method waits, or a
// connection ends.
const manualPause = 100 * time.Microsecond

// Poll handles the completions that are there, and returns how many. It does not wait. While another
// goroutine is in Poll or Wait, it returns 0. The engine has EngineOptions.Manual; if the device has failed, the
// connections report it.
func (e *Engine) Poll() (int, error) {
	if err := e.manual("poll"); err != nil {
		return 0, err
	}
	return e.shards[0].pollOnce()
}

// pollOnce is Engine.Poll.
func (e *shard) pollOnce() (int, error) {
	if !e.tryTurn() {
		return 0, nil
	}
	defer leave(e.pollTurn)
	n, err := e.cq.Poll(e.wcs)
	return n, e.polled(n, err)
}

// Wait is Poll, and waits until there is a completion or ctx ends.
func (e *Engine) Wait(ctx context.Context) (int, error) {
	if err := e.manual("wait"); err != nil {
		return 0, err
	}
	s := e.shards[0]
	if err := (bound{Ctx: ctx}).Enter(s.pollTurn); err != nil {
		return 0, err
	}
	defer leave(s.pollTurn)
	n, err := s.cq.Wait(ctx, s.wcs)
	if ctx.Err() != nil && n == 0 {
		return 0, ctx.Err()
	}
	return n, s.polled(n, err)
}

func (e *Engine) manual(op string) error {
	if e.opt.Manual {
		return nil
	}
	return &ibv.OpError{Op: op, Object: "engine of " + e.dev.Name(), Err: &ibv.ArgError{Arg: "engine",
		Got: "one with a poller of its own", Want: "one with EngineOptions.Manual"}}
}

// polled handles n completions, or the error that there was instead.
// Preconditions: the caller has pollTurn.
func (e *shard) polled(n int, err error) error {
	if err != nil {
		e.eng.failAll(err)
		return err
	}
	if n > 0 {
		e.handle(e.wcs[:n])
	}
	return nil
}

// waitManual waits for ch. If no other goroutine polls, it does.
func (e *shard) waitManual(b bound, ch <-chan struct{}) error {
	idle := time.Now()
	for {
		select {
		case <-ch:
			return nil
		default:
		}
		if err := b.Expired(); err != nil {
			return err
		}
		n, err := e.pollOnce()
		switch {
		case n > 0:
			idle = time.Now()
		case err != nil || e.opt.Spin < 0 || time.Since(idle) > e.opt.Spin:
			time.Sleep(manualPause)
		default:
			runtime.Gosched()
		}
	}
}

// pollMeanwhile has completions handled at once until stop is called, for callers that wait for something that wait
// does not know: by the poller, or on an engine with EngineOptions.Manual by another goroutine.
func (e *shard) pollMeanwhile() (stop func()) {
	if !e.opt.Manual {
		e.asleep.Add(1)
		e.rearm()
		return func() { e.asleep.Add(-1) }
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(manualPause):
				_, _ = e.pollOnce() // an error is the connections'
			}
		}
	}()
	return func() { close(done) }
}

// TryRecv is Recv, but does not wait: it reports whether a message was there.
func (c *Conn) TryRecv() (*Message, bool, error) {
	m, err := c.tryRecv()
	if m.m == nil {
		return nil, false, err
	}
	return &m, true, nil
}

func (c *Conn) tryRecv() (Message, error) {
	m, err := c.l.recvMessage(bound{Now: true})
	switch err {
	case nil:
		return m.handle(), nil
	case errWouldWait:
		return Message{}, nil
	}
	return Message{}, c.fail("recv", err)
}
