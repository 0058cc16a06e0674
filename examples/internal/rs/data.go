package rs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// Read receives what there is, at least a byte.
func (s *Socket) Read(b []byte) (n int, err error) {
	err = s.until(rsocket.PollIn, func() (err error) {
		n, err = s.Recv(b)
		return err
	})
	return n, err
}

// Write sends all of b.
func (s *Socket) Write(b []byte) (sent int, err error) {
	for sent < len(b) && err == nil {
		err = s.until(rsocket.PollOut, func() error {
			n, err := s.Send(b[sent:])
			sent += n
			return err
		})
	}
	return sent, err
}

// WriteAt writes all of b at an offset of the peer's memory.
func (s *Socket) WriteAt(b []byte, offset int64) (written int, err error) {
	for written < len(b) && err == nil {
		err = s.until(rsocket.PollOut, func() error {
			n, err := s.Socket.WriteAt(b[written:], offset+int64(written), 0)
			if n == 0 && err == nil {
				err = fmt.Errorf("the peer has no memory mapped at %d", offset+int64(written))
			}
			written += n
			return err
		})
	}
	return written, err
}

// RecvFrom receives a datagram.
func (s *Socket) RecvFrom(ctx context.Context, b []byte) (n int, from netip.AddrPort, err error) {
	err = s.Try(ctx, rsocket.PollIn, func() (err error) {
		n, from, err = s.Socket.RecvFrom(b, 0)
		return err
	})
	return n, from, err
}

// SendTo sends a datagram.
func (s *Socket) SendTo(b []byte, to netip.AddrPort) error {
	return s.until(rsocket.PollOut, func() error {
		_, err := s.Socket.SendTo(b, 0, to)
		return err
	})
}

// Connected returns an error if the connection has ended.
func (s *Socket) Connected() error {
	var b [1]byte
	_, err := s.RecvFlags(b[:], rsocket.MsgPeek|rsocket.MsgDontWait)
	if errors.Is(err, syscall.EAGAIN) {
		return nil
	}
	return err
}
