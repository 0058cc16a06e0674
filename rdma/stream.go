package rdma

import (
	"context"
	"io"
	"net"
	"runtime"
	"time"

	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// Stream is a connection that carries bytes, like TCP: a net.Conn.
//
// It belongs to the caller, which closes it, and is safe for concurrent use. One that the program has lost ends as by
// CloseNow, with a line in the log, when the garbage collector finds it. Data is copied once on each side. Bytes that
// Write has accepted arrive in order, unless the connection breaks; Close waits until the peer's adapter has all of
// them.
type Stream struct {
	l             *link.Link // nil if TCP carries it
	tcp           *tcpStream // with Options.Fallback
	local, remote *net.TCPAddr
	read, write   deadline.Deadline
}

// newStream makes a stream of a connection.
func newStream(l *link.Link) *Stream {
	s := &Stream{l: l, local: net.TCPAddrFromAddrPort(l.Local), remote: net.TCPAddrFromAddrPort(l.Remote)}
	r := leak.Track("stream to " + l.Remote.String())
	l.Mu.Lock()
	l.Opened = r
	l.Mu.Unlock()
	leak.Watch(s, r)
	endLost(s)
	return s
}

// endLost ends the connection of s if the program has lost s without closing it. As in package net, what nobody can use
// or close is not kept.
func endLost(s *Stream) {
	runtime.AddCleanup(s, func(l *link.Link) {
		if !l.End.Closed() {
			go lose(l) // other cleanups wait for this function
		}
	}, s.l)
}

// lose is closeNow for a connection that the program has lost.
func lose(l *link.Link) {
	if l.Ended() == nil {
		link.Warn(l.Log, "rdma: the program has lost a connection that it did not close: it ends as by CloseNow",
			"local", l.Local, "peer", l.Remote)
	}
	l.CloseNow()
}

// LocalAddr returns the address of this side, a *net.TCPAddr: many programs expect that of a stream. Transport returns
// what carries it.
func (s *Stream) LocalAddr() net.Addr { return s.local }

// RemoteAddr returns the address of the peer, a *net.TCPAddr.
func (s *Stream) RemoteAddr() net.Addr { return s.remote }

// fail makes an error of package net, unless it is io.EOF.
func (s *Stream) fail(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return netOp(op, s.LocalAddr(), s.RemoteAddr(), public(err))
}

// Read reads what has arrived, at least one byte, and waits for it. At the end of what the peer
// sends the error is io.EOF, after the deadline it is os.ErrDeadlineExceeded.
func (s *Stream) Read(p []byte) (int, error) {
	if s.tcp != nil {
		return s.tcp.Read(p)
	}
	n, err := s.l.Reader.Read(turn.Bound{Deadline: &s.read}, p)
	return n, s.fail("read", err)
}

// Write sends p. It waits while the peer does not read, and returns how much of p was accepted.
func (s *Stream) Write(p []byte) (int, error) {
	if s.tcp != nil {
		return s.tcp.Write(p)
	}
	n, err := s.l.Write(turn.Bound{Deadline: &s.write}, p)
	return n, s.fail("write", err)
}

// SetDeadline sets the deadlines of reading and writing, also of calls that wait; the zero time means none. Close stops
// them.
func (s *Stream) SetDeadline(t time.Time) error {
	return s.set(t, (*net.TCPConn).SetDeadline, &s.read, &s.write)
}

// SetReadDeadline sets the deadline of Read, also of one that waits.
func (s *Stream) SetReadDeadline(t time.Time) error {
	return s.set(t, (*net.TCPConn).SetReadDeadline, &s.read)
}

// SetWriteDeadline sets the deadline of Write, also of one that waits.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	return s.set(t, (*net.TCPConn).SetWriteDeadline, &s.write)
}

func (s *Stream) set(t time.Time, tcp func(*net.TCPConn, time.Time) error, which ...*deadline.Deadline) error {
	if s.tcp != nil {
		return tcp(s.tcp.TCPConn, t)
	}
	if s.l.End.Closed() {
		return netOp("set", nil, s.local, ErrClosed)
	}
	for _, d := range which {
		d.Set(t)
	}
	return nil
}

// CloseWrite ends sending: the peer reads io.EOF after all that was written.
func (s *Stream) CloseWrite() error {
	if s.tcp != nil {
		return s.tcp.CloseWrite()
	}
	return s.fail("close", s.l.CloseSend())
}

// CloseRead ends reading: later data is dropped.
func (s *Stream) CloseRead() error {
	if s.tcp != nil {
		return s.tcp.CloseRead()
	}
	return s.fail("close", s.l.CloseRead())
}

// Close closes the connection. The peer reads what was written, then io.EOF; its writes fail. Close waits as
// Conn.Close does, until the peer's adapter has all that was written, and no longer than the write deadline, unless
// that has passed before. The error, a *net.OpError, then has an *UndeliveredError.
func (s *Stream) Close() error {
	if s.tcp != nil {
		return s.tcp.Close()
	}
	s.l.Close()
	s.read.Stop()
	defer s.write.Stop()
	past := s.write.Past()
	if deadline.IsClosed(past) { // crypto/tls sets such a deadline before it closes
		past = nil
	}
	return s.fail("close", s.l.CloseWait(past))
}

// CloseNow closes the connection without waiting. What was not sent is dropped, and the peer's error matches
// syscall.ECONNRESET.
func (s *Stream) CloseNow() error {
	if s.tcp != nil {
		_ = s.tcp.SetLinger(0) // fails only if it was closed
		return s.tcp.Close()
	}
	s.l.CloseNow()
	s.read.Stop()
	s.write.Stop()
	return nil
}

// Done returns a channel that is closed when the connection has ended, by either side; Err then returns why. Of a
// stream that TCP carries, only Read and Write notice that the peer has reset it.
func (s *Stream) Done() <-chan struct{} {
	if s.tcp != nil {
		return s.tcp.open.Done()
	}
	return s.l.End.Done()
}

// Err returns why the connection has ended, or nil while it has not.
func (s *Stream) Err() error {
	if s.tcp != nil {
		return context.Cause(s.tcp.open)
	}
	return public(s.l.Ended())
}

// Engine returns the engine that the stream belongs to, or nil if it is TCP.
func (s *Stream) Engine() *Engine {
	if s.tcp != nil {
		return nil
	}
	return s.l.Shard.Engine.Owner.(*Engine)
}

// Transport describes what carries the stream, such as "rdma mlx5_0 Direct", or with Options.Fallback "tcp: " and why.
func (s *Stream) Transport() string {
	if s.tcp != nil {
		return "tcp: " + s.tcp.why
	}
	return s.l.Shard.CQ.Carrier()
}

var _ net.Conn = (*Stream)(nil)
