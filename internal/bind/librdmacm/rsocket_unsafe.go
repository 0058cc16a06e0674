package librdmacm

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/loader"
)

// Sockets is the rsocket of librdmacm.
type Sockets struct {
	lib           bind.Library
	fail          func(function string, errno syscall.Errno) error
	rread, rwrite uintptr // looked up once, for the hot path
}

// OpenSockets opens the library, once. fail returns the error for the errno of a function.
func OpenSockets(fail func(function string, errno syscall.Errno) error) (*Sockets, error) {
	l, err := bind.Open(loader.RDMACM)
	if err != nil {
		return nil, err
	}
	s := &Sockets{lib: l, fail: fail}
	if s.rread, err = l.Symbol("rread"); err != nil {
		return nil, err
	}
	if s.rwrite, err = l.Symbol("rwrite"); err != nil {
		return nil, err
	}
	return s, nil
}

// Version returns the library's version, as in "44.0"; it may be empty.
func (c *Sockets) Version() string { return c.lib.Version() }

// HasWriteCMEvent reports whether the library has rdma_write_cm_event, which v60 introduced.
func (c *Sockets) HasWriteCMEvent() bool { return c.lib.Has("rdma_write_cm_event") }

func (c *Sockets) error(name string, err error) error {
	if errno, ok := err.(syscall.Errno); ok {
		return c.fail(name, errno)
	}
	return err
}

//go:uintptrescapes
func (c *Sockets) int(name string, args ...uintptr) (int, error) {
	n, err := c.lib.Minus1Int(name, args...)
	return n, c.error(name, err)
}

//go:uintptrescapes
func (c *Sockets) ssize(name string, args ...uintptr) (int, error) {
	n, err := c.lib.Size(name, args...)
	return n, c.error(name, err)
}

// int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen);
func (c *Sockets) Accept(fd int) (int, *sockaddr.Addr, error) { return c.getAddr("raccept", fd) }

// int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen);
func (c *Sockets) GetPeerName(fd int) (*sockaddr.Addr, error) {
	_, a, err := c.getAddr("rgetpeername", fd)
	return a, err
}

// int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen);
func (c *Sockets) GetSockName(fd int) (*sockaddr.Addr, error) {
	_, a, err := c.getAddr("rgetsockname", fd)
	return a, err
}

func (c *Sockets) getAddr(name string, fd int) (int, *sockaddr.Addr, error) {
	a, size := new(sockaddr.Addr), new(uint32)
	*size = sockaddr.Size
	n, err := c.int(name, uintptr(fd), uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(size)))
	return n, a, err
}

// int rclose(int socket); it returns some errnos as they are.
func (c *Sockets) Close(fd int) error { return c.error("rclose", c.lib.Err("rclose", uintptr(fd))) }

// Refused reports whether the kernel refuses the calling thread because of its credentials. fd is a stream's, which is
// that of rdma_cm's file.
func (c *Sockets) Refused(fd int) bool { return uverbs.Refused(fd) }

// CloseStream is Close for a stream. If the kernel refuses the thread, librdmacm cannot destroy the ID, and leaves
// rdma_cm's file open; closing it ends the ID. It also waits until a last message is sent, for which CloseStream rings
// the doorbell of a software device.
func (c *Sockets) CloseStream(fd int) error {
	runtime.LockOSThread() // for Refused
	defer runtime.UnlockOSThread()
	if !uverbs.Refused(fd) {
		return c.Close(fd)
	}
	closed, rung := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(rung)
		for {
			select {
			case <-closed:
				return
			case <-time.After(ringInterval):
				Lib{c.lib}.ring()
			}
		}
	}()
	err := c.Close(fd)
	close(closed)
	<-rung
	return errors.Join(err, os.NewFile(uintptr(fd), "").Close())
}

const ringInterval = 10 * time.Millisecond

// ring rings the doorbells of all QPs of software devices, whose handles are small.
func (l Lib) ring() {
	list, contexts, err := l.GetDevices()
	if err != nil {
		return
	}
	defer l.FreeDevices(list)
	for _, c := range contexts {
		for handle := range uint32(1024) {
			_ = uverbs.RingSend(int(cmem.At[abi.Context](c).CmdFD), handle)
		}
	}
}

// Hold keeps the buffer of a Read or Write on the heap and alive without an allocation.
type Hold struct{ p unsafe.Pointer }

// ssize_t rread(int socket, void *buf, size_t count);
// It allocates nothing; h is used by one call at a time.
func (c *Sockets) Read(fd int, b []byte, h *Hold) (int, syscall.Errno) { return rw(c.rread, fd, b, h) }

// ssize_t rwrite(int socket, const void *buf, size_t count);
// It allocates nothing; h is used by one call at a time.
func (c *Sockets) Write(fd int, b []byte, h *Hold) (int, syscall.Errno) {
	return rw(c.rwrite, fd, b, h)
}

func rw(fn uintptr, fd int, b []byte, h *Hold) (int, syscall.Errno) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	h.p = p
	n, errno := ccall.Ssize(fn, uintptr(fd), uintptr(p), uintptr(len(b)))
	h.p = nil
	runtime.KeepAlive(b)
	return n, errno
}

// ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen);
func (c *Sockets) RecvFrom(fd int, b []byte, flags int) (int, *sockaddr.Addr, error) {
	a, size := new(sockaddr.Addr), new(uint32)
	*size = sockaddr.Size
	n, err := c.ssize("rrecvfrom", uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		uintptr(flags), uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(size)))
	return n, a, err
}

// iovec is struct iovec.
type iovec struct {
	base unsafe.Pointer
	len  uint64
}

func iovecs(bufs [][]byte) []iovec {
	v := make([]iovec, len(bufs))
	for i, b := range bufs {
		v[i] = iovec{unsafe.Pointer(unsafe.SliceData(b)), uint64(len(b))}
	}
	return v
}

// msghdr is struct msghdr of LP64.
type msghdr struct {
	name       unsafe.Pointer
	namelen    uint32
	_          uint32
	iov        *iovec
	iovlen     uint64
	control    unsafe.Pointer
	controllen uint64
	flags      int32
	_          uint32
}

// ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags);
func (c *Sockets) RecvMsg(fd int, bufs [][]byte, flags int) (int, error) {
	return c.withMsg("rrecvmsg", fd, bufs, flags)
}

// ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags);
func (c *Sockets) SendMsg(fd int, bufs [][]byte, flags int) (int, error) {
	return c.withMsg("rsendmsg", fd, bufs, flags)
}

func (c *Sockets) withMsg(name string, fd int, bufs [][]byte, flags int) (int, error) {
	v := iovecs(bufs)
	m := &msghdr{iov: unsafe.SliceData(v), iovlen: uint64(len(v))}
	return c.ssize(name, uintptr(fd), uintptr(unsafe.Pointer(m)), uintptr(flags))
}

// ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt);
func (c *Sockets) ReadV(fd int, bufs [][]byte) (int, error) { return c.withVec("rreadv", fd, bufs) }

// ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt);
func (c *Sockets) WriteV(fd int, bufs [][]byte) (int, error) { return c.withVec("rwritev", fd, bufs) }

func (c *Sockets) withVec(name string, fd int, bufs [][]byte) (int, error) {
	v := iovecs(bufs)
	return c.ssize(name, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)))
}

// PollFD is struct pollfd.
type PollFD struct {
	FD              int32
	Events, Revents int16
}

// FDSet is fd_set.
type FDSet [FDSetSize / 64]uint64

// FDSetSize is the number of descriptors that an FDSet can have.
const FDSetSize = 1024

// Set adds a descriptor, which is below FDSetSize.
func (s *FDSet) Set(fd int) { s[fd/64] |= 1 << (fd % 64) }

// Has reports whether a descriptor is in the set.
func (s *FDSet) Has(fd int) bool { return s[fd/64]&(1<<(fd%64)) != 0 }

// int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout);
func (c *Sockets) Select(n int, sets *[3]FDSet, tv *[2]int64) (int, error) {
	return c.int("rselect", uintptr(n), uintptr(unsafe.Pointer(&sets[0])), uintptr(unsafe.Pointer(&sets[1])),
		uintptr(unsafe.Pointer(&sets[2])), uintptr(unsafe.Pointer(tv)))
}

// int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen);
func (c *Sockets) GetSockOpt(fd, level, name int, v []byte) (int, error) {
	n := new(uint32)
	*n = uint32(len(v))
	_, err := c.int("rgetsockopt", uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(unsafe.Pointer(n)))
	return min(int(*n), len(v)), err
}
