//go:build linux

package verbs

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/notify"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// thread is the caller behind a notification.
type thread struct {
	guest.Mem
	n *notify.Call
	x *hca.Context
}

// mem is the context's for each thread of the process that opened it, and the thread's own for others that got the file
// by fork or otherwise.
func (t thread) mem() guest.Mem {
	if guest.Belongs(t.n.TID, t.x.PID) {
		return guest.Mem{PID: t.x.PID}
	}
	pid, err := guest.TGID(t.n.TID)
	if err != nil {
		pid = t.n.TID
	}
	return guest.Mem{PID: pid}
}

// WriteSpans writes all spans with one system call.
func (t thread) WriteSpans(all []uapi.Span) error {
	var at []guest.IOV
	var b []byte
	for _, s := range all {
		at, b = append(at, guest.IOV{Base: s.Addr, Len: uint64(len(s.Bytes))}), append(b, s.Bytes...)
	}
	return t.WriteV(b, at)
}

func (t thread) link(fd int32) string { return guest.FDName(t.n.TID, int(fd)) }

func (t thread) stat(fd int32) (dev, ino uint64, err error) {
	var st unix.Stat_t
	err = unix.Stat("/proc/"+strconv.Itoa(t.n.TID)+"/fd/"+strconv.Itoa(int(fd)), &st)
	return st.Dev, st.Ino, err
}

func (t thread) capable(capability int) bool {
	r, err := guest.RightsOf(t.n.TID)
	return err == nil && r.Caps>>capability&1 != 0
}

func (t thread) id() int { return t.n.TID }

func (t thread) install(fd int) (int, error) { return t.n.InstallFD(fd, unix.O_CLOEXEC) }

// Owns reports whether a descriptor that leads to name, as guest.FDName has it, is an open device.
func (s *Server) Owns(name string) bool { return strings.HasPrefix(name, "/memfd:"+filePrefix) }

// Open answers the opening of a device.
func (s *Server) Open(n *notify.Call, device int) {
	pid, err := guest.TGID(n.TID)
	if err != nil || device < 0 || device >= len(s.f.Devices) {
		n.Errno(unix.ENXIO)
		return
	}
	fl, err := s.open(device, pid)
	if err != nil {
		n.Errno(unix.ENOMEM)
		return
	}
	fl.creds = s.Creds.Of(n.TID)
	g, err := fl.ctx.File.Open()
	if err != nil {
		n.Errno(unix.EMFILE)
		s.release(fl)
		return
	}
	// If the program cannot have it, closing ours releases it.
	n.AddFD(int(g.Fd()), int(n.Args[2]))
	g.Close()
}

// Ioctl answers an ioctl on a descriptor that leads to name.
func (s *Server) Ioctl(n *notify.Call, name string) {
	s.answer(n, name, 0, func(who *answered, x *hca.Context) unix.Errno {
		return s.ioctl(who, x, uint64(uint32(n.Args[1])), n.Args[2])
	})
}

// Write answers a write() on a descriptor that leads to name.
func (s *Server) Write(n *notify.Call, name string) {
	if fl := s.lookup(name); fl != nil && !s.Creds.Has(n.TID, fl.creds) {
		n.Errno(unix.EACCES)
		return
	}
	s.answer(n, name, int64(n.Args[2]), func(who *answered, x *hca.Context) unix.Errno {
		return s.write(who, x, n.Args[1], n.Args[2])
	})
}

func (s *Server) answer(n *notify.Call, name string, result int64, f func(*answered, *hca.Context) unix.Errno) {
	fl := s.lookup(name)
	if fl == nil {
		n.Errno(unix.EBADF)
		return
	}
	who := &answered{caller: thread{n.Mem(), n, fl.ctx}}
	if e := f(who, fl.ctx); e != 0 {
		n.Errno(e)
		return
	}
	n.Return(who.Taken(result))
}

// Mmap answers a mapping of a descriptor that leads to name: the kernel does it if it is one that the device has.
func (s *Server) Mmap(n *notify.Call, name string) {
	fl := s.lookup(name)
	if fl == nil {
		n.Errno(unix.EBADF)
		return
	}
	if e := s.mmap(fl.ctx, n.Args[1], n.Args[2], n.Args[3], n.Args[5]); e != 0 {
		n.Errno(e)
		return
	}
	n.Continue()
}

// Device returns the index of the device that is open by name.
func (s *Server) Device(name string) int {
	if fl := s.lookup(name); fl != nil {
		return fl.ctx.Device.Index
	}
	return 0
}
