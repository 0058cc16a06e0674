package link

import (
	"errors"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
)

// windows are the memory windows of an engine. One that was taken from the peer by its queue pair can be bound again.
type windows struct {
	pd *ibv.PD

	mu    sync.Mutex
	Free  []*ibv.MW
	used  int
	stuck []*ibv.MW // that could not be closed
}

// Get returns a window that is not bound.
func (w *windows) Get() (*ibv.MW, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.Free) - 1; last >= 0 {
		mw := w.Free[last]
		w.Free = w.Free[:last]
		w.used++
		return mw, nil
	}
	mw, err := w.pd.AllocMW(ibv.MWType2)
	if err == nil {
		w.used++
	}
	return mw, err
}

// Put takes back a window that is not bound.
func (w *windows) Put(mw *ibv.MW) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Free = append(w.Free, mw)
	w.used--
}

// Lost counts a window as closed, or keeps one that could not be, until the engine is closed.
func (w *windows) Lost(mw *ibv.MW, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used--
	if !closed {
		w.stuck = append(w.stuck, mw)
	}
}

// InUse returns how many windows leases use.
func (w *windows) InUse() int {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

// release closes the windows.
func (w *windows) release() error {
	if w == nil {
		return nil
	}
	var errs []error
	for _, mw := range append(w.Free, w.stuck...) {
		errs = append(errs, mw.Close())
	}
	return errors.Join(errs...)
}
