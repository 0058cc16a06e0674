// Package ucma is rdma_cm without librdmacm: the connection manager of package control, on the kernel's device file.
// It creates and changes the queue pairs of its IDs by the verbs of package control.
//
// Handles are numbers, which are never used again. The kernel gets them as the IDs' names, and returns them in events,
// so an event of an object that is gone is recognized.
//
// C: librdmacm/cma.c.
package ucma

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// CM implements control.CM. Its methods are safe for concurrent use.
type CM struct {
	v       control.Verbs
	qps     pairs
	devices devices
	open    func() (*usercm.File, error)

	last     atomic.Uintptr // handle
	channels table[*channel]
	ids      table[*id]
	groups   table[*group]
	lists    table[[]*device]
	acks     acks
}

var _ control.CM = (*CM)(nil)

// New returns a connection manager that uses the verbs of v.
func New(v control.Verbs) *CM {
	c := &CM{v: v, qps: pairs{v}, devices: devices{v: v}, open: usercm.Open}
	c.acks.more.L = &c.acks.mu
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

// with calls f with the ID, to write its commands.
func (c *CM) with(h control.Handle, f func(w usercm.Writer, i *id) error) error {
	return on(c, h, (*usercm.File).Do, f)
}

// once is with for one command.
func (c *CM) once(h control.Handle, f func(w usercm.Writer, i *id) error) error {
	return on(c, h, (*usercm.File).Once, f)
}

func on(c *CM, h control.Handle, write func(*usercm.File, func(usercm.Writer) error) error,
	f func(w usercm.Writer, i *id) error) error {
	i, err := c.ids.get(h)
	if err != nil {
		return err
	}
	return write(i.now().ch.file, func(w usercm.Writer) error { return f(w, i) })
}
