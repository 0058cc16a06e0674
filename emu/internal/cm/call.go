//go:build linux

package cm

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/notify"
)

// call answers a trapped system call: exactly one of Return and Errno is called, at once or when an event comes.
type call interface {
	Valid() bool
	Return(v int64)
	Errno(e unix.Errno)
}

// Open answers an open of /dev/infiniband/rdma_cm.
func (s *Server) Open(c *notify.Call) {
	pid, err := guest.TGID(c.TID)
	if err != nil {
		c.Errno(unix.ESRCH)
		return
	}
	r, err := s.pipe(pid, c.TID, int(c.Args[2]))
	if err != nil {
		c.Errno(unix.ENFILE)
		return
	}
	c.AddFD(int(r.Fd()), int(c.Args[2]))
	r.Close() // if the program did not get it, this was the last, and the file is released
}

// Owns reports whether a descriptor that leads to name, as /proc has it ("pipe:[7]"), is an open rdma_cm device.
func (s *Server) Owns(name string) bool {
	_, ok := s.names.Load(name)
	return ok
}

// Write answers a write() to an open rdma_cm device, sooner or later.
func (s *Server) Write(c *notify.Call) { s.write(c, c.TID, c.FD(), c.Args[1], c.Args[2]) }

// pipe makes a file for a thread of process pid: the reading end of a pipe, for the caller to close.
func (s *Server) pipe(pid, tid, flags int) (*os.File, error) {
	p, r, err := guest.NewPipe(flags&unix.O_NONBLOCK != 0)
	if err != nil {
		return nil, err
	}
	s.f.Lock()
	fl := s.open(p.Name(), p)
	fl.pid, fl.creds = pid, s.Creds.Of(tid)
	s.f.Unlock()
	p.OnClose(func() {
		s.f.Lock()
		defer s.f.Unlock()
		s.release(p.Name())
	})
	return r, nil
}

func (s *Server) write(c call, tid, fd int, addr, n uint64) {
	t := &thread{Mem: guest.Mem{PID: tid}, call: c, desc: fd}
	name := t.file(fd)
	s.f.Lock()
	defer s.f.Unlock()
	switch fl := s.files[name]; {
	case fl == nil:
		c.Errno(unix.EBADF)
	case !s.Creds.Has(tid, fl.creds):
		c.Errno(unix.EACCES)
	default:
		s.execute(t, fl, addr, n)
	}
}

// thread is a caller of the real world.
type thread struct {
	guest.Mem
	call call
	desc int
}

func (t *thread) tid() int           { return t.PID }
func (t *thread) alive() bool        { return t.call.Valid() }
func (t *thread) file(fd int) string { return guest.FDName(t.PID, fd) }

func (t *thread) nonblock() bool {
	f, err := guest.FDFlags(t.PID, t.desc)
	return err == nil && f&unix.O_NONBLOCK != 0
}

// signaled reads what the thread's status says of signals: SigPnd, those for the thread, beyond SigBlk.
func (t *thread) signaled() bool {
	s := guest.StatusOf(t.PID)
	pending, _ := s.Number("SigPnd", 16)
	blocked, _ := s.Number("SigBlk", 16)
	if n, _ := s.Number("Threads", 10); n == 1 {
		shared, _ := s.Number("ShdPnd", 16) // nobody else can take it
		pending |= shared
	}
	return pending&^blocked != 0
}

func (t *thread) answer(n int, e unix.Errno) {
	if e != 0 {
		t.call.Errno(e)
	} else {
		t.call.Return(int64(n))
	}
}
