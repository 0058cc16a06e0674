package ibv

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// removal wakes sleeping goroutines when the device is removed. There are three sources: the kernel, which ends
// completion channels; EventDeviceFatal, if AsyncEvent is called; and package rdmacm.
type removal struct {
	once sync.Once
	ch   chan struct{} // closed when the device was removed
	err  error         // ErrDeviceRemoved, and how it was noticed; set before ch is closed
}

func (r *removal) note(err error) {
	r.once.Do(func() {
		r.err = err
		close(r.ch)
	})
}

func (r *removal) noted() bool {
	select {
	case <-r.ch:
		return true
	default:
		return false
	}
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
