package progress

import (
	"context"

	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// The goroutines of the model. It runs their source in steps, like that of the package: nobody calls them.

// environment is what the model does for them.
type environment interface {
	receive(i int) bool           // takes the messages of goroutine i; false: no more are to come
	begin(i int)                  // CatchUp begins
	caughtUp(i int)               // and is over
	poll() (batch int, err error) // takes the completions; 0: there are none
	has(batch, i int) bool
	handle(batch, i int) (rest int) // puts those of goroutine i where it looks
	signal(i int) *Signal           // by which it is woken, or nil
	channel(i int) <-chan struct{}  // that is closed by finish
	finish(i int)
	end() bool // ends the connections, unless they have ended
	stopped()
}

var model environment

// The functions that begin goroutines, and those that the package calls by its interfaces.
var _ = []any{receiver, waiterFor, meanwhile, catcher, program, runner, looker, endAll, stopper, modelPoll, modelFail}

// receiver takes messages until it has had all, or its wait ends, as the reader of a connection does.
func receiver(p *Progress, i int, s *Signal, b turn.Bound, patience *Patience) {
	for model.receive(i) {
		if p.WaitSignal(b, s, patience) != nil {
			return
		}
	}
}

// waiterFor waits for a channel that a completion closes.
func waiterFor(p *Progress, i int, b turn.Bound) { _ = p.Wait(b, model.channel(i)) }

// meanwhile waits for such a channel, and has completions handled meanwhile.
func meanwhile(p *Progress, i int) {
	p.Sleep()
	<-model.channel(i)
	p.Wake()
}

// catcher has what has come handled.
func catcher(p *Progress, i int, stop <-chan struct{}) {
	model.begin(i)
	p.CatchUp(stop)
	model.caughtUp(i)
}

// program is one that polls itself.
func program(p *Progress, ctx context.Context) {
	for {
		if _, err := p.PollWait(ctx); err != nil {
			return
		}
	}
}

// modelPoll is Source.Poll: it handles completions as an engine does.
func modelPoll(_ Source) (int, error) {
	batch, err := model.poll()
	if batch == 0 {
		return 0, err
	}
	for i := range modelWaiters {
		if model.has(batch, i) {
			batch = model.handle(batch, i)
			wakeUp(i)
		}
	}
	return 1, nil
}

func wakeUp(i int) {
	if s := model.signal(i); s != nil {
		s.Wake()
	} else {
		model.finish(i)
	}
}

// modelFail is Options.Fail.
func modelFail(error) { endAll() }

// endAll ends the connections, which wakes all that wait for them.
func endAll() {
	if model.end() {
		for i := range modelWaiters {
			wakeUp(i)
		}
	}
}

func runner(p *Progress, ctx context.Context) { p.Run(ctx) }

func looker(p *Progress) { p.look() }

func stopper(p *Progress) {
	p.Stop()
	model.stopped()
}
