package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// session is one connection, on either side. It is not safe for concurrent use.
type session struct {
	o     *options
	out   io.Writer
	c     *rdmacm.Conn
	note  *ibv.MR  // two messages: one to send, one received
	data  *ibv.MR  // a ping, and behind it a client's place for the pong
	inbox []region // messages that came while something else was waited for
}

// region is memory of the peer, as described by a message.
type region struct {
	at   ibv.RemoteAddr
	size int
}

// noteSize is the length of a message: address, key and length, big-endian.
const noteSize = 16

// errEnd is returned when the client has disconnected between two pings.
var errEnd = errors.New("the client has disconnected")

// MessageError reports a message that violates the protocol.
type MessageError struct{ Got, Want string }

func (e *MessageError) Error() string { return fmt.Sprintf("a message of %s, want %s", e.Got, e.Want) }

func (s *session) options() *rdmacm.Options {
	return &rdmacm.Options{QP: ibv.QPOptions{MaxSendWR: 16, MaxRecvWR: 1}, Prepare: s.prepare}
}

// prepare runs before the peer can send.
func (s *session) prepare(c *rdmacm.Conn) (err error) {
	s.c = c
	if s.note, err = c.PD().AllocMR(2*noteSize, ibv.LocalWrite, nil); err != nil {
		return err
	}
	c.OnClose(s.note.Close)
	size, access := maxSize, ibv.LocalWrite
	if s.o.client {
		size, access = 2*s.o.size, ibv.LocalWrite|ibv.RemoteRead|ibv.RemoteWrite
	}
	if s.data, err = c.PD().AllocMR(size, access, nil); err != nil {
		return err
	}
	c.OnClose(s.data.Close)
	return s.expect()
}

// expect posts the receive for the next message.
func (s *session) expect() error {
	_, err := s.c.QP().PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{s.note.SGE(noteSize, noteSize)}}})
	return err
}

// ping is one round of the client.
func (s *session) ping(ctx context.Context, n int) error {
	size := s.o.size
	source, sink := s.data.Bytes()[:size], s.data.Bytes()[size:]
	fill(source, n)
	clear(sink)
	for _, at := range []uint64{0, uint64(size)} { // it reads from the first and writes to the second
		if err := s.tell(region{s.data.Remote().At(at), size}); err != nil {
			return err
		}
		if _, err := s.message(ctx); err != nil {
			return err
		}
	}
	if s.o.verify {
		if err := verify(sink, n); err != nil {
			return err
		}
	}
	s.show("", sink)
	return nil
}

// reply is one round of the server.
func (s *session) reply(ctx context.Context, n int) error {
	source, err := s.message(ctx)
	if errors.Is(err, rdmacm.ErrDisconnected) {
		return errEnd
	}
	if err != nil {
		return err
	}
	if err := s.rdma(ctx, ibv.OpRead, source); err != nil {
		return err
	}
	got := s.data.Bytes()[:source.size]
	if s.o.verify {
		if err := verify(got, n); err != nil {
			return err
		}
	}
	s.show("server ", got)
	if err := s.tell(region{}); err != nil { // go ahead; the content is ignored
		return err
	}
	sink, err := s.message(ctx)
	if err != nil {
		return err
	}
	sink.size = min(sink.size, len(text(got))+1) // with its zero byte
	if err := s.rdma(ctx, ibv.OpWrite, sink); err != nil {
		return err
	}
	return s.tell(region{})
}

// tell sends a message. It does not wait: the peer's next one can only come
// after this one has arrived.
func (s *session) tell(r region) error {
	b := s.note.Bytes()[:noteSize]
	binary.BigEndian.PutUint64(b, r.at.Addr)
	binary.BigEndian.PutUint32(b[8:], r.at.RKey)
	binary.BigEndian.PutUint32(b[12:], uint32(r.size))
	_, err := s.c.QP().PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{s.note.SGE(0, noteSize)}}})
	return err
}

// message waits for the peer's next one.
func (s *session) message(ctx context.Context) (region, error) {
	for len(s.inbox) == 0 {
		if _, err := s.completion(ctx); err != nil {
			return region{}, err
		}
	}
	r := s.inbox[0]
	s.inbox = s.inbox[1:]
	return r, nil
}

// rdma reads from the peer's memory, or writes to it, and waits until that is done.
func (s *session) rdma(ctx context.Context, op ibv.Opcode, r region) error {
	if r.size < 1 || r.size > s.data.Len() {
		return &MessageError{Got: fmt.Sprintf("a ping of %d bytes", r.size),
			Want: fmt.Sprintf("1 to %d: make -S of the client smaller", s.data.Len())}
	}
	if _,
		err := s.c.QP().PostSend([]ibv.SendWR{{Opcode: op, Flags: ibv.Signaled, SGEs: []ibv.SGE{s.data.SGE(0, r.size)},
		Remote: r.at}}); err != nil {
		return err
	}
	for {
		wc, err := s.completion(ctx)
		if err != nil {
			return err
		}
		if wc.Opcode == ibv.WCRead || wc.Opcode == ibv.WCWrite {
			return nil
		}
	}
}

// completion waits for a completion, and copies a received message out of its buffer.
func (s *session) completion(ctx context.Context) (ibv.WC, error) {
	wc, err := s.next(ctx)
	if err != nil || wc.Opcode != ibv.WCRecv {
		return wc, err
	}
	if wc.ByteLen != noteSize {
		return wc, &MessageError{Got: fmt.Sprintf("%d bytes", wc.ByteLen), Want: fmt.Sprint(noteSize)}
	}
	b := s.note.Bytes()[noteSize:]
	s.inbox = append(s.inbox, region{
		at:   ibv.RemoteAddr{Addr: binary.BigEndian.Uint64(b), RKey: binary.BigEndian.Uint32(b[8:])},
		size: int(binary.BigEndian.Uint32(b[12:])),
	})
	return wc, s.expect()
}

// next waits for a completion of the connection, which must be a success, for as long as --timeout says.
func (s *session) next(ctx context.Context) (ibv.WC, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.timeout, fmt.Errorf("nothing for %v: the peer is gone or stuck ("+
		"--timeout waits longer)", s.o.timeout))
	defer cancel()
	var wc [1]ibv.WC
	_, err := s.c.CQ().Wait(ctx, wc[:])
	switch {
	case ctx.Err() != nil:
		return wc[0], context.Cause(ctx)
	case err == nil:
		err = wc[0].Err()
	}
	// The connection has ended; on iWARP its event may come later. There a message that has arrived may fail at its
	// sender if the peer has ended the connection at once.
	acked := s.c.PD().Device().Info().Transport.SendsAcked()
	if status := wc[0].Status; status == ibv.WCWRFlushErr || status == ibv.WCLocQPOpErr && !acked {
		select {
		case <-s.c.Done():
		case <-ctx.Done():
		}
	}
	if err != nil && s.c.Err() != nil {
		err = s.c.Err()
	}
	return wc[0], err
}

// text returns the bytes before the first zero byte.
func text(b []byte) []byte {
	t, _, _ := bytes.Cut(b, []byte{0})
	return t
}

func (s *session) show(who string, b []byte) {
	if s.o.verbose {
		fmt.Fprintf(s.out, "%sping data: %s\n", who, text(b))
	}
}

func (s *session) report(n int) {
	checked := ""
	if s.o.verify {
		checked = ", every byte as it should be"
	}
	fmt.Fprintf(s.out, "%d pings%s\n", n, checked)
}
