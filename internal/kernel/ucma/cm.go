// Package ucma is rdma_cm without librdmacm: the connection manager of package control, on the kernel's device file.
// It creates and changes the queue pairs of its IDs by the verbs of package control.
//
// Handles are numbers, which are never used again. The kernel gets them as the IDs' names, and returns them in events,
// so an event of an object that is gone is recognized.
//
// C: librdmacm/cma.c.
package ucma

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// CM implements control.CM. Its methods are safe for concurrent use.
type CM struct {
	v       control.Verbs
	devices devices
	open    func() (*usercm.File, error)

	last     atomic.Uintptr // handle
	channels table[*channel]
	ids      table[*id]
	groups   table[*group]
	lists    table[[]*device]

	acks struct { // guards what objects have of events
		sync.Mutex
		more sync.Cond
	}
}

var _ control.CM = (*CM)(nil)

// New returns a connection manager that uses the verbs of v.
func New(v control.Verbs) *CM {
	c := &CM{v: v, devices: devices{v: v}, open: usercm.Open}
	c.acks.more.L = &c.acks
	return c
}

// table has the objects of a kind by their handles.
type table[T any] struct{ m sync.Map }

func (t *table[T]) get(h control.Handle) (v T, err error) {
	if o, ok := t.m.Load(h); ok {
		return o.(T), nil
	}
	return v, syscall.EINVAL
}

func (t *table[T]) put(h control.Handle, v T) { t.m.Store(h, v) }

func (t *table[T]) drop(h control.Handle) { t.m.Delete(h) }

func (c *CM) handle() control.Handle { return c.last.Add(1) }

// Old reports whether functions are missing that librdmacm has since v23.
func (c *CM) Old() bool { return false }

// Response exists for a library that is Old.
func (c *CM) Response(*control.CMEvent) bool { return false }

// events counts the events of an object that were acknowledged; CM.acks guards it.
type events uint32

// ack counts an event, and wakes those who wait for it.
func (c *CM) ack(counters ...*events) {
	c.acks.Lock()
	defer c.acks.Unlock()
	for _, n := range counters {
		*n++
	}
	c.acks.more.Broadcast()
}

// settle waits until the events of an object that the kernel has reported on a channel are acknowledged. It does not
// wait for more than those that goroutines are reading now, whatever the kernel has counted.
func (c *CM) settle(done *events, reported uint32, ch *channel) {
	c.acks.Lock()
	defer c.acks.Unlock()
	for uint32(*done) < reported && ch.reading > 0 {
		c.acks.more.Wait()
	}
}

// statusOf returns the negated errno of an error, as the status of an event.
func statusOf(err error) int32 {
	var e syscall.Errno
	if !errors.As(err, &e) {
		e = syscall.EIO
	}
	return -int32(e)
}
