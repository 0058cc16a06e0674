package mlx5

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// fate says what has become of an object.
type fate uint8

const (
	stays fate = iota
	ended
	lost // the kernel finds none of its number, or says that one uses it whose number nobody knows
)

// finish takes the error of a command that destroys an object. The kernel ends those of a device that is removed, and
// then refuses every command. If it destroyed the object, finish waits until the events were acknowledged. The error is
// not nil if the object stays.
func (c *context) finish(command string, err error, events ...reported) (fate, error) {
	switch {
	case err == error(syscall.ENOENT):
		c.file.Doubt.Store(true)
		return lost, nil
	case err == error(syscall.EBUSY) && c.file.Doubt.Load():
		return lost, nil
	case err != nil:
		for _, errno := range []error{syscall.EIO, syscall.ENODEV, syscall.EBUSY} {
			if errors.Is(err, errno) && c.Removed() {
				return ended, nil
			}
		}
		return stays, err
	}
	for _, r := range events {
		if err := c.events.wait(command, r.of, r.n); err != nil {
			return stays, err
		}
	}
	return ended, nil
}

// Removed asks the kernel whether the device is gone: then every command fails.
func (c *context) Removed() bool {
	_, err := c.file.QueryDevice(false)
	return err == syscall.EIO || err == syscall.ENODEV
}

// destroyed is finish for an object without events.
func (c *context) destroyed(err error) error {
	_, err = c.finish("", err)
	return err
}

// undo returns err, the reason why an object of the kernel cannot be used, with e, the error of the command that
// destroys it.
func (c *context) undo(err, e error) error { return also(err, c.destroyed(e)) }

// fateOf returns what has become of an object that could not be made.
func fateOf(err error) fate {
	if reply := (*uverbs.ReplyError)(nil); errors.As(err, &reply) {
		return lost
	}
	return ended
}

// enter gives an object its handle, then has the kernel make it. If that fails, the handle is gone, and its memory
// recycled.
func (r *ringed) enter(o any, sends ring, create func() error) (handle, error) {
	h := r.c.v.table.add(o)
	if err := create(); err != nil {
		r.c.v.table.remove(h)
		return 0, also(err, r.c.recycle(fateOf(err), r.queue, sends))
	}
	return h, nil
}

// retire ends an object, after the command that destroys it: when its events were acknowledged.
func (r *ringed) retire(command string, err error, sends ring, events ...reported) error {
	f, err := r.c.finish(command, err, events...)
	if f == stays {
		return err
	}
	r.c.v.table.remove(r.handle)
	return r.c.recycle(f, r.queue, sends)
}

// recycle frees the queue of an object, and its ring of sends. The device may use those of a lost one until the file is
// closed.
func (c *context) recycle(f fate, q queue, sends ring) error {
	if f == lost {
		return nil
	}
	return errors.Join(c.memory.drop(q), c.memory.release(sends))
}
