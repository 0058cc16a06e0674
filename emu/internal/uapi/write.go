//go:build linux

package uapi

import "golang.org/x/sys/unix"

// CmdExtended marks the extended commands, in Cmd.Number too.
const CmdExtended = 0x8000_0000

const (
	cmdMask      = 0xff
	cmdDestroyCQ = 20
)

// DriverNS is where the ids of the driver's own objects, methods and attributes begin.
const DriverNS = 0x1000

// Attributes of INVOKE_WRITE; the driver's are those of other methods too.
const (
	CoreIn   = 0
	CoreOut  = 1
	WriteCmd = 2
	UHWIn    = DriverNS
	UHWOut   = DriverNS + 1
)

// Cmd describes one write() command: the least sizes of its request and its answer.
type Cmd struct {
	Number    uint32
	Name      string
	Req, Resp int
}

// Request is one write() command, or INVOKE_WRITE, in parts.
type Request struct {
	Cmd     *Cmd
	Core    []byte // the request proper
	Driver  []byte // what follows it
	Out     Room
	DrvOut  Room
	Extends bool
}

// Known returns 0 if find has the command, else what the kernel answers. C: uapi_get_method.
func Known(number uint32, find func(number uint32) *Cmd) (*Cmd, unix.Errno) {
	if number&^(CmdExtended|cmdMask) != 0 {
		return nil, unix.EINVAL
	}
	if c := find(number); c != nil {
		return c, 0
	}
	return nil, unix.EOPNOTSUPP
}

// maxWrite bounds what is copied of one write(): in_words and provider_in_words have 16 bits, and count eight bytes at
// most.
const maxWrite = 24 + 2*0xffff*8

// ReadWrite fetches and checks a write() of n bytes at addr as the kernel does.
func ReadWrite(mem Memory, addr, n uint64, find func(number uint32) *Cmd) (*Request, unix.Errno) {
	if n < 8 {
		return nil, unix.EINVAL
	}
	var h struct {
		Command           uint32
		InWords, OutWords uint16
	}
	if mem.Read(addr, Bytes(&h)) != nil {
		return nil, unix.EFAULT
	}
	c, e := Known(h.Command, find)
	if e != 0 {
		return nil, e
	}
	if n > maxWrite {
		return nil, unix.EINVAL
	}
	if h.Command&CmdExtended != 0 {
		return readExtended(mem, addr, int(n), c, int(h.InWords), int(h.OutWords))
	}
	// Old libraries sent DESTROY_CQ without its last words.
	short := c.Number == cmdDestroyCQ && n == 16
	if int(h.InWords)*4 != int(n) {
		return nil, unix.EINVAL
	}
	if int(n) < c.Req+8 && !short || int(h.OutWords)*4 < c.Resp {
		return nil, unix.ENOSPC
	}
	b := make([]byte, int(n)-8)
	if mem.Read(addr+8, b) != nil {
		return nil, unix.EFAULT
	}
	r := &Request{Cmd: c, Core: b[:min(c.Req, len(b))], Driver: b[min(c.Req, len(b)):]}
	if c.Resp > 0 {
		out := Decode[uint64](b)
		r.Out = Room{mem: mem, Addr: out, Len: c.Resp}
		if drv := int(h.OutWords)*4 - c.Resp; drv > 0 {
			r.DrvOut = Room{mem: mem, Addr: out + uint64(c.Resp), Len: drv}
		}
	}
	return r, 0
}

func readExtended(mem Memory, addr uint64, n int, c *Cmd, in, out int) (*Request, unix.Errno) {
	var x struct {
		Response                  uint64
		ProvInWords, ProvOutWords uint16
		Reserved                  uint32
	}
	if n < 24 {
		return nil, unix.EINVAL
	}
	if mem.Read(addr+8, Bytes(&x)) != nil {
		return nil, unix.EFAULT
	}
	switch {
	case (in+int(x.ProvInWords))*8 != n-24:
		return nil, unix.EINVAL
	case in*8 < c.Req:
		return nil, unix.ENOSPC
	case x.Reserved != 0, (x.Response != 0) != (out != 0 || x.ProvOutWords != 0):
		return nil, unix.EINVAL
	case x.Response != 0 && out*8 < c.Resp:
		return nil, unix.ENOSPC
	}
	b := make([]byte, n-24)
	if mem.Read(addr+24, b) != nil {
		return nil, unix.EFAULT
	}
	r := &Request{Cmd: c, Core: b[:in*8], Driver: b[in*8:], Extends: true}
	if x.Response != 0 {
		r.Out = Room{mem: mem, Addr: x.Response, Len: out * 8}
		if x.ProvOutWords > 0 {
			r.DrvOut = Room{mem: mem, Addr: x.Response + uint64(out)*8, Len: int(x.ProvOutWords) * 8}
		}
	}
	return r, 0
}

// Invoke takes a write() command out of INVOKE_WRITE.
func Invoke(b *Bundle, find func(number uint32) *Cmd) (*Request, unix.Errno) {
	number := b.Uint(WriteCmd)
	if number > 1<<32-1 {
		return nil, unix.EINVAL
	}
	c, e := Known(uint32(number), find)
	if e != 0 {
		return nil, e
	}
	r := &Request{Cmd: c, Core: b.Bytes(CoreIn), Driver: b.Bytes(UHWIn), Out: b.Room(CoreOut), DrvOut: b.Room(UHWOut),
		Extends: number&CmdExtended != 0}
	if len(r.Core) < c.Req || r.Out.Len < c.Resp {
		return nil, unix.ENOSPC
	}
	return r, 0
}

// Take reads the request into a T: short requests are zero-extended, what is unknown must be zero.
func Take[T any](r *Request) (v T, e unix.Errno) {
	if !Cleared(r.Core, Size[T]()) {
		return v, unix.EOPNOTSUPP
	}
	return Decode[T](r.Core), 0
}
