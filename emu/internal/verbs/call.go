//go:build linux

package verbs

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// caller is the thread that asks.
type caller interface {
	uapi.SpanMemory
	// mem is the address space of its process.
	mem() guest.Mem
	// link returns what /proc shows for its descriptor fd, such as "pipe:[7]", or "".
	link(fd int32) string
	// stat identifies the file behind fd.
	stat(fd int32) (dev, ino uint64, err error)
	// install gives it a descriptor of its own for fd.
	install(fd int) (int, error)
	// capable reports whether it has a capability in the emulator's user namespace.
	capable(capability int) bool
	// id returns its number.
	id() int
}

// answered is a caller whose answer may be spoiled.
type answered struct {
	caller
	hca.Reply
}

func (a *answered) Write(addr uint64, b []byte) error { return a.caller.Write(addr, a.Bytes(b)) }

// WriteSpans is Write for all answers of a command.
func (a *answered) WriteSpans(all []uapi.Span) error {
	for i := range all {
		all[i].Bytes = a.Bytes(all[i].Bytes)
	}
	return a.caller.WriteSpans(all)
}

// call is one command on its way: of a write() or INVOKE_WRITE (r), or a method of the ioctl (b).
type call struct {
	s         *Server
	who       *answered
	ctx       *hca.Context
	name      string
	r         *uapi.Request
	b         *uapi.Bundle
	early     bool   // may come before get_context
	undo      func() // destroys what was made if the answer cannot be written; lock held
	req, resp any    // for the trace
}

// do carries f out under the lock, unless the device is gone or a fault is to be injected. Each command does it once,
// before it makes anything.
func (c *call) do(f func() unix.Errno) unix.Errno {
	mem := c.who.mem()
	c.s.f.Lock()
	defer c.s.f.Unlock()
	switch {
	case c.ctx.Device.Gone || c.ctx.Dead:
		return unix.EIO
	case !c.ctx.Ready && !c.early:
		return unix.EINVAL
	}
	if c.b != nil {
		for _, h := range c.b.Handles() {
			if h > math.MaxUint32 || c.ctx.Object(uint32(h)) == nil {
				return unix.ENOENT
			}
		}
	}
	if w := c.s.f.Watch; w != nil {
		e, reply := w.Command(c.ctx, c.name)
		if c.who.Reply = reply; e != 0 {
			return e
		}
	}
	// A forked child's addresses are its own, as the kernel takes the current process's memory whoever opened the file.
	old := c.ctx.Mem
	c.ctx.Mem = mem
	defer func() { c.ctx.Mem = old }()
	return f()
}

func ok() unix.Errno { return 0 }

// refuse answers a command that the kernel knows and this device does not support.
func refuse(c *call) unix.Errno {
	return c.do(func() unix.Errno { return unix.EOPNOTSUPP })
}

// get looks something up, or changes it, under the lock.
func get[T any](c *call, f func() (T, unix.Errno)) (v T, e unix.Errno) {
	e = c.do(func() (e unix.Errno) { v, e = f(); return e })
	return v, e
}

// on changes the object of a handle.
func on[T any](c *call, handle uint32, f func(T) unix.Errno) unix.Errno {
	return c.do(func() unix.Errno {
		o, e := hca.Find[T](c.ctx, handle)
		if e != 0 {
			return e
		}
		return f(o)
	})
}

// create makes something; undo destroys it if the program cannot be told.
func create[T any](c *call, f func() (T, unix.Errno), undo func(T)) (v T, e unix.Errno) {
	if v, e = get(c, f); e == 0 {
		c.undo = func() { undo(v) }
	}
	return v, e
}

// named makes an object by the ioctl, and tells its handle in the first attribute.
func named[T hca.Object](c *call, f func() (T, unix.Errno)) unix.Errno {
	o, e := made(c, f)
	if e != 0 {
		return e
	}
	return c.b.SetID(c.b.Method.Attrs[0].ID, uint64(o.Common().Handle))
}

// traced is named for an object that the reply describes further. The trace has its handle.
func traced[T hca.Object](c *call, f func() (T, unix.Errno)) (o T, e unix.Errno) {
	e = named(c, func() (T, unix.Errno) { o, e = f(); return o, e })
	if e == 0 {
		c.resp = uapi.HandleOnly{Handle: o.Common().Handle}
	}
	return o, e
}

// answer carries f out and writes its answer to a write() command.
func answer[T any](c *call, f func() (T, unix.Errno)) unix.Errno {
	v, e := get(c, f)
	if e != 0 {
		return e
	}
	return reply(c, v)
}

// made makes an object of the context, which is destroyed if the program cannot be told.
func made[T hca.Object](c *call, f func() (T, unix.Errno)) (T, unix.Errno) {
	return create(c, f, func(o T) { hca.Discard(o) })
}

// copied returns what a command tells of an object: others may change it once the lock is free.
func copied[T any](p *T, e unix.Errno) (v T, _ unix.Errno) {
	if e == 0 {
		v = *p
	}
	return v, e
}

// taking is a write() command whose request is a T: a shorter one is zero-extended, in a longer one the rest must be
// zero.
func taking[T any](f func(c *call, q *T) unix.Errno) func(*call) unix.Errno {
	return func(c *call) unix.Errno {
		q, e := uapi.Take[T](c.r)
		if e != 0 {
			return e
		}
		c.req = q
		return f(c, &q)
	}
}

// driver reads the driver's part of the request, at least least bytes of it; in a longer one the rest must be zero.
func driver[T any](c *call, least int) (v T, e unix.Errno) {
	var p []byte
	if c.b != nil {
		p = c.b.Bytes(uapi.UHWIn)
	} else {
		p = c.r.Driver
	}
	if len(p) < least || !uapi.Cleared(p, uapi.Size[T]()) {
		return v, unix.EINVAL
	}
	return uapi.Decode[T](p), 0
}

// userIndex returns the user index v of the driver's part, which a part of fewer than end bytes lacks.
func (c *call) userIndex(v uint32, end int) uint32 {
	if c.driverLen() < end {
		return hca.NoUserIndex
	}
	return v
}

// extends reports whether a command is a write() in its extended form.
func (c *call) extends() bool { return c.b == nil && c.r.Extends }

func (c *call) driverLen() int {
	if c.b != nil {
		return len(c.b.Bytes(uapi.UHWIn))
	}
	return len(c.r.Driver)
}

func (c *call) driverRoom() uapi.Room {
	if c.b != nil {
		return c.b.Room(uapi.UHWOut)
	}
	return c.r.DrvOut
}

// reply writes the answer of a write() command.
func reply[T any](c *call, v T) unix.Errno {
	c.resp = v
	return c.r.Out.Put(uapi.Bytes(&v), true)
}

// replyDriver writes the driver's answer, cut to the room that the program's version of it has.
func replyDriver[T any](c *call, v T) unix.Errno { return c.driverRoom().Put(uapi.Bytes(&v), false) }

// fits returns how much of a T goes into a room, for response_length.
func fits[T any](r uapi.Room) uint32 { return uint32(min(r.Len, uapi.Size[T]())) }

// told tells what was made: by v, the answer of a write() command, or by the handle in the ioctl's first attribute.
func told[T any](c *call, v T, handle uint32) unix.Errno {
	if c.b == nil {
		return reply(c, v)
	}
	c.resp = v
	return c.b.SetID(0, uint64(handle))
}

// out writes an attribute's answer; a write() command has no attributes.
func out[T any](c *call, id uint16, v T) unix.Errno {
	if c.b == nil {
		return 0
	}
	return c.b.Room(id).Put(uapi.Bytes(&v), true)
}

// first returns the first error.
func first(es ...unix.Errno) unix.Errno {
	for _, e := range es {
		if e != 0 {
			return e
		}
	}
	return 0
}

// destroy is a command that destroys the object that find finds. Its answer, if it has one, is a T: attribute 1 of the
// ioctl's method.
func destroy[O hca.Object, T any](
	find func(*hca.Context, uint32) (O, unix.Errno), answer func(O) T,
) func(*call) unix.Errno {
	return func(c *call) unix.Errno {
		h, e := c.doomed()
		if e != 0 {
			return e
		}
		c.req = uapi.HandleOnly{Handle: h}
		v, e := get(c, func() (v T, e unix.Errno) {
			o, e := find(c.ctx, h)
			if e == 0 {
				e = o.Destroy()
			}
			if e == 0 {
				v = answer(o)
				c.watchAcks(o)
			}
			return v, e
		})
		switch {
		case e != 0 || uapi.Size[T]() == 0:
			return e
		case c.b == nil:
			return reply(c, v)
		}
		c.resp = v
		return out(c, 1, v)
	}
}

// doomed returns the handle that a command to destroy something names.
func (c *call) doomed() (uint32, unix.Errno) {
	switch {
	case c.b != nil:
		return uint32(c.b.Uint(c.b.Method.Attrs[0].ID)), 0
	case c.r.Extends:
		q := uapi.Decode[uapi.DestroyWQ](c.r.Core)
		if q.CompMask != 0 {
			return 0, unix.EOPNOTSUPP
		}
		return q.WqHandle, 0
	case c.r.Cmd.Req > uapi.Size[uapi.HandleOnly]():
		return uapi.Decode[uapi.Destroy](c.r.Core).Handle, 0
	}
	return uapi.Decode[uapi.HandleOnly](c.r.Core).Handle, 0
}

// silent is no answer.
func silent[O any](O) (none struct{}) { return none }

// events answers how many asynchronous events of the object the program was given.
func events[O hca.Object](o O) uapi.EventsResp {
	return uapi.EventsResp{EventsReported: o.Common().AsyncDelivered}
}
