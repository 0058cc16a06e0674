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
	"github.com/pureverbs/pureverbs/internal/leak"
)

// Socket is an rsocket. It belongs to the caller, does not block unless SetNonblock
// says so, and is safe for concurrent use.
type Socket struct {
	lib    *lib
	fd     int
	domain Domain
	typ    Type

	use     sync.RWMutex // held shared by each call in C, wholly by Close
	closed  atomic.Bool
	blocks  atomic.Bool
	reading direction
	writing direction

	mu      sync.Mutex
	serving *service             // counts this socket
	pollers map[*Poller]struct{} // which have this socket
	maps    map[*IOMap]struct{}

	leak *leak.Record
}

// New makes a socket.
//
// C: rsocket.
func New(d Domain, t Type) (*Socket, error) {
	l, err := library()
	if err != nil {
		return nil, err
	}
	fd, err := l.socket(d, t)
	if err != nil {
		return nil, err
	}
	return newSocket(&Socket{lib: l, fd: fd, domain: d, typ: t})
}

// newSocket makes a socket non-blocking.
func newSocket(s *Socket) (*Socket, error) {
	s.leak = leak.Track("rsocket")
	if err := s.SetNonblock(true); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// begin holds the socket open until s.use.RUnlock.
func (s *Socket) begin() error {
	if s.closed.Load() || !s.use.TryRLock() {
		return ErrClosed // only Close holds it otherwise
	}
	if s.closed.Load() {
		s.use.RUnlock()
		return ErrClosed
	}
	return nil
}

// with calls f on the open socket.
func (s *Socket) with(f func(fd int) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.use.RUnlock()
	return f(s.fd)
}

// FD is the descriptor, for rsocket's own calls only. It is the socket's.
func (s *Socket) FD() int { return s.fd }

// Bind gives the socket a local address; port 0 is any that is free.
//
// C: rbind.
func (s *Socket) Bind(addr netip.AddrPort) error { return s.withAddr("rbind", addr) }

// Connect begins a connection. The error is EINPROGRESS as a rule: wait for Out,
// then ask EventConnectError. A *ServiceError says that the library cannot have more
// connections that do not block. Of a datagram socket it sets the peer.
//
// C: rconnect.
func (s *Socket) Connect(addr netip.AddrPort) error {
	if s.lib != nil && s.typ == Stream && !s.blocks.Load() {
		if err := s.enter(&s.lib.connecting); err != nil {
			return err
		}
	}
	return s.withAddr("rconnect", addr)
}

// enter counts the socket with a service, once, until Close.
func (s *Socket) enter(v *service) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving != nil || s.closed.Load() {
		return nil
	}
	if err := v.enter(s.lib.lib.Version()); err != nil {
		return err
	}
	s.serving = v
	return nil
}

func (s *Socket) withAddr(name string, addr netip.AddrPort) error {
	a, err := newSockaddr(addr)
	if err != nil {
		return err
	}
	return s.with(func(fd int) error {
		err := s.lib.withAddr(name, fd, a)
		var e *Error
		if errors.As(err, &e) {
			e.Object = addr.String()
		}
		return err
	})
}

// Listen makes a bound socket take connections; In says that one waits.
//
// C: rlisten.
func (s *Socket) Listen(backlog int) error {
	if err := checkInt("backlog", backlog, 0); err != nil {
		return err
	}
	if s.lib != nil && s.typ == Stream {
		if err := s.enter(&s.lib.listening); err != nil {
			return err
		}
	}
	return s.with(func(fd int) error { return s.lib.listen(fd, backlog) })
}

// Accept takes a connection that waits; EAGAIN if none does. The connection does
// not block either. A *ServiceError says that the library cannot have more.
//
// C: raccept.
func (s *Socket) Accept() (*Socket, netip.AddrPort, error) {
	if err := s.begin(); err != nil {
		return nil, netip.AddrPort{}, err
	}
	defer s.use.RUnlock()
	if err := s.lib.connecting.enter(s.lib.lib.Version()); err != nil {
		return nil, netip.AddrPort{}, err
	}
	fd, a, err := s.lib.addrOf("raccept", s.fd)
	if err != nil {
		s.lib.connecting.leave()
		return nil, netip.AddrPort{}, err
	}
	n, err := newSocket(&Socket{lib: s.lib, fd: fd, domain: s.domain, typ: s.typ, serving: &s.lib.connecting})
	return n, a.addrPort(), err
}

// EventConnectError is what became of a connection: nil when it is there, EINPROGRESS
// while it is under way.
//
// C: rgetsockopt with SO_ERROR, and rgetpeername's state through rpoll.
func (s *Socket) ConnectError() error {
	n, err := s.IntOption(LevelSocket, OptError)
	if err != nil {
		return err
	}
	if n != 0 {
		return &Error{Op: "rconnect", Errno: syscall.Errno(n)}
	}
	item := []Item{{Socket: s, Events: PollOut}}
	if _, err := Poll(item, 0); err != nil {
		return err
	}
	switch r := item[0].Ready; {
	case r&PollErr != 0:
		// The state is an error that SO_ERROR has told before.
		return &Error{Op: "rconnect", Errno: syscall.ECONNREFUSED}
	case r&PollHup != 0:
		return &Error{Op: "rconnect", Errno: syscall.ENOTCONN}
	case r&PollOut == 0:
		return &Error{Op: "rconnect", Errno: syscall.EINPROGRESS}
	}
	return nil
}

// Shutdown ends one direction or both. It waits, in C, until what was sent has
// arrived.
//
// C: rshutdown.
func (s *Socket) Shutdown(how How) error {
	return s.with(func(fd int) error { return s.lib.shutdown(fd, how) })
}

// Close ends the connection, after what was sent has arrived or the peer is found
// gone, takes the socket out of pollers, which report it as Invalid, and frees it.
// Calls that are in C are waited for. More calls do nothing.
//
// C: rclose.
func (s *Socket) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.mu.Lock()
	for p := range s.pollers {
		p.wake()
	}
	s.mu.Unlock()
	s.use.Lock()
	defer s.use.Unlock()
	s.leak.Done()
	if s.typ == Datagram {
		// rclose waits for ever for a datagram socket that was never bound. Binding one
		// again fails, and changes nothing.
		if a, err := newSockaddr(netip.AddrPortFrom(s.unspecified(), 0)); err == nil {
			_ = s.lib.withAddr("rbind", s.fd, a)
		}
	}
	if s.serving == &s.lib.listening && !s.blocks.Load() {
		s.turnAway()
	}
	err := s.lib.close(s.fd)
	s.mu.Lock()
	maps := s.maps
	s.maps = nil
	if s.serving != nil {
		s.serving.leave()
	}
	s.mu.Unlock()
	for m := range maps {
		m.pin.Unpin()
	}
	return err
}

// LocalAddr is this end's address.
//
// C: rgetsockname.
func (s *Socket) LocalAddr() (netip.AddrPort, error) { return s.name("rgetsockname") }

// RemoteAddr is the peer's address.
//
// C: rgetpeername.
func (s *Socket) RemoteAddr() (netip.AddrPort, error) { return s.name("rgetpeername") }

func (s *Socket) name(fn string) (ap netip.AddrPort, err error) {
	err = s.with(func(fd int) error {
		_, a, err := s.lib.addrOf(fn, fd)
		if err == nil {
			ap = a.addrPort()
		}
		return err
	})
	return ap, err
}

// SetOption sets an option to bytes in memory order.
//
// C: rsetsockopt.
func (s *Socket) SetOption(l Level, o Option, value []byte) error {
	return s.with(func(fd int) error { return s.lib.setOption(fd, l, o, value) })
}

// Option reads an option into value and returns how many bytes it has.
//
// C: rgetsockopt.
func (s *Socket) Option(l Level, o Option, value []byte) (n int, err error) {
	err = s.with(func(fd int) (err error) {
		n, err = s.lib.option(fd, l, o, value)
		return err
	})
	return n, err
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

// SetReuseAddr lets Bind take an address whose last connections have just ended.
func (s *Socket) SetReuseAddr() error { return s.SetIntOption(LevelSocket, OptReuseAddr, 1) }

// Fcntl reads or sets the flags of the descriptor: F… commands only.
//
// C: rfcntl.
func (s *Socket) Fcntl(cmd, arg int) (n int, err error) {
	if err := errors.Join(checkInt("command", cmd, 0), checkInt("argument", arg, math.MinInt32)); err != nil {
		return 0, err
	}
	err = s.with(func(fd int) (err error) {
		n, err = s.lib.fcntl(fd, cmd, arg)
		return err
	})
	return n, err
}

// checkInt refuses what an int of C would cut.
func checkInt(arg string, v, least int) error {
	if v < least || v > math.MaxInt32 {
		return &ibv.ArgError{Arg: arg, Got: strconv.Itoa(v), Want: fmt.Sprintf("%d to %d", least, math.MaxInt32)}
	}
	return nil
}

// SetNonblock says whether calls return EAGAIN, as they do at first, or block. A
// call that blocks holds a thread, nothing ends it, and Close waits for it.
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

// eof is the end of what the peer sends.
func eof(n, want int, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	if n == 0 && want > 0 {
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

// turnAway closes connections that nobody has accepted: rclose of the listening
// socket forgets them.
// Preconditions: s.use is held by Close.
func (s *Socket) turnAway() {
	for s.lib.connecting.enter("") == nil {
		fd, _, err := s.lib.addrOf("raccept", s.fd)
		if err == nil {
			err = s.lib.close(fd)
		}
		s.lib.connecting.leave()
		if err != nil {
			return
		}
	}
}
