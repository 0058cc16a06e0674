package command

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/starve"
)

// inside runs the tests of an agent in its own process, with the devices and memory kept open, one at a time. Tests at
// the same time have processes of their own: their loops would share the settings of the runtime.
type inside struct {
	child   agent.Child
	busy    sync.Mutex
	shelves map[string]*session.Shelf // of each NIC
}

// shelf returns that of a NIC.
func (r *inside) shelf(nic string) *session.Shelf {
	if r.shelves == nil {
		r.shelves = map[string]*session.Shelf{}
	}
	if r.shelves[nic] == nil {
		r.shelves[nic] = &session.Shelf{}
	}
	return r.shelves[nic]
}

// Run is a Runner of package agent.
func (r *inside) Run(ctx context.Context, t agent.Task, listening func(port int) error) (f agent.Figures, err error) {
	if !t.Alone || !r.busy.TryLock() {
		return r.child.Run(ctx, t, listening)
	}
	defer r.busy.Unlock()
	meter := starve.New(starve.Self)
	defer func() {
		w := meter.Waits()
		f.CPU = &w
	}()
	o, err := parse(t.Words())
	if err != nil {
		return f, err
	}
	shelf := r.shelf(t.NIC)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hooks := engine.Hooks{Waiting: func(port int) {
		if err := listening(port); err != nil {
			cancel(err)
		}
	}}
	res, err := engine.Run(shelf.With(t.Test.Secret.With(ctx)), o.plan, hooks)
	if err != nil {
		shelf.Close() // the next test begins anew
		return f, &lineError{err}
	}
	if t.Server() {
		return f, nil
	}
	if len(res.Sizes) != 1 {
		return f, errors.New("no figure in its result")
	}
	s := &res.Sizes[0]
	if s.BW != nil {
		f.Bits = s.BW.BitsPerSecond
	}
	if s.Lat != nil {
		f.P50, f.P99, f.Max = max(float64(s.Lat.P50), 0), max(float64(s.Lat.P99), 0), s.Lat.Max
	}
	return f, nil
}

// lineError is an error in one line.
type lineError struct{ error }

func (e *lineError) Error() string { return strings.ReplaceAll(e.error.Error(), "\n", " ") }

func (e *lineError) Unwrap() error { return e.error }
