package ibv

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// removal tells those who sleep that the device is gone. Three say so: the kernel,
// which ends completion channels; EventDeviceFatal, if AsyncEvent is called; and
// package rdmacm.
type removal struct {
	once sync.Once
	ch   chan struct{} // closed when the device is gone
	err  error         // ErrDeviceRemoved, and how it showed; set before ch is closed
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

// channelError explains why a completion channel cannot be read. The kernel's word
// for a device that is gone is EIO; a channel that has ended is a read too short.
func (d *Device) channelError(err error) error {
	if !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	err = fmt.Errorf("%w: the completion channel cannot be read: %w", ErrDeviceRemoved, err)
	d.removed.note(err)
	return err
}
