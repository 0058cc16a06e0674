package rsocket

import (
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/loader"
)

// lib calls librdmacm: one method for each C function, with its prototype above.
// What arguments point to is on the heap, which does not move, and lives as long as
// the call. C keeps none of it.
type lib struct {
	lib           *loader.Library
	rread, rwrite uintptr // looked up for every byte

	listening, connecting service
}

// library opens librdmacm once.
var library = sync.OnceValues(func() (*lib, error) {
	l, err := loader.Open(loader.RDMACM)
	if err != nil {
		return nil, err
	}
	c := &lib{lib: l}
	_, err = l.Symbol("rdma_write_cm_event")
	limit := limitOf(l.Version(), err == nil)
	c.listening.what, c.listening.limit = "listening sockets", limit
	c.connecting.what, c.connecting.limit = "connections that were accepted or do not block", limit
	if c.rread, err = l.Symbol("rread"); err != nil {
		return nil, err
	}
	if c.rwrite, err = l.Symbol("rwrite"); err != nil {
		return nil, err
	}
	return c, nil
})

//go:uintptrescapes
func (c *lib) int(name string, args ...uintptr) (int, error) {
	fn, err := c.lib.Symbol(name)
	if err != nil {
		return 0, err
	}
	n, err := ccall.Minus1Int(fn, args...)
	return n, opError(name, err)
}

// opError types an errno.
func opError(name string, err error) error {
	if errno, ok := err.(syscall.Errno); ok {
		return &Error{Op: name, Errno: errno}
	}
	return err
}

// int rsocket(int domain, int type, int protocol);
func (c *lib) socket(d Domain, t Type) (int, error) {
	return c.int("rsocket", uintptr(d), uintptr(t), 0)
}

// int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen);
// int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen);
func (c *lib) withAddr(name string, fd int, a *sockaddr) error {
	_, err := c.int(name, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)), uintptr(a.len))
	return err
}

// int rlisten(int socket, int backlog);
func (c *lib) listen(fd, backlog int) error {
	_, err := c.int("rlisten", uintptr(fd), uintptr(backlog))
	return err
}

// int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen);
// int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen);
// int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen);
func (c *lib) addrOf(name string, fd int) (int, *sockaddr, error) {
	a := &sockaddr{}
	a.len = uint32(len(a.raw))
	n, err := c.int(name, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)), uintptr(unsafe.Pointer(&a.len)))
	return n, a, err
}

// int rshutdown(int socket, int how);
func (c *lib) shutdown(fd int, how How) error {
	_, err := c.int("rshutdown", uintptr(fd), uintptr(how))
	return err
}

// int rclose(int socket); it returns some errnos as they are.
func (c *lib) close(fd int) error {
	fn, err := c.lib.Symbol("rclose")
	if err != nil {
		return err
	}
	return opError("rclose", ccall.Err(fn, uintptr(fd)))
}

// ssize_t rread(int socket, void *buf, size_t count);
// ssize_t rwrite(int socket, const void *buf, size_t count);
//
// *hold keeps the buffer on the heap and alive without an allocation.
func rw(fn uintptr, fd int, b []byte, hold *unsafe.Pointer) (int, syscall.Errno) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	*hold = p
	n, errno := ccall.Ssize(fn, uintptr(fd), uintptr(p), uintptr(len(b)))
	*hold = nil
	runtime.KeepAlive(b)
	return n, errno
}

//go:uintptrescapes
func (c *lib) ssize(name string, args ...uintptr) (int, error) {
	fn, err := c.lib.Symbol(name)
	if err != nil {
		return 0, err
	}
	n, err := ccall.Size(fn, args...)
	return n, opError(name, err)
}

// ssize_t rrecv(int socket, void *buf, size_t len, int flags);
// ssize_t rsend(int socket, const void *buf, size_t len, int flags);
func (c *lib) sendRecv(name string, fd int, b []byte, f Flags) (int, error) {
	return c.ssize(name, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(f))
}

// ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen);
func (c *lib) recvFrom(fd int, b []byte, f Flags) (int, *sockaddr, error) {
	a := &sockaddr{}
	a.len = uint32(len(a.raw))
	n, err := c.ssize("rrecvfrom", uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(f),
		uintptr(unsafe.Pointer(&a.raw)), uintptr(unsafe.Pointer(&a.len)))
	return n, a, err
}

// ssize_t rsendto(int socket, const void *buf, size_t len, int flags, const struct sockaddr *dest_addr, socklen_t addrlen);
func (c *lib) sendTo(fd int, b []byte, f Flags, a *sockaddr) (int, error) {
	return c.ssize("rsendto", uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(f),
		uintptr(unsafe.Pointer(&a.raw)), uintptr(a.len))
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
// ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags);
func (c *lib) msg(name string, fd int, bufs [][]byte, f Flags) (int, error) {
	v := iovecs(bufs)
	m := &msghdr{iov: unsafe.SliceData(v), iovlen: uint64(len(v))}
	return c.ssize(name, uintptr(fd), uintptr(unsafe.Pointer(m)), uintptr(f))
}

// ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt);
// ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt);
func (c *lib) vector(name string, fd int, bufs [][]byte) (int, error) {
	v := iovecs(bufs)
	return c.ssize(name, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)))
}

// pollfd is struct pollfd.
type pollfd struct {
	fd      int32
	events  Events
	revents Events
}

// int rpoll(struct pollfd *fds, nfds_t nfds, int timeout);
func (c *lib) poll(fds []pollfd, ms int) (int, error) {
	return c.int("rpoll", uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(ms))
}

// fdSet is fd_set.
type fdSet [16]uint64

const fdSetSize = 1024

func (s *fdSet) set(fd int)      { s[fd/64] |= 1 << (fd % 64) }
func (s *fdSet) has(fd int) bool { return s[fd/64]&(1<<(fd%64)) != 0 }

// int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout);
func (c *lib) sel(n int, sets *[3]fdSet, tv *[2]int64) (int, error) {
	return c.int("rselect", uintptr(n), uintptr(unsafe.Pointer(&sets[0])), uintptr(unsafe.Pointer(&sets[1])),
		uintptr(unsafe.Pointer(&sets[2])), uintptr(unsafe.Pointer(tv)))
}

// int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen);
func (c *lib) setOption(fd int, l Level, o Option, v []byte) error {
	_, err := c.int("rsetsockopt", uintptr(fd), uintptr(l), uintptr(o), uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)))
	return err
}

// int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen);
func (c *lib) option(fd int, l Level, o Option, v []byte) (int, error) {
	n := new(uint32)
	*n = uint32(len(v))
	_, err := c.int("rgetsockopt", uintptr(fd), uintptr(l), uintptr(o), uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(unsafe.Pointer(n)))
	return min(int(*n), len(v)), err
}

// int rfcntl(int socket, int cmd, ... /* arg */);
func (c *lib) fcntl(fd, cmd, arg int) (int, error) {
	return c.int("rfcntl", uintptr(fd), uintptr(cmd), uintptr(arg))
}

// off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset);
func (c *lib) iomap(fd int, b []byte, p Prot, off int64) (int64, error) {
	n, err := c.ssize("riomap", uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(p), 0, uintptr(off))
	return int64(n), err
}

// int riounmap(int socket, void *buf, size_t len);
func (c *lib) iounmap(fd int, b []byte) error {
	_, err := c.int("riounmap", uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return err
}

// size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags);
func (c *lib) iowrite(fd int, b []byte, off int64, f Flags) (int, error) {
	return c.ssize("riowrite", uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(off), uintptr(f))
}
