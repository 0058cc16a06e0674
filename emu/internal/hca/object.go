//go:build linux

package hca

import "golang.org/x/sys/unix"

// Object is what a handle stands for.
type Object interface {
	// Destroy ends the object. It fails with EBUSY while others use it, unless its context ends.
	Destroy() unix.Errno
	// order says when a release destroys it.
	order() order
	held() *Held
}

// Held is what all objects have: the context that holds them, and their handle there.
type Held struct {
	Context *Context
	Handle  uint32
}

func (h *Held) held() *Held { return h }

// forget takes the handle back.
func (h *Held) forget() { delete(h.Context.objects, h.Handle) }

// busy returns the errno of a destruction while so many others use the object.
func (h *Held) busy(uses int) unix.Errno {
	if uses > 0 && !h.Context.Dead {
		return unix.EBUSY
	}
	return 0
}

// order is an object's place in a release, and the name of its kind in the report of leaks.
type order struct {
	rank int
	name string
}

// Ranks: those that use others come first.
const (
	rankRule = iota
	rankOfRule
	rankOpened
	rankQP
	rankTable
	rankWQ
	rankSRQ
	rankCQ
	rankWindow
	rankRegion
	rankMemory
	rankXRCD
	rankPD
	rankUAR
	rankPlain
)

// Find returns the object of a handle: EINVAL for one of another kind, ENOENT for none.
func Find[T any](c *Context, handle uint32) (v T, e unix.Errno) {
	o, ok := c.objects[handle]
	if !ok {
		return v, unix.ENOENT
	}
	if v, ok = o.(T); !ok {
		return v, unix.EINVAL
	}
	return v, 0
}

// Destroy ends the object of a handle, which must be a T.
func Destroy[T Object](c *Context, handle uint32) unix.Errno {
	o, e := Find[T](c, handle)
	if e != 0 {
		return e
	}
	return o.Destroy()
}

// Discard ends an object, unless it has ended.
func Discard(o Object) {
	if h := o.held(); h.Context.objects[h.Handle] == o {
		o.Destroy()
	}
}

// each calls do for the context's objects of one kind until it returns false.
func each[T any](c *Context, do func(T) bool) {
	for _, o := range c.objects {
		if v, ok := o.(T); ok && !do(v) {
			return
		}
	}
}

// Counted is an object whose asynchronous events a program has to acknowledge.
type Counted interface {
	Object
	// Events returns how many, of those that it has read.
	Events() uint32
}

// DestroyCounted is [Destroy]. It also returns the events that the program has to acknowledge.
func DestroyCounted[T Counted](c *Context, handle uint32) (events uint32, e unix.Errno) {
	o, e := Find[T](c, handle)
	if e == 0 {
		e = o.Destroy()
	}
	if e != 0 {
		return 0, e
	}
	return o.Events(), 0
}
