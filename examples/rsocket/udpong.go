package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// udpong sends datagrams over an rsocket to a server, which counts them or sends them back, with itself or with the
// stock udpong, as server or as client. Datagrams of rsockets need InfiniBand.
//
//	rsocket udpong -b ADDRESS                 # on one host: waits, until interrupted
//	rsocket udpong -s ADDRESS -C 1000 -T echo # on the other
//
// Datagrams may be lost. A question without a reply is asked again. Of datagrams that are only counted, the server
// reports how many have come.
func udpong(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	s := program.Must(open(ctx, o, rsocket.Datagram, out))
	defer program.Close(s, &err)
	if o.Server != "" {
		return (&client{o: o, s: s}).run(ctx, out)
	}
	return s.serve(ctx, out)
}

// serve replies until interrupted.
func (s *socket) serve(ctx context.Context, out io.Writer) (err error) {
	defer program.Catch(&err)
	var (
		clients [256]uint32 // datagrams of each
		next    byte        // client
		b       = make([]byte, 2*largest)
	)
	for {
		n, from, err := s.recvFrom(ctx, b)
		if ctx.Err() != nil {
			return nil // interrupted, as intended
		}
		program.Check(err)
		m := message(b[:n])
		if n < control {
			fmt.Fprintf(out, "%v: a datagram of %d bytes, want at least %d\n", from, n, control)
			continue
		}
		switch m.op() {
		case login:
			fmt.Fprintf(out, "client %d is %v\n", next, from)
			m.setClient(next)
			next++
			fallthrough
		case begin:
			clients[m.client()] = 0
		case echo:
			clients[m.client()]++
		case end:
			m.setCount(clients[m.client()])
		default: // has no reply
			clients[m.client()]++
			continue
		}
		program.Check(s.until(rsocket.PollOut, func() error {
			_, err := s.SendTo(m, 0, from)
			return err
		}))
	}
}

// recvFrom receives a datagram.
func (s *socket) recvFrom(ctx context.Context, b []byte) (n int, from netip.AddrPort, err error) {
	err = s.try(ctx, rsocket.PollIn, func() (err error) {
		n, from, err = s.RecvFrom(b, 0)
		return err
	})
	return n, from, err
}

// Sizes of datagrams.
const (
	control = 16   // of all but data and echo, and the least
	largest = 2024 // what an rsocket can send by IPv6; by IPv4 it is a little more
)

// What a datagram is, its first byte. All but data are sent back.
const (
	login = iota // gives the client its number
	begin        // counts from 0
	data
	echo
	end // brings the count
)

// message is a datagram: what it is, the number of the client, the number of the question, a byte that is not used,
// the count, and anything else.
type message []byte

func (m message) op() byte          { return m[0] }
func (m message) client() byte      { return m[1] }
func (m message) setClient(n byte)  { m[1] = n }
func (m message) question() byte    { return m[2] }
func (m message) count() uint32     { return binary.BigEndian.Uint32(m[4:]) }
func (m message) setCount(n uint32) { binary.BigEndian.PutUint32(m[4:], n) }

// retry is after how long a datagram or its reply counts as lost.
const retry = 200 * time.Millisecond

// client is not safe for concurrent use.
type client struct {
	o      *options
	s      *socket
	id     byte // as the server says
	number byte // of the next question
	again  int  // questions asked again
}

// run is the whole of a client.
func (c *client) run(ctx context.Context, out io.Writer) (err error) {
	defer program.Catch(&err)
	c.id = program.Must(c.ask(ctx, login, control)).client()
	program.Must(c.ask(ctx, begin, control))
	start := time.Now()
	for n := range c.o.count {
		if c.o.echo {
			_, err = c.ask(ctx, echo, c.o.size)
		} else {
			_, err = c.s.Write(c.question(data, c.o.size))
		}
		if err != nil {
			return fmt.Errorf("datagram %d: %w", n, err)
		}
	}
	arrived := program.Must(c.ask(ctx, end, control)).count()
	took := time.Since(start)
	if c.o.echo {
		report(out, 2*c.o.count, c.o.size, took, fmt.Sprintf("%s; %d questions were asked again", program.Checked(true),
			c.again))
	} else {
		report(out, c.o.count, c.o.size, took, fmt.Sprintf("; %d have arrived", arrived))
	}
	return nil
}

// question makes the next message.
func (c *client) question(op byte, size int) message {
	m := make(message, size)
	m[0], m[1], m[2] = op, c.id, c.number
	c.number++
	for i := range m[control:] {
		m[control+i] = byte(i)*7 + c.number*29
	}
	return m
}

var errLost = errors.New("a datagram was lost")

// ask sends a question until its reply comes.
func (c *client) ask(ctx context.Context, op byte, size int) (_ message, err error) {
	defer program.Catch(&err)
	ctx, cancel := c.o.timeout.Context(ctx)
	defer cancel()
	q := c.question(op, size)
	for {
		program.Must(c.s.Write(q))
		reply, err := c.reply(ctx, q)
		if err != errLost {
			return reply, err
		}
		c.again++
	}
}

// reply waits for the reply to a question, and drops those to earlier ones.
func (c *client) reply(ctx context.Context, q message) (message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, retry, errLost)
	defer cancel()
	b := make(message, 2*largest)
	for {
		n, _, err := c.s.recvFrom(ctx, b)
		if err != nil {
			return nil, err
		}
		if n < control || b.question() != q.question() || b.op() != q.op() {
			continue
		}
		if !bytes.Equal(b[8:n], q[8:]) {
			return nil, errors.New("another datagram came back than was sent")
		}
		return b[:n], nil
	}
}
