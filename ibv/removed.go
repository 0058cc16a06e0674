package ibv

import (
	"errors"
	"sync"
	"syscall"
)

// removal tells those who sleep that the device is gone. Three say so: the kernel,
// which ends completion channels; EventDeviceFatal, if AsyncEvent is called; and
// package rdmacm.
type removal struct {
	once sync.Once
	ch   chan struct{} // closed when the device is gone
}

func (r *removal) note() { r.once.Do(func() { close(r.ch) }) }

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
func (c *Context) channelError(err error) error {
	if !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	c.removed.note()
	return errors.Join(ErrDeviceRemoved, err)
}
