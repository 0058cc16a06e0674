//go:build linux

package cm

import (
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// The kernel's timing of connection messages: an answer is awaited for 1<<12 = 4096 ms, which is
// what the kernel takes for 4.096 µs·2^20, and asked for again fifteen times.
const (
	responseTime = 4096 * time.Millisecond
	retries      = 15
	watchTime    = 50 * time.Millisecond
)

// Limits that the kernel does not know: what a program may make the supervisor keep.
const (
	maxEvents  = 1 << 16 // of one file
	maxBacklog = 1024
	maxOption  = 1 << 16 // bytes
)

// Server is the emulated /dev/infiniband/rdma_cm. The fabric's lock guards it.
type Server struct {
	// Trace, if not nil, is called for each command after it was executed, and for each event as it comes up, lock
	// held.
	Trace func(Record)
	// Creds knows the credentials of threads: those of the thread that opened a file are needed to write to it.
	Creds *guest.Credentials

	f     *hca.Fabric
	files map[string]*file // by the pipe's name
	names sync.Map         // of files, for those who ask without the lock: each write of a program's
	ids   table[id]
	mcs   table[mcast]
	ports map[portKey][]*id // the ids that are bound
	last  uint16            // ephemeral port handed out last

	watching bool // watch runs

	// What tests shorten, and pretend.
	response time.Duration
	timewait time.Duration // 0: from the QP's timeout, as the kernel
	local    func(netip.Addr) bool
	routed   func(netip.Addr) unix.Errno
}

// New returns a server whose ids live on the devices of f.
func New(f *hca.Fabric) *Server {
	return &Server{f: f, files: map[string]*file{}, ports: map[portKey][]*id{}, response: responseTime, local: hostAddr,
		routed: route, Creds: new(guest.Credentials)}
}

// Record is a command of a thread, or an event of a file.
type Record struct {
	TID    int    // 0 for an event
	Name   string // CM_CONNECT; EVENT ESTABLISHED
	ID     uint32 // of the communication identifier
	Status int32  // of an event
	Errno  unix.Errno
}

// file is one open of the device.
type file struct {
	s       *Server
	pid     int
	creds   *guest.Cred // of the thread that opened it
	sig     signal
	ids     map[*id]struct{}
	events  []*event
	waiters []waiter
	closed  bool
	ends    bool // its process ends by itself, not by a signal
}

// signal makes a file readable: it holds a byte for each event. It is a [guest.Pipe].
type signal interface {
	Put(b []byte) error
	Take(n int) int
	Close() error
}

// caller is the thread whose write() is executed.
type caller interface {
	uapi.Memory
	tid() int
	alive() bool
	// signaled reports whether a signal waits for the thread itself that it does not block.
	signaled() bool
	nonblock() bool
	// file returns the name of what a descriptor of the caller leads to, or "".
	file(fd int) string
	answer(n int, e unix.Errno) // n counts without an errno
}

// spoiled is a caller whose answer may be spoiled.
type spoiled struct {
	caller
	hca.Reply
}

func (a *spoiled) Write(addr uint64, b []byte) error { return a.caller.Write(addr, a.Bytes(b)) }

func (a *spoiled) answer(n int, e unix.Errno) { a.caller.answer(int(a.Taken(int64(n))), e) }

// request is one command on its way.
type request struct {
	c       caller
	fl      *file
	addr    uint64 // of the command's body
	in, out int
	len     int // of the whole write
	id      uint32
}

// put writes an answer, or what fits of it where the program knows a shorter one of at least least bytes.
func put[T any](r *request, addr uint64, v *T, least int) unix.Errno {
	b := uapi.Bytes(v)
	if r.out < least {
		return unix.ENOSPC
	}
	if r.c.Write(addr, b[:min(len(b), r.out)]) != nil {
		return unix.EFAULT
	}
	return 0
}

// pending means that the answer comes later.
const pending = unix.Errno(1 << 20)

// open makes a file whose events sig announces.
func (s *Server) open(name string, sig signal) *file {
	fl := &file{s: s, sig: sig, ids: map[*id]struct{}{}}
	s.files[name] = fl
	s.names.Store(name, nil)
	return fl
}

// release is the last close: all ids go, their peers hear of it.
func (s *Server) release(name string) {
	fl := s.files[name]
	if fl == nil {
		return
	}
	delete(s.files, name)
	s.names.Delete(name)
	fl.closed = true
	left := 0
	for i := range fl.ids {
		if !i.hidden {
			left++
		}
		s.destroy(i)
	}
	if left > 0 && s.f.Watch != nil && (fl.ends || guest.Lives(fl.pid)) {
		s.f.Watch.Violation(fl.pid, "leak", "rdma_cm: not destroyed: "+strconv.Itoa(left)+" ids")
	}
	// Threads that wait for an event keep waiting, as in the kernel, where they hold the file: programs close it under
	// them when they end.
	fl.events, fl.waiters = nil, nil
	_ = fl.sig.Close()
}

// Exits is called when a process ends by itself.
func (s *Server) Exits(pid int) {
	s.f.Lock()
	defer s.f.Unlock()
	for _, fl := range s.files {
		if fl.pid == pid {
			fl.ends = true
		}
	}
}

// find returns the id with a number, as the kernel lets a file see it. An id whose CONNECT_REQUEST was not fetched is
// not found, though Linux from 5.10 on would find it, because no program knows its number.
func (s *Server) find(fl *file, num uint32) (*id, unix.Errno) {
	i, e := s.any(fl, num)
	if e == 0 && i.hidden {
		return nil, unix.ENOENT
	}
	return i, e
}

// any is find for any id.
func (s *Server) any(fl *file, num uint32) (*id, unix.Errno) {
	i := s.ids.get(num)
	switch {
	case i == nil:
		return nil, unix.ENOENT
	case i.file != fl:
		return nil, unix.EINVAL
	case i.closing:
		return i, unix.EIO
	}
	return i, 0
}
