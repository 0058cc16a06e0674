package rdma

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// engines are those that connections without an engine of their own use.
var engines struct {
	sync.Mutex
	m   map[string]*Engine
	old []*Engine // broken, and not closed yet
}

// useShared has f use the shared engine of this name. If CloseIdle has just closed it, or it has just failed, f uses a
// new one.
func useShared(name string, create func() (*Engine, error), f func(*link.Engine) error) (*link.Engine, error) {
	const tries = 3
	for try := 1; ; try++ {
		e, err := sharedEngine(name, create)
		if err != nil {
			return nil, err
		}
		err = f(e.e)
		if try == tries || !errors.Is(err, ErrClosed) && !errors.Is(err, link.ErrGone) {
			return e.e, err
		}
	}
}

// sharedEngine returns the shared engine of this name, and makes it if there is none that works.
func sharedEngine(device string, create func() (*Engine, error)) (*Engine, error) {
	engines.Lock()
	defer engines.Unlock()
	switch e := engines.m[device]; {
	case e == nil, e.e.Closed():
	case e.e.Broken():
		engines.old = append(engines.old, e)
	default:
		return e, nil
	}
	e, err := create()
	if err != nil {
		return nil, err
	}
	if engines.m == nil {
		engines.m = make(map[string]*Engine)
	}
	engines.m[device] = e
	e.e.Opened.Done() // CloseIdle closes it
	return e, nil
}

// CloseIdle closes the engines that were made for connections without one and have no open connection, and returns
// their memory. It waits until connections that were closed have ended, which takes up to their Options.Linger. It does
// not wait for an engine on which a connection is open, and no Dial waits for it.
func CloseIdle() error {
	engines.Lock()
	list := slices.AppendSeq(slices.Clone(engines.old), maps.Values(engines.m))
	engines.Unlock()
	var errs []error
	for _, e := range list {
		err := e.Close()
		var busy *ibv.BusyError
		if !errors.As(err, &busy) {
			errs = append(errs, err)
		}
		if err == nil {
			forgetEngine(e)
		}
	}
	return errors.Join(errs...)
}

// forgetEngine takes an engine that was closed out of those that connections use.
func forgetEngine(e *Engine) {
	engines.Lock()
	defer engines.Unlock()
	maps.DeleteFunc(engines.m, func(_ string, other *Engine) bool { return other == e })
	engines.old = slices.DeleteFunc(engines.old, func(other *Engine) bool { return other == e })
}
