//go:build linux

package hca

import (
	"cmp"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// Context is one open device file, from open to release. It keeps handles.
type Context struct {
	Device *Device
	ID     int
	PID    int       // thread group that opened it
	Mem    guest.Mem // its address space
	File   *guest.File
	Async  *guest.Pipe
	Ready  bool // GET_CONTEXT was answered
	DevX   bool // and asked for DevX
	Ends   bool // its process ends by itself, not by a signal
	Dead   bool

	CQEVersion uint8 // 0: a CQE says nothing of the user index, but has the SRQN of a receive

	Channels Pipes // completion channels
	Answers  Pipes // of asynchronous queries

	objects map[uint32]Object // by handle
	next    uint32
	parts   parts
}

// Open makes a context for process pid, whose device file is f.
func (d *Device) Open(pid int, f *guest.File) *Context {
	d.Fabric.nextCtx++
	c := &Context{Device: d, ID: d.Fabric.nextCtx, PID: pid, Mem: guest.Mem{PID: pid}, File: f,
		CQEVersion: uint8(d.Config.CQEVersion), objects: map[uint32]Object{}, Channels: Pipes{}, Answers: Pipes{}}
	d.Contexts[c.ID] = c
	return c
}

// add gives an object a handle. 0 is never one.
func (c *Context) add(o Object) {
	for {
		c.next++
		if _, used := c.objects[c.next]; !used && c.next != 0 {
			c.objects[c.next] = o
			o.Common().Context, o.Common().Handle = c, c.next
			for _, used := range o.Common().life.uses {
				used.Common().Hold(1)
			}
			return
		}
	}
}

// added is the end of making an object that cannot fail any more.
func added[T Object](c *Context, o T) (T, unix.Errno) {
	c.add(o)
	return o, 0
}

// Handles returns the handles of all objects, in order.
func (c *Context) Handles() []uint32 { return slices.Sorted(maps.Keys(c.objects)) }

// Object returns what a handle stands for, or nil.
func (c *Context) Object(handle uint32) Object { return c.objects[handle] }

// Release ends a context whose file is gone from the program. It destroys all that is left.
func (c *Context) Release() {
	if c.Dead {
		return
	}
	c.Dead = true
	for _, o := range slices.SortedFunc(maps.Values(c.objects), func(a, b Object) int {
		x, y := a.Common(), b.Common()
		return cmp.Or(x.life.order.rank-y.life.order.rank, int(x.Handle)-int(y.Handle))
	}) {
		if c.objects[o.Common().Handle] == o { // and did not end with one before it
			o.Destroy()
		}
	}
	c.parts.drop()
	c.hangUp()
	if c.Async != nil {
		c.Async.Close()
	}
	delete(c.Device.Contexts, c.ID)
}
