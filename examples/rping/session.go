package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// session is one connection, on either side. It is not safe for concurrent use.
type session struct {
	o       *options
	out     io.Writer
	c       *rdmacm.Conn
	note    *ibv.MR // two messages: one to send, one received
	data    *ibv.MR // a ping, and behind it a client's place for the pong
	arrived bool    // a message, which is in note
}

// region is memory of the sender of a message, and the message, big-endian.
type region struct {
	Addr       uint64
	RKey, Size uint32
}

const noteSize = 16

func (s *session) options() *rdmacm.Options {
	return &rdmacm.Options{QP: ibv.QPOptions{MaxSendWR: 16, MaxRecvWR: 1}, Prepare: s.prepare}
}

// prepare runs before the peer can send.
func (s *session) prepare(c *rdmacm.Conn) (err error) {
	defer program.Catch(&err)
	s.c = c
	s.note = program.Must(c.PD().AllocMR(2*noteSize, ibv.LocalWrite, nil))
	c.OnClose(s.note.Close)
	size, access := maxSize, ibv.LocalWrite
	if s.o.client {
		size, access = 2*s.o.size, ibv.LocalWrite|ibv.RemoteRead|ibv.RemoteWrite
	}
	s.data = program.Must(c.PD().AllocMR(size, access, nil))
	c.OnClose(s.data.Close)
	return s.expect()
}

// expect posts the receive for the next message.
func (s *session) expect() error {
	_, err := s.c.QP().PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{s.note.SGE(noteSize, noteSize)}}})
	return err
}

// ping is one round of the client.
func (s *session) ping(ctx context.Context, n int) (err error) {
	defer program.Catch(&err)
	size := s.o.size
	source, sink := s.data.Bytes()[:size], s.data.Bytes()[size:]
	fill(source, n)
	clear(sink)
	for _, at := range []uint64{0, uint64(size)} { // it reads from the first and writes to the second
		program.Check(s.tell(region{s.data.Addr() + at, s.data.RKey(), uint32(size)}))
		program.Must(s.message(ctx))
	}
	return s.check("", sink, n)
}

// reply is one round of the server, after the client's first message.
func (s *session) reply(ctx context.Context, n int, source region) (err error) {
	defer program.Catch(&err)
	program.Check(s.rdma(ctx, ibv.OpRead, source))
	got := s.data.Bytes()[:source.Size]
	program.Check(s.check("server ", got, n))
	program.Check(s.tell(region{})) // go ahead; the content is ignored
	sink := program.Must(s.message(ctx))
	sink.Size = min(sink.Size, uint32(len(text(got)))+1) // with its zero byte
	program.Check(s.rdma(ctx, ibv.OpWrite, sink))
	return s.tell(region{})
}

// tell sends a message. It does not wait: the peer's next one can only come after this one has arrived.
func (s *session) tell(r region) error {
	_, _ = binary.Encode(s.note.Bytes(), binary.BigEndian, r) // it fits
	_, err := s.c.QP().PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{s.note.SGE(0, noteSize)}}})
	return err
}

// message waits for the peer's next one.
func (s *session) message(ctx context.Context) (r region, err error) {
	for !s.arrived {
		if _, err := s.next(ctx); err != nil {
			return r, err
		}
	}
	s.arrived = false
	_, _ = binary.Decode(s.note.Bytes()[noteSize:], binary.BigEndian, &r) // it is whole
	return r, s.expect()
}

// rdma reads from the peer's memory, or writes to it, and waits until that is done.
func (s *session) rdma(ctx context.Context, op ibv.Opcode, r region) error {
	size := int(r.Size)
	if size < 1 || size > s.data.Len() {
		return fmt.Errorf("a message of a ping of %d bytes, want 1 to %d: make -S of the client smaller", size,
			s.data.Len())
	}
	if _, err := s.c.QP().PostSend([]ibv.SendWR{{Opcode: op, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{s.data.SGE(0, size)}, Remote: ibv.RemoteAddr{Addr: r.Addr, RKey: r.RKey}}}); err != nil {
		return err
	}
	for {
		wc, err := s.next(ctx)
		if err != nil || wc.Opcode == ibv.WCRead || wc.Opcode == ibv.WCWrite {
			return err
		}
	}
}

// next waits for a completion, which must be a success, and notes that a message has arrived.
func (s *session) next(ctx context.Context) (ibv.WC, error) {
	wc, err := s.o.timeout.NextOf(ctx, s.c)
	if err == nil && wc.Opcode == ibv.WCRecv && wc.ByteLen != noteSize {
		err = fmt.Errorf("a message of %d bytes, want %d", wc.ByteLen, noteSize)
	}
	s.arrived = s.arrived || wc.Opcode == ibv.WCRecv
	return wc, err
}

// text returns the bytes before the first zero byte.
func text(b []byte) []byte {
	t, _, _ := bytes.Cut(b, []byte{0})
	return t
}

// check checks a ping with -V, and shows it with -v.
func (s *session) check(whose string, b []byte, n int) error {
	if s.o.verify {
		if err := verify(b, n); err != nil {
			return err
		}
	}
	if s.o.verbose {
		fmt.Fprintf(s.out, "%sping data: %s\n", whose, text(b))
	}
	return nil
}

func (s *session) report(n int) { fmt.Fprintf(s.out, "%d pings%s\n", n, program.Checked(s.o.verify)) }

// Sizes of a ping that the stock rping accepts.
const (
	minSize = 23
	maxSize = 64<<10 - 1
)

// fill makes b ping n: its number, then the letters from 'A' to 'z' round and round, each ping one letter further on,
// and a zero byte.
func fill(b []byte, n int) {
	const first, letters = 'A', 'z' - 'A' + 1
	text := copy(b, fmt.Sprintf("rdma-ping-%d: ", n))
	for i := range b[text:] {
		b[text+i] = byte(first + (n+i)%letters)
	}
	b[len(b)-1] = 0
}

// verify checks every byte of ping n.
func verify(b []byte, n int) error {
	want := make([]byte, len(b))
	fill(want, n)
	return program.Compare(b, want)
}
