//go:build linux

package verbs

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// command is a command of the adapter's own, on its way through DevX. The kernel looks at the opcode and at the object;
// what the rest says is between the program and the adapter.
type command struct {
	*call
	in, out []byte
}

// devxCmd reads the command in attribute in, has f carry it out under the lock, and writes the answer into attribute
// out. What the adapter refuses is EREMOTEIO, with status and syndrome in the answer; an errno of f is the kernel's.
func devxCmd(c *call, in, out uint16, f func(*command) (uapi.Status, unix.Errno)) unix.Errno {
	d := &command{call: c, in: c.b.Bytes(in), out: make([]byte, c.b.Room(out).Len)}
	op := uint16(uapi.CmdOpcode.Get(d.in))
	c.req = devxRecord{Opcode: op, Len: len(d.in)}
	var s uapi.Status
	e := c.do(func() (e unix.Errno) {
		switch all := slices.Contains(devxForAll, op); {
		case c.ctx.DevX:
		case all && c.ctx.Device.Config.NoDevX:
			return unix.EOPNOTSUPP
		case !all:
			return unix.EINVAL
		}
		s, e = f(d)
		return e
	})
	if e != 0 {
		return e
	}
	if s != uapi.StatusOK {
		e = unix.EREMOTEIO
	}
	d.finish(op, s)
	return first(c.b.Room(out).Put(d.out, false), e)
}

// finish puts what the adapter answers to a command that it refuses.
func (d *command) finish(op uint16, s uapi.Status) {
	if s != uapi.StatusOK {
		clear(d.out)
		uapi.OutStatus.Put(d.out, uint64(s))
		uapi.OutSyndrome.Put(d.out, syndrome(op, s))
	}
	d.resp = devxRecord{Opcode: op, Len: len(d.out), Status: uint8(s)}
}

// devxRecord is what the trace shows of a command.
type devxRecord struct {
	Opcode uint16
	Len    int
	Status uint8
}

// syndrome makes up a syndrome: an adapter's say which check failed, and are not documented.
func syndrome(op uint16, s uapi.Status) uint64 { return 0xe0<<24 | uint64(s)<<16 | uint64(op) }

// within returns the object that a command is about: a verb's, or the one that does the work of one of DevX. It is nil
// if that is of another kind.
func within[T any](d *command, o any) *T {
	if x, ok := o.(*hca.DevxObject); ok {
		o = d.ctx.Object(x.Inner)
	}
	v, _ := o.(*T)
	return v
}

// devxCreate makes an object by a command: see devxCreates.
func devxCreate(c *call) unix.Errno {
	var o *hca.DevxObject
	e := devxCmd(c, uapi.DriverNS+1, uapi.DriverNS+2, func(d *command) (s uapi.Status, e unix.Errno) {
		op := uint16(uapi.CmdOpcode.Get(d.in))
		kernel, make := devxCreatable(d.in), devxCreates[op]
		switch {
		case !kernel:
			return 0, unix.EINVAL
		case make == nil:
			return uapi.StatusBadOp, 0
		}
		if o, s = make(d); s == uapi.StatusOK {
			o.Made = op
			hca.AddDevx(c.ctx, o)
			at := uapi.OutObjID
			if op == uapi.OpCreatePSV {
				at = uapi.OutPSV
			}
			at.Put(d.out, uint64(o.Num))
			c.undo = func() { hca.Destroy[*hca.DevxObject](c.ctx, o.Handle) }
		}
		return s, 0
	})
	if e != 0 {
		return e
	}
	return c.b.SetID(uapi.DriverNS, uint64(o.Handle))
}

// devxChange modifies or queries an object by a command of the table; it may be one that a verb made.
func devxChange(table *map[uint16]func(*command, any) uapi.Status) func(*call) unix.Errno {
	return func(c *call) unix.Errno {
		return devxCmd(c, uapi.DriverNS+1, uapi.DriverNS+2, func(d *command) (uapi.Status, unix.Errno) {
			o := c.ctx.Object(uint32(c.b.Uint(uapi.DriverNS)))
			f := (*table)[uint16(uapi.CmdOpcode.Get(d.in))]
			if f == nil || !devxNames(o, d.in) {
				return 0, unix.EINVAL
			}
			return f(d, o), 0
		})
	}
}

func devxAsyncAlloc(c *call) unix.Errno {
	e := c.do(func() unix.Errno {
		if !c.ctx.DevX {
			return unix.EINVAL
		}
		return 0
	})
	if e = first(e, c.b.SetID(uapi.DriverNS, 0)); e != 0 {
		return e
	}
	fd, e := c.readFile(guest.NewPackets, func(c *call, p *guest.Pipe) { c.ctx.Keep(c.ctx.Answers, p) })
	return first(e, c.b.SetID(uapi.DriverNS, uint64(fd)))
}

// devxQueryAsync is a query whose answer is read from a file, behind the program's number for it. Here it is there when
// the call returns. What the adapter refuses is in the answer alone.
func devxQueryAsync(c *call) unix.Errno {
	const number = 8
	n := c.b.Uint(uapi.DriverNS + 4)
	switch {
	case n < uapi.OutHeader:
		return unix.EINVAL
	case n > guest.MaxPacket-number:
		return unix.EOPNOTSUPP // the kernel takes them
	case !c.b.Has(uapi.DriverNS+2) || c.b.Uint(uapi.DriverNS+2)>>31 != 0:
		return unix.EBADF
	}
	file := c.who.link(int32(c.b.Uint(uapi.DriverNS + 2)))
	answer := binary.NativeEndian.AppendUint64(nil, c.b.Uint(uapi.DriverNS+3))
	answer = append(answer, make([]byte, n)...)
	d := &command{call: c, in: c.b.Bytes(uapi.DriverNS + 1), out: answer[number:]}
	op := uint16(uapi.CmdOpcode.Get(d.in))
	c.req = devxRecord{Opcode: op, Len: len(d.in)}
	return c.do(func() unix.Errno {
		o := c.ctx.Object(uint32(c.b.Uint(uapi.DriverNS)))
		f, p := devxQueries[op], c.ctx.Answers[file]
		switch {
		case !c.ctx.DevX || f == nil || !devxNames(o, d.in):
			return unix.EINVAL
		case p == nil:
			return unix.EBADF
		}
		d.finish(op, f(d, o))
		if !p.Packet(answer) {
			return unix.EAGAIN // too many answers that nobody has read
		}
		return 0
	})
}

// devxQuery translates a number of the program's to the device's, which is the same: of a doorbell page, of a
// completion vector.
func devxQuery(known func(c *call, i int) bool) func(*call) unix.Errno {
	return func(c *call) unix.Errno {
		i := uint32(c.b.Uint(uapi.DriverNS))
		e := c.do(func() unix.Errno {
			if !known(c, int(i)) {
				return unix.EINVAL
			}
			return 0
		})
		return first(e, out(c, uapi.DriverNS+1, i))
	}
}

// hasUAR also accepts the number of a dynamic register, if the context has them.
func (c *call) hasUAR(i int) bool {
	return hca.RegistersOf(c.ctx).DynamicUAR(uint32(i)) != nil || hca.UARAt(c.ctx, i) != nil
}

func (c *call) hasVector(i int) bool { return i < compVectors }
