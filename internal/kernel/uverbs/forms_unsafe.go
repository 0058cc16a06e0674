package uverbs

import (
	"math"
	"runtime"
	"structs"
	"syscall"
	"unsafe"
)

// method sends a method by the ioctl.
func (f *File) method(name string, object, method uint16, args []Arg) error {
	c := &Command{header: header{Object: object, Method: method, driver: f.driver}}
	for i := range args {
		switch a := &args[i]; {
		case a.optional:
		case int(c.Num) == maxAttrs:
			return syscall.E2BIG
		default:
			c.Attrs[c.Num] = a.attr
			c.Num++
		}
	}
	c.length = uint16(unsafe.Offsetof(c.Attrs) + uintptr(c.Num)*unsafe.Sizeof(Attr{}))
	e := f.sys.Ioctl(f.fd, c)
	runtime.KeepAlive(args)
	if e != 0 {
		return e
	}
	n := 0
	for i := range args {
		a := &args[i]
		if a.optional {
			continue
		}
		got := &c.Attrs[n]
		n++
		switch {
		case a.want && got.Flags&ValidOutput == 0:
			return &ReplyError{Command: name, Field: "no answer in attribute", Got: uint64(a.attr.ID), Want: "one"}
		case a.new == nil:
		case got.Data > math.MaxUint32:
			return &ReplyError{Command: name, Field: "object", Got: got.Data, Want: "a number of 32 bits"}
		default:
			*a.new = uint32(got.Data)
		}
	}
	return nil
}

// writeHeader is struct ib_uverbs_cmd_hdr.
type writeHeader struct {
	_        structs.HostLayout
	command  uint32
	inWords  uint16
	outWords uint16
}

// extendedHeader is struct ib_uverbs_ex_cmd_hdr, which follows a writeHeader.
type extendedHeader struct {
	_              structs.HostLayout
	response       uint64
	driverInWords  uint16
	driverOutWords uint16
	_              uint32
}

// write writes a command.
func (f *File) write(c *command, q *request) error {
	resp := make([]byte, len(q.out)+len(q.Out))
	h := writeHeader{command: c.number}
	var b []byte
	if c.number&extended != 0 {
		x := extendedHeader{driverInWords: words(len(q.In), 8), driverOutWords: words(len(q.Out), 8)}
		h.inWords, h.outWords = words(len(q.in), 8), words(len(q.out), 8)
		if len(resp) > 0 {
			x.response = address(resp)
		}
		b = append(append(append(b, Bytes(&h)...), Bytes(&x)...), q.in...)
	} else {
		h.inWords = words(int(unsafe.Sizeof(h))+len(q.in)+len(q.In), 4)
		h.outWords = words(len(resp), 4)
		b = append(append(b, Bytes(&h)...), q.in...)
		if len(resp) > 0 {
			response := address(resp)
			copy(b[unsafe.Sizeof(h):], Bytes(&response))
		}
	}
	b = append(b, q.In...)
	n, err := f.sys.Write(f.fd, b)
	runtime.KeepAlive(resp)
	switch {
	case err != nil:
		return err
	case n != len(b):
		return &ReplyError{Command: c.name, Field: "bytes of the command", Got: uint64(n), Want: "all"}
	}
	copy(q.Out, resp[copy(q.out, resp):])
	return nil
}

// words returns how many words of size bytes n bytes are.
func words(n, size int) uint16 { return uint16((n + size - 1) / size) }
