package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

type pongOptions struct {
	options
	count, size int
	echo        bool
}

func parsePong(args []string) (*pongOptions, error) {
	o := &pongOptions{}
	f := o.newFlags("rsocket udpong [options]\nrsocket udpong -s ADDRESS [options]\n", "7174")
	o.serverFlag(f)
	f.IntVarP(&o.count, "count", "C", 1000, "`number` of datagrams of a client")
	f.IntVarP(&o.size, "size", "S", 1000, "`bytes` in a datagram of a client")
	words{
		"async":       func() { o.wait = async },
		"nonblocking": func() { o.wait = nonblocking },
		"echo":        func() { o.echo = true },
	}.add(f)
	err := o.parse(f, args, 0)
	return o, errors.Join(err,
		within("-C", o.count, 1, math.MaxInt32),
		within("-S", o.size, control, largest))
}

// udpong sends datagrams over an rsocket to a server, which counts them or sends them back, with itself or with the
// stock udpong, as server or as client. Datagrams of rsockets need InfiniBand.
//
//	rsocket udpong -b ADDRESS                 # on one host: waits, until interrupted
//	rsocket udpong -s ADDRESS -C 1000 -T echo # on the other
//
// Datagrams may be lost. A question without a reply is asked again. Of datagrams that are only counted, the server
// reports how many have come.
func udpong(args []string) (task, error) {
	o, err := parsePong(args)
	if err != nil {
		return nil, err
	}
	if o.server != "" {
		return func(ctx context.Context, out io.Writer) error { return pong(ctx, o, out) }, nil
	}
	return func(ctx context.Context, out io.Writer) error { return serveDatagrams(ctx, o, out) }, nil
}

// serveDatagrams replies until interrupted.
func serveDatagrams(ctx context.Context, o *pongOptions, out io.Writer) (err error) {
	at, err := resolve(ctx, o.bind, o.port)
	if err != nil {
		return err
	}
	s, err := newSocket(ctx, rsocket.Datagram, at, &o.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Bind(at); err != nil {
		return err
	}
	fmt.Fprintf(out, "listening on %v\n", at)
	var (
		clients [256]uint32 // datagrams of each
		next    byte        // client
		b       = make([]byte, 2*largest)
	)
	for {
		n, from, err := s.RecvFrom(ctx, b)
		if ctx.Err() != nil {
			return nil // interrupted, as intended
		}
		if err != nil {
			return err
		}
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
		if err := s.SendTo(m, from); err != nil {
			return err
		}
	}
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
	o      *pongOptions
	s      *socket
	id     byte // as the server says
	number byte // of the next question
	again  int  // questions asked again
}

// pong is the whole of a client.
func pong(ctx context.Context, o *pongOptions, out io.Writer) (err error) {
	to, err := resolve(ctx, o.server, o.port)
	if err != nil {
		return err
	}
	s, err := newSocket(ctx, rsocket.Datagram, to, &o.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if o.bind != "" {
		from, err := resolve(ctx, o.bind, "0")
		if err != nil {
			return err
		}
		if err := s.Bind(from); err != nil {
			return err
		}
	}
	if err := s.Connect(to); err != nil {
		return err
	}
	c := &client{o: o, s: s}
	reply, err := c.ask(ctx, login, control)
	if err != nil {
		return err
	}
	c.id = reply.client()
	if _, err := c.ask(ctx, begin, control); err != nil {
		return err
	}
	start := time.Now()
	for n := range o.count {
		if o.echo {
			_, err = c.ask(ctx, echo, o.size)
		} else {
			_, err = s.Write(c.question(data, o.size))
		}
		if err != nil {
			return fmt.Errorf("datagram %d: %w", n, err)
		}
	}
	if reply, err = c.ask(ctx, end, control); err != nil {
		return err
	}
	took := time.Since(start)
	if o.echo {
		report(out, 2*o.count, o.size, took, fmt.Sprintf(
			", every byte as it should be; %d questions were asked again", c.again))
		return nil
	}
	report(out, o.count, o.size, took, fmt.Sprintf("; %d have arrived", reply.count()))
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

// ask sends a question until its reply comes.
func (c *client) ask(ctx context.Context, op byte, size int) (message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.timeout, silence(c.o.timeout))
	defer cancel()
	q := c.question(op, size)
	for {
		if _, err := c.s.Write(q); err != nil {
			return nil, err
		}
		reply, err := c.reply(ctx, q)
		if err != errLost {
			return reply, err
		}
		c.again++
	}
}

var errLost = errors.New("a datagram was lost")

// reply waits for the reply to a question, and drops those to earlier ones.
func (c *client) reply(ctx context.Context, q message) (message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, retry, errLost)
	defer cancel()
	b := make(message, 2*largest)
	for {
		n, _, err := c.s.RecvFrom(ctx, b)
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
