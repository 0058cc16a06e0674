package rdma

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
)

// LeaseKeys selects how a lease gives the peer access to the memory. Lease.Window reports which way a lease uses.
type LeaseKeys uint8

const (
	// KeysAuto means KeysWindow if the device enforces the bounds of windows, else KeysMR.
	KeysAuto LeaseKeys = iota
	// KeysMR registers the memory for each lease, which every device can. Any queue pair of the engine that has a lease
	// with the same right takes the key, so a peer could use another connection's if it guessed the address.
	KeysMR
	// KeysWindow binds a memory window of type 2 to the memory. Only the connection's own queue pair takes its key, and
	// nothing is registered, which takes a quarter of the time. A lease still has an MR if it is above 2 GiB, if it is
	// for atomics on memory that is not aligned to 8 bytes, or if the device has no more windows.
	KeysWindow
)

// String returns the name, as in "KeysMR".
func (k LeaseKeys) String() string {
	switch k {
	case KeysAuto:
		return "KeysAuto"
	case KeysMR:
		return "KeysMR"
	case KeysWindow:
		return "KeysWindow"
	}
	return fmt.Sprintf("LeaseKeys(%d)", uint8(k))
}

// windows are the memory windows of an engine. One that was taken from the peer by its queue pair can be bound again.
type windows struct {
	pd *ibv.PD

	mu    sync.Mutex
	free  []*ibv.MW
	used  int
	stuck []*ibv.MW // that could not be closed
}

// openWindows lets leases use memory windows, if the device and the options do.
func (e *Engine) openWindows(path ibv.DataPath) error {
	if e.opt.LeaseKeys == KeysMR {
		return nil
	}
	err := e.dev.CanBindMW(ibv.MWType2, path)
	if err == nil && !e.dev.MWBounds() && !(trustWindows && e.opt.LeaseKeys == KeysWindow) {
		err = &ibv.UnsupportedError{Feature: "leases by memory windows", Need: "a device that holds to their bounds, " +
			"or KeysMR", Have: e.dev.Name() + ", SoftRoCE, which lets the peer access the whole MR"}
	}
	switch {
	case err == nil:
		e.windows = &windows{pd: e.pd}
	case e.opt.LeaseKeys == KeysWindow:
		return err
	}
	return nil
}

// trustWindows is set by tests of what else windows do.
var trustWindows bool

// bufferAccess are the rights of the memory of buffers.
func (e *Engine) bufferAccess() ibv.AccessFlags {
	if e.windows != nil {
		return ibv.LocalWrite | ibv.MWBind
	}
	return ibv.LocalWrite
}

// get returns a window that is not bound.
func (w *windows) get() (*ibv.MW, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.free) - 1; last >= 0 {
		mw := w.free[last]
		w.free = w.free[:last]
		w.used++
		return mw, nil
	}
	mw, err := w.pd.AllocMW(ibv.MWType2)
	if err == nil {
		w.used++
	}
	return mw, err
}

// put takes back a window that is not bound.
func (w *windows) put(mw *ibv.MW) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, mw)
	w.used--
}

// lost counts a window as closed, or keeps one that could not be, until the engine is closed.
func (w *windows) lost(mw *ibv.MW, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used--
	if !closed {
		w.stuck = append(w.stuck, mw)
	}
}

func (w *windows) inUse() int {
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
	for _, mw := range append(w.free, w.stuck...) {
		errs = append(errs, mw.Close())
	}
	return errors.Join(errs...)
}
