package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/examples/internal/pingpong"
	"github.com/pureverbs/pureverbs/examples/internal/rs"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// retry is after how long a datagram or its answer counts as lost.
const retry = 200 * time.Millisecond

// client is not safe for concurrent use.
type client struct {
	o      *options
	s      *rs.Socket
	id     byte // as the server says
	number byte // of the next question
	again  int  // questions asked again
}

// ask is the whole of a client.
func ask(ctx context.Context, o *options, out io.Writer) (err error) {
	to, err := cm.Resolve(ctx, o.Server, o.Port)
	if err != nil {
		return err
	}
	s, err := rs.New(ctx, rsocket.Datagram, to, &o.Options)
	if err != nil {
		return err
	}
	defer pingpong.Close(s, &err)
	if o.Bind != "" {
		from, err := cm.Resolve(ctx, o.Bind, "0")
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
	answer, err := c.ask(ctx, login, control)
	if err != nil {
		return err
	}
	c.id = answer.client()
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
	if answer, err = c.ask(ctx, end, control); err != nil {
		return err
	}
	took := time.Since(start)
	if o.echo {
		rs.Report(out, 2*o.count, o.size, took, fmt.Sprintf(
			", every byte as it should be; %d questions were asked again", c.again))
		return nil
	}
	rs.Report(out, o.count, o.size, took, fmt.Sprintf("; %d have arrived", answer.count()))
	return nil
}

// question makes the next message.
func (c *client) question(op byte, size int) message {
	m := make(message, size)
	m[0], m[1], m[2] = op, c.id, c.number
	c.number++
	cm.Fill(m[control:], int(c.number))
	return m
}

// ask sends a question until its answer comes.
func (c *client) ask(ctx context.Context, op byte, size int) (message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.Timeout, &cm.SilenceError{After: c.o.Timeout})
	defer cancel()
	q := c.question(op, size)
	for {
		if _, err := c.s.Write(q); err != nil {
			return nil, err
		}
		answer, err := c.answer(ctx, q)
		if err != errLost {
			return answer, err
		}
		c.again++
	}
}

var errLost = errors.New("a datagram was lost")

// answer waits for the answer to a question, and drops those to earlier ones.
func (c *client) answer(ctx context.Context, q message) (message, error) {
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
