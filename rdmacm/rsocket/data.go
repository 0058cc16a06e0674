package rsocket

import (
	"net/netip"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// Recv receives available bytes, at most len(b). The error is EAGAIN if there are none, and io.EOF
// after the last of a stream. It allocates nothing, except that b is moved to the heap if it is on the stack.
//
// C: rread.
func (s *Socket) Recv(b []byte) (int, error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	s.reading.mu.Lock()
	n, errno := s.lib.Read(s.fd, b, &s.reading.hold)
	s.reading.mu.Unlock()
	s.life.Leave()
	switch {
	case errno == syscall.EAGAIN:
		return 0, errReadAgain
	case errno != 0:
		return 0, s.explain(&Error{Op: "rread", Errno: errno})
	}
	return s.eof(n, len(b), nil)
}

// Send sends as many bytes of b as there is room for and returns their number. The error is EAGAIN
// if there is no room. It allocates nothing, except that b is moved to the heap if it is on the
// stack.
//
// C: rwrite.
func (s *Socket) Send(b []byte) (int, error) {
	if err := s.checkDatagram("rwrite", len(b), s.peer.Load()); err != nil {
		return 0, err
	}
	if err := s.begin(); err != nil {
		return 0, err
	}
	s.writing.mu.Lock()
	n, errno := s.lib.Write(s.fd, b, &s.writing.hold)
	s.writing.mu.Unlock()
	s.life.Leave()
	switch {
	case errno == syscall.EAGAIN:
		return 0, errWriteAgain
	case errno != 0:
		return 0, s.explain(&Error{Op: "rwrite", Errno: errno})
	}
	return n, nil
}

// RecvFlags is Recv with flags.
//
// C: rrecv.
func (s *Socket) RecvFlags(b []byte, f Flags) (n int, err error) {
	n, err = s.count(func(fd int) (int, error) { return s.lib.Recv(fd, b, int(f)) })
	return s.eof(n, len(b), err)
}

// SendFlags is Send with flags.
//
// C: rsend.
func (s *Socket) SendFlags(b []byte, f Flags) (n int, err error) {
	if err := s.checkDatagram("rsend", len(b), s.peer.Load()); err != nil {
		return 0, err
	}
	return s.count(func(fd int) (int, error) { return s.lib.Send(fd, b, int(f)) })
}

// RecvFrom receives a datagram, truncated to len(b), and returns its source. On a stream from is
// zero.
//
// C: rrecvfrom.
func (s *Socket) RecvFrom(b []byte, f Flags) (n int, from netip.AddrPort, err error) {
	err = s.with(func(fd int) error {
		var a *sockaddr.Addr
		if n, a, err = s.lib.RecvFrom(fd, b, int(f)); err == nil {
			from = a.AddrPort()
		}
		return err
	})
	return n, from, err
}

// SendTo sends a datagram, and makes its destination that of Send.
//
// C: rsendto.
func (s *Socket) SendTo(b []byte, f Flags, to netip.AddrPort) (n int, err error) {
	if err := s.checkDatagram("rsendto", len(b), true); err != nil {
		return 0, err
	}
	a, err := newSockaddr(to)
	if err != nil {
		return 0, err
	}
	n, err = s.count(func(fd int) (int, error) { return s.lib.SendTo(fd, b, int(f), a) })
	if err == nil {
		s.peer.Store(true)
	}
	return n, err
}

// RecvMsg receives into several buffers, in order. The library fills only the first of them in one
// call.
//
// C: rrecvmsg.
func (s *Socket) RecvMsg(bufs [][]byte, f Flags) (n int, err error) {
	n, err = s.count(func(fd int) (int, error) { return s.lib.RecvMsg(fd, bufs, int(f)) })
	return s.eof(n, total(bufs), err)
}

// SendMsg sends from several buffers, in order. It is for streams only.
//
// C: rsendmsg.
func (s *Socket) SendMsg(bufs [][]byte, f Flags) (n int, err error) {
	if err := s.stream("rsendmsg"); err != nil {
		return 0, err
	}
	return s.count(func(fd int) (int, error) { return s.lib.SendMsg(fd, bufs, int(f)) })
}

// ReadV is RecvMsg without flags.
//
// C: rreadv.
func (s *Socket) ReadV(bufs [][]byte) (n int, err error) {
	n, err = s.count(func(fd int) (int, error) { return s.lib.ReadV(fd, bufs) })
	return s.eof(n, total(bufs), err)
}

// WriteV is SendMsg without flags.
//
// C: rwritev.
func (s *Socket) WriteV(bufs [][]byte) (n int, err error) {
	if err := s.stream("rwritev"); err != nil {
		return 0, err
	}
	return s.count(func(fd int) (int, error) { return s.lib.WriteV(fd, bufs) })
}

func total(bufs [][]byte) (n int) {
	for _, b := range bufs {
		n += len(b)
	}
	return n
}
