//go:build linux

package umad

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/notify"
)

// Open answers an open of umadN.
func (s *Server) Open(c *notify.Call, n int) {
	p, r, err := guest.NewPackets(c.Args[2]&unix.O_NONBLOCK != 0)
	if err != nil {
		c.Errno(unix.ENFILE)
		return
	}
	_, _ = unix.FcntlInt(r.Fd(), unix.F_SETPIPE_SZ, 1<<20) // each packet takes a page; fewer will do
	s.f.Lock()
	port := s.f.Ports[n]
	gone := port.Device.Gone
	if !gone {
		s.open(p.Name(), port, n, p)
	}
	s.f.Unlock()
	if gone {
		r.Close()
		p.Close()
		c.Errno(unix.ENXIO)
		return
	}
	p.OnClose(func() {
		s.f.Lock()
		defer s.f.Unlock()
		s.close(p.Name())
	})
	c.AddFD(int(r.Fd()), int(c.Args[2]))
	r.Close() // if the program did not get it, this was the last, and the file is closed
}

func (s *Server) open(name string, port *hca.Port, n int, out receiver) *file {
	f := &file{port: port, out: out, pending: map[uint64]*time.Timer{}}
	s.files[name] = f
	s.names.Store(name, n)
	return f
}

// Owns reports whether a descriptor that leads to name, as /proc has it ("pipe:[7]"), is an open device, and which.
func (s *Server) Owns(name string) (n int, ok bool) {
	v, _ := s.names.Load(name)
	n, ok = v.(int)
	return n, ok
}

// Ioctl answers an ioctl of a descriptor that leads to name.
func (s *Server) Ioctl(c *notify.Call, name string) {
	s.do(c, name, 0, func(f *file) unix.Errno { return s.ioctl(c.Mem(), f, uint32(c.Args[1]), c.Args[2]) })
}

// Write answers a write to a descriptor that leads to name.
func (s *Server) Write(c *notify.Call, name string) {
	s.do(c, name, int64(c.Args[2]), func(f *file) unix.Errno { return s.write(c.Mem(), f, c.Args[1], c.Args[2]) })
}

func (s *Server) do(c *notify.Call, name string, result int64, run func(*file) unix.Errno) {
	s.f.Lock()
	f, e := s.files[name], unix.EBADF
	if f != nil {
		e = run(f)
	}
	s.f.Unlock()
	if e != 0 {
		c.Errno(e)
		return
	}
	c.Return(result)
}
