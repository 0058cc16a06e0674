package rsocket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind/librdmacm"
	"github.com/pureverbs/pureverbs/internal/life"
)

// Socket is an rsocket. It belongs to the caller and is safe for concurrent use. It does not block
// unless SetNonblock(false) was called.
type Socket struct {
	life   life.Object
	lib    *lib
	fd     int
	domain Domain
	typ    Type

	to      atomic.Pointer[netip.AddrPort] // of the last Connect
	blocks  atomic.Bool
	refused atomic.Bool  // the kernel refuses threads because of their credentials
	peer    atomic.Bool  // of a datagram socket: it has one
	loop    atomic.Bool  // listens on a loopback address
	queue   atomic.Int32 // of a listening socket: the descriptor that is readable while requests wait, or 0
	reading direction
	writing direction

	mu      sync.Mutex
	serving *service             // the service that counts this socket
	pollers map[*Poller]struct{} // those that hold this socket
	maps    map[*IOMap]struct{}
}

// direction is one direction of a socket: receiving or sending.
type direction struct {
	mu   sync.Mutex
	hold librdmacm.Hold // the buffer of the call that is in C
}

// New creates a non-blocking socket. If this host has no device that can be used, the error has the reason, as that of
// rdmacm.NewEventChannel.
//
// C: rsocket.
func New(d Domain, t Type) (*Socket, error) {
	l, err := library()
	if err != nil {
		return nil, err
	}
	fd, err := l.Socket(int(d), int(t))
	if err != nil {
		return nil, explainNew(err)
	}
	return newSocket(&Socket{lib: l, fd: fd, domain: d, typ: t})
}

// newSocket initializes s and makes it non-blocking.
func newSocket(s *Socket) (*Socket, error) {
	s.life.Init("socket", life.Number("socket", "rsocket"))
	if err := s.SetNonblock(true); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// begin keeps the socket open until s.life.Leave.
func (s *Socket) begin() error {
	if !s.life.TryEnter() {
		return ErrClosed
	}
	return nil
}

// with calls f on the open socket.
func (s *Socket) with(f func(fd int) error) error {
	if err := s.beginC(); err != nil {
		return err
	}
	defer s.life.Leave()
	return s.denied(f(s.fd))
}

// count is with for a call that returns a number.
func (s *Socket) count(call func(fd int) (int, error)) (n int, err error) {
	err = s.with(func(fd int) (err error) {
		n, err = call(fd)
		return err
	})
	return n, err
}

// FD returns the descriptor, which only functions of rsocket accept. The socket owns it.
func (s *Socket) FD() int { return s.fd }

// Connect starts a connection. The error is usually EINPROGRESS: wait for PollOut, then call
// ConnectError. It is a *ServiceError if the library cannot have more non-blocking connections. On
// a datagram socket Connect sets the peer.
//
// C: rconnect.
func (s *Socket) Connect(addr netip.AddrPort) error {
	if s.lib != nil && s.typ == Stream && !s.blocks.Load() {
		if err := s.enter(&s.lib.connecting); err != nil {
			return err
		}
	}
	s.to.Store(&addr)
	err := s.withAddr((*librdmacm.Sockets).Connect, addr)
	if err == nil {
		s.peer.Store(true)
	}
	return err
}

// enter counts the socket in a service, once, until Close.
func (s *Socket) enter(v *service) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving != nil || s.life.Closed() {
		return nil
	}
	if err := v.enter(s.lib.Version()); err != nil {
		return err
	}
	s.serving = v
	return nil
}

// Listen makes a bound socket accept connections. PollIn reports that one is pending: a Poller may
// be 200 ms late if the socket blocked during Listen, was added to it before, or there is no /proc.
// [Poll] without a timeout may be late by five seconds, or half a second from rdma-core v63 on.
//
// C: rlisten.
func (s *Socket) Listen(backlog int) error {
	if err := errors.Join(checkInt("backlog", backlog, 0), s.stream("rlisten")); err != nil {
		return err
	}
	if s.lib != nil && s.typ == Stream {
		if err := s.enter(&s.lib.listening); err != nil {
			return err
		}
	}
	at, err := s.LocalAddr()
	if err != nil {
		return err
	}
	s.loop.Store(at.Addr().Unmap().IsLoopback())
	return s.inUse(s.with(func(fd int) error { return s.listen(fd, backlog) }), at)
}

// listen calls rlisten and finds the descriptor from which raccept will read. rpoll does not watch it: it watches the
// descriptor of rdma_cm's events, which a thread of librdmacm has emptied by the time there is anything to accept.
func (s *Socket) listen(fd, backlog int) error {
	s.lib.finding.Lock()
	defer s.lib.finding.Unlock()
	before := sockets()
	if err := s.lib.Listen(fd, backlog); err != nil {
		return err
	}
	var found []int
	for name, q := range sockets() {
		if _, old := before[name]; !old && isQueue(q) {
			found = append(found, q)
		}
	}
	if len(found) == 1 {
		s.queue.Store(int32(found[0]))
	}
	return nil
}

// Accept returns a pending connection, which is non-blocking. The error is EAGAIN if none is
// pending, and a *ServiceError if the library cannot have more connections. On a socket with a loopback address it
// closes connections to other addresses. That address is the one that the peer states, so it does not authenticate the
// peer.
//
// C: raccept.
func (s *Socket) Accept() (*Socket, netip.AddrPort, error) {
	for {
		n, from, err := s.accept()
		if err != nil || !s.loop.Load() {
			return n, from, err
		}
		to, err := n.LocalAddr()
		if err == nil && to.Addr().Unmap().IsLoopback() {
			return n, from, nil
		}
		if err = errors.Join(err, n.Close()); err != nil {
			return nil, netip.AddrPort{}, err
		}
	}
}

func (s *Socket) accept() (*Socket, netip.AddrPort, error) {
	if err := s.begin(); err != nil {
		return nil, netip.AddrPort{}, err
	}
	defer s.life.Leave()
	if err := s.lib.connecting.enter(s.lib.Version()); err != nil {
		return nil, netip.AddrPort{}, err
	}
	fd, a, err := s.lib.Accept(s.fd)
	if err != nil {
		s.lib.connecting.leave()
		return nil, netip.AddrPort{}, err
	}
	n, err := newSocket(&Socket{lib: s.lib, fd: fd, domain: s.domain, typ: s.typ, serving: &s.lib.connecting})
	return n, a.AddrPort(), err
}

// ConnectError returns the result of Connect: nil once the socket is connected, EINPROGRESS while
// it is connecting.
//
// C: rgetsockopt with SO_ERROR, and rgetpeername's state through rpoll.
func (s *Socket) ConnectError() error {
	n, err := s.IntOption(LevelSocket, OptError)
	if err != nil {
		return err
	}
	if n != 0 {
		return s.explain(&Error{Op: "rconnect", Errno: abi.Errno(n)})
	}
	item := []Item{{Socket: s, Events: PollOut}}
	if _, err := Poll(item, 0); err != nil {
		return err
	}
	switch r := item[0].Ready; {
	case r&PollErr != 0:
		// The connection failed with an error that SO_ERROR has already returned.
		return s.explain(&Error{Op: "rconnect", Errno: syscall.ECONNREFUSED})
	case r&PollHup != 0:
		return s.explain(&Error{Op: "rconnect", Errno: syscall.ENOTCONN})
	case r&PollOut == 0:
		return &Error{Op: "rconnect", Errno: syscall.EINPROGRESS}
	}
	return nil
}

// Shutdown ends one direction or both. It waits, in C, until all sent data has arrived.
//
// C: rshutdown.
func (s *Socket) Shutdown(how How) error {
	return s.with(func(fd int) error { return s.lib.Shutdown(fd, int(how)) })
}

// Close ends the connection after all sent data has arrived, or the peer turns out to be gone. It
// removes the socket from pollers, which report it as PollInvalid, waits for calls that are in C,
// and frees the socket. Further calls do nothing.
//
// C: rclose.
func (s *Socket) Close() error {
	if !s.life.Shut() {
		return nil
	}
	s.mu.Lock()
	for p := range s.pollers {
		p.wake()
	}
	s.mu.Unlock()
	var err error
	_, _ = s.life.Close(func() error {
		err = s.destroy()
		return nil // rclose has freed the socket even if it returns an error
	})
	return err
}

func (s *Socket) destroy() error {
	if s.typ == Datagram {
		// rclose of a datagram socket that was never bound never returns. Binding a bound one fails
		// and changes nothing.
		if a, err := newSockaddr(netip.AddrPortFrom(s.unspecified(), 0)); err == nil {
			_ = s.lib.Bind(s.fd, a)
		}
	}
	if s.serving == &s.lib.listening && !s.blocks.Load() {
		s.closePending()
	}
	s.mu.Lock()
	maps := s.maps
	s.maps = nil
	s.mu.Unlock()
	if len(maps) > 0 {
		// rclose of a socket that has mappings never returns (rdma-core v44.0:librdmacm/rsocket.c:971).
		_ = s.lib.Shutdown(s.fd, int(ShutBoth))
	}
	for m := range maps {
		_ = s.lib.IOUnmap(s.fd, m.b)
	}
	rclose := s.lib.Close
	if s.typ == Stream {
		rclose = s.lib.CloseStream
	}
	err := rclose(s.fd)
	s.mu.Lock()
	if s.serving != nil {
		s.serving.leave()
	}
	s.mu.Unlock()
	for m := range maps {
		m.pin.Unpin()
	}
	return err
}

// SetOption sets an option to value, in the byte order of memory.
//
// C: rsetsockopt.
func (s *Socket) SetOption(l Level, o Option, value []byte) error {
	return s.with(func(fd int) error { return s.lib.SetSockOpt(fd, int(l), int(o), value) })
}

// Option reads an option into value and returns its length in bytes.
//
// C: rgetsockopt.
func (s *Socket) Option(l Level, o Option, value []byte) (n int, err error) {
	return s.count(func(fd int) (int, error) { return s.lib.GetSockOpt(fd, int(l), int(o), value) })
}

// SetIntOption sets an option that is an int.
//
// C: rsetsockopt.
func (s *Socket) SetIntOption(l Level, o Option, value int) error {
	if err := checkInt("value", value, math.MinInt32); err != nil {
		return err
	}
	return s.SetOption(l, o, binary.NativeEndian.AppendUint32(nil, uint32(value)))
}

// IntOption reads an option that is an int.
//
// C: rgetsockopt.
func (s *Socket) IntOption(l Level, o Option) (int, error) {
	var b [4]byte
	_, err := s.Option(l, o, b[:])
	return int(int32(binary.NativeEndian.Uint32(b[:]))), err
}

// SetReuseAddr lets Bind use an address whose last connections have just ended.
func (s *Socket) SetReuseAddr() error { return s.SetIntOption(LevelSocket, OptReuseAddr, 1) }

// Fcntl reads or sets the flags of the descriptor: F… commands only.
//
// C: rfcntl.
func (s *Socket) Fcntl(cmd, arg int) (n int, err error) {
	if err := errors.Join(checkInt("command", cmd, 0), checkInt("argument", arg, math.MinInt32)); err != nil {
		return 0, err
	}
	return s.count(func(fd int) (int, error) { return s.lib.Fcntl(fd, cmd, arg) })
}

// checkInt rejects a value that a C int cannot hold.
func checkInt(arg string, v, least int) error {
	if v < least || v > math.MaxInt32 {
		return &ibv.ArgError{Arg: arg, Got: strconv.Itoa(v), Want: fmt.Sprintf("%d to %d", least, math.MaxInt32)}
	}
	return nil
}

// SetNonblock sets whether calls return EAGAIN, the default, or block. A blocking call holds a
// thread and cannot be interrupted, and Close waits for it.
//
// C: rfcntl with F_SETFL.
func (s *Socket) SetNonblock(on bool) error {
	n, err := s.Fcntl(FGetFL, 0)
	if err != nil {
		return err
	}
	if n &^= nonblock; on {
		n |= nonblock
	}
	if _, err = s.Fcntl(FSetFL, n); err == nil {
		s.blocks.Store(!on)
	}
	return err
}

// eof turns a read of 0 bytes from a stream into io.EOF. A datagram may be empty.
func (s *Socket) eof(n, want int, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	if n == 0 && want > 0 && s.typ != Datagram {
		return 0, io.EOF
	}
	return n, nil
}

func (s *Socket) unspecified() netip.Addr {
	if s.domain == DomainINET6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// closePending closes connections that were not accepted, since rclose of the listening socket
// leaks them.
//
// Preconditions: the caller is Close.
func (s *Socket) closePending() {
	for s.lib.connecting.enter("") == nil {
		fd, _, err := s.lib.Accept(s.fd)
		if err == nil {
			err = s.lib.CloseStream(fd)
		}
		s.lib.connecting.leave()
		if err != nil {
			return
		}
	}
}
