package ibv

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// failure wakes goroutines that sleep until something happens to an object that has failed for good.
type failure struct {
	once sync.Once
	ch   chan struct{} // closed when the object failed
	err  error         // why; set before ch is closed
}

func newFailure() failure { return failure{ch: make(chan struct{})} }

func (f *failure) note(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.ch)
	})
}

func (f *failure) noted() bool {
	select {
	case <-f.ch:
		return true
	default:
		return false
	}
}

// explainIO returns what an EIO of a call on the device means. A device that is there may return EIO also, so the
// kernel is asked once.
func (d *Device) explainIO(err error) error {
	if !d.removed.noted() {
		if !d.v.Removed(d.handle) {
			return err
		}
		d.removed.note(ErrDeviceRemoved)
	}
	return fmt.Errorf("%w: %w", ErrDeviceRemoved, err)
}

// channelError explains why a completion channel cannot be read. For a removed device the
// kernel returns EIO; a channel that has ended returns a short read.
func (d *Device) channelError(err error) error {
	if !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	err = fmt.Errorf("%w: the completion channel cannot be read: %w", ErrDeviceRemoved, err)
	d.removed.note(err)
	return err
}
