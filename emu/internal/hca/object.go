//go:build linux

package hca

import "golang.org/x/sys/unix"

// Object is what a handle stands for.
type Object interface {
	// Destroy ends the object. It fails with EBUSY while others use it, unless its context ends.
	Destroy() unix.Errno
	// Common returns what all objects have.
	Common() *Held
}

// Held is what all objects have: the context that holds them, and their handle there.
type Held struct {
	Context *Context
	Handle  uint32
	User    uint64 // of what has events: the program's handle, which they name
	// AsyncDelivered counts the asynchronous events that the program was given. Once the object is destroyed these are
	// those that it has read, and has to acknowledge.
	AsyncDelivered uint32
	life           life
}

// life is how long an object lives.
type life struct {
	order order    // among others when its context ends
	refs  int      // others that use it
	uses  []Object // what it uses
	end   func()   // gives back what else it has; nil: nothing
}

// held is what an object of a kind has before it has a handle.
func (c *Context) held(rank int, name string) Held {
	return Held{Context: c, life: life{order: order{rank, name}}}
}

// Common returns what all objects have.
func (h *Held) Common() *Held { return h }

// Use has the object keep others from when it has a handle to its end.
func (h *Held) Use(all ...Object) { h.life.uses = append(h.life.uses, all...) }

// Hold counts n others more that use the object.
func (h *Held) Hold(n int) { h.life.refs += n }

// Uses returns how many others use the object.
func (h *Held) Uses() int { return h.life.refs }

// Destroy ends an object that no other uses.
func (h *Held) Destroy() unix.Errno {
	if h.life.refs > 0 && !h.Context.Dead {
		return unix.EBUSY
	}
	delete(h.Context.objects, h.Handle)
	if h.life.end != nil {
		h.life.end()
	}
	for _, o := range h.life.uses {
		o.Common().Hold(-1)
	}
	h.AsyncDelivered = h.Context.drop(h.User, h.AsyncDelivered)
	return 0
}

// Event tells the program of something about the object.
func (h *Held) Event(t EventType) { h.AsyncDelivered += h.Context.AsyncEvent(t, h.User) }

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
func Destroy[T Object](c *Context, handle uint32) unix.Errno { return destroyed(Find[T](c, handle)) }

// destroyed ends an object that was found.
func destroyed[T Object](o T, e unix.Errno) unix.Errno {
	if e != 0 {
		return e
	}
	return o.Destroy()
}

// Discard ends an object, unless it has ended.
func Discard(o Object) {
	if h := o.Common(); h.Context.objects[h.Handle] == o {
		o.Destroy()
	}
}

// Lookup returns the context's object of one kind that is the one, or nil.
func Lookup[T any](c *Context, is func(*T) bool) *T {
	for _, o := range c.objects {
		if v, ok := o.(any).(*T); ok && is(v) {
			return v
		}
	}
	return nil
}
