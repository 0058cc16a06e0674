//go:build linux

package verbs

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// filePrefix leads the names of the files that stand for open devices; Owns knows them as /proc shows them.
const filePrefix = "emu-uverbs-"

// fileSize leaves room for the highest doorbell page: the file is sparse.
const fileSize = 16 << 8 * pageSize

// Server answers for all devices of a fabric.
type Server struct {
	// Trace, if not nil, is called for each command after it was answered. It may be called by several goroutines at
	// once.
	Trace func(*Record)
	// Creds knows the credentials of threads: those of the thread that opened a file are needed to write to it.
	Creds *guest.Credentials

	f         *hca.Fabric
	mu        sync.Mutex
	next      int
	files     map[string]*file // by name
	ticking   bool
	releasing int // files whose context is being released

	spare map[*hca.Context][]*guest.Pipe // further async files; the fabric's lock guards it
}

// file is an open device.
type file struct {
	ctx   *hca.Context
	creds *guest.Cred // of the thread that opened it
	clock clock
	pages [][]byte
}

// New returns a server for f.
func New(f *hca.Fabric) *Server {
	return &Server{f: f, Creds: new(guest.Credentials), files: map[string]*file{},
		spare: map[*hca.Context][]*guest.Pipe{}}
}

func (s *Server) lookup(name string) *file {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[name]
}

// ioctl carries out an ioctl whose argument is at addr.
func (s *Server) ioctl(who *answered, x *hca.Context, request, addr uint64) unix.Errno {
	if request != uapi.VerbsIoctl {
		return unix.ENOTTY
	}
	forms := &abis[x.Device.Config.ABI]
	if forms.noIoctl {
		return unix.ENOTTY
	}
	b, e := uapi.ReadIoctl(who, addr, forms.method)
	if e != 0 {
		return forms.refusal(e)
	}
	c := &call{s: s, who: who, ctx: x, name: b.Method.Name, b: b}
	if c.name == "invoke_write" {
		if c.r, e = uapi.Invoke(b, forms.cmd); e != 0 {
			return forms.refusal(e)
		}
		c.name, c.b = c.r.Cmd.Name, nil
	}
	return c.run(b)
}

// write carries out a write() of n bytes at addr.
func (s *Server) write(who *answered, x *hca.Context, addr, n uint64) unix.Errno {
	if abis[x.Device.Config.ABI].noWrite {
		s.f.Lock()
		defer s.f.Unlock()
		if w := s.f.Watch; w != nil {
			w.Violation(who.mem().PID, RuleWrite, x.Device.Config.Name+": a command was written")
		}
		return unix.EINVAL
	}
	r, e := uapi.ReadWrite(who, addr, n, uapi.FindCmd)
	if e != 0 {
		return e
	}
	return (&call{s: s, who: who, ctx: x, name: r.Cmd.Name, r: r}).run(nil)
}

// run carries out a command. Its answers are in b, unless it is of a write(); an error may have some too.
func (c *call) run(b *uapi.Bundle) unix.Errno {
	e := verbs[c.name](c)
	if e == 0 && c.b != nil {
		e = c.b.Room(uapi.UHWOut).Valid()
	}
	if b != nil {
		if full := b.Flush(); e == 0 {
			e = full
		}
	}
	if e != 0 && c.undo != nil {
		c.s.f.Lock()
		c.undo()
		c.s.f.Unlock()
	}
	// This errno means that the interface lacks a method or an attribute, nothing else.
	if e == unix.EPROTONOSUPPORT {
		e = unix.EINVAL
	}
	if t := c.s.Trace; t != nil {
		t(&Record{PID: c.who.mem().PID, Context: c.ctx, Name: c.name, Request: c.req, Response: c.resp, Errno: e})
	}
	return e
}

// mmap returns 0 if the kernel may carry out a mapping of a device file.
func (s *Server) mmap(x *hca.Context, length, prot, flags, offset uint64) unix.Errno {
	const shared, sharedValidate, kind = unix.MAP_SHARED, unix.MAP_SHARED_VALIDATE, 0xf
	s.f.Lock()
	defer s.f.Unlock()
	dm := offset/pageSize>>8 == uapi.MmapDM
	if !x.Ready || length == 0 || length > pageSize && !dm || offset%pageSize != 0 ||
		flags&kind != shared && flags&kind != sharedValidate {
		return unix.EINVAL
	}
	page := offset / pageSize
	switch {
	case page == coreClockOff/pageSize && prot&unix.PROT_WRITE != 0,
		page == clockInfoOff/pageSize && prot&(unix.PROT_WRITE|unix.PROT_EXEC) != 0:
		return unix.EPERM
	case page == coreClockOff/pageSize, page == clockInfoOff/pageSize:
		return 0
	case page>>8 == uapi.MmapClockInfo:
		return unix.EOPNOTSUPP
	}
	if dm {
		if !hca.MapsDM(x, page, (length+pageSize-1)/pageSize) {
			return unix.EINVAL
		}
		return 0
	}
	switch i := int(page & 0xff); page >> 8 {
	case uapi.MmapRegular, uapi.MmapWC, uapi.MmapNC:
		return hca.RegistersOf(x).MapStatic(i, int64(page))
	case uapi.MmapAllocWC:
		return hca.RegistersOf(x).MapDynamic(i, int64(page))
	case hca.MmapVAR:
		if hca.Lookup(x, func(v *hca.VAR) bool { return v.Index == i }) != nil {
			return 0
		}
		return unix.EINVAL
	}
	if i := page - uapi.MmapUAR<<8; page >= uapi.MmapUAR<<8 && i <= 0xff && hca.UARAt(x, int(i)) != nil {
		return 0
	}
	return unix.EINVAL
}
