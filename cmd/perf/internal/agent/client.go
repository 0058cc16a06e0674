package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Client is a control connection to an agent. One goroutine at a time may use it; Close may be called by any.
type Client struct {
	f      *frames
	addr   string
	unhook func() bool
}

// RefusedError is an agent's reply instead of a result.
type RefusedError struct{ Agent, Message string }

// Error returns one line.
func (e *RefusedError) Error() string { return fmt.Sprintf("agent %s: %s", e.Agent, e.Message) }

// Dial connects to an agent, and tries again for patience. The connection ends with ctx.
func Dial(ctx context.Context, host string, port int, t Token, timeout, patience time.Duration) (*Client, error) {
	end := time.Now().Add(patience)
	for {
		c, err := wire.DialTCP(ctx, wire.TCP, "", host, port, timeout, max(0, time.Until(end)),
			"no rdmaperf serve is listening there")
		if err != nil {
			return nil, err
		}
		c.SetDeadline(time.Now().Add(timeout))
		f, err := introduce(c, t)
		if err == nil {
			c.SetDeadline(time.Time{})
			cl := &Client{f: f, addr: c.RemoteAddr().String()}
			cl.unhook = context.AfterFunc(ctx, func() { c.Close() })
			return cl, nil
		}
		c.Close()
		// An agent in a flood turns connections away.
		if errors.Is(err, ErrToken) || errors.Is(err, ErrNoAgent) || errors.Is(err, ErrVersion) ||
			time.Now().After(end) || ctx.Err() != nil {
			return nil, fmt.Errorf("agent %s: %w", c.RemoteAddr(), err)
		}
		tick.Wait(ctx, 50*time.Millisecond)
	}
}

// Close ends the connection, and what the agent does for it.
func (c *Client) Close() error {
	c.unhook()
	return c.f.Close()
}

// ask sends a request and returns the first reply.
func (c *Client) ask(r request, limit time.Duration) (reply, error) {
	if err := c.f.send(r); err != nil {
		return reply{}, fmt.Errorf("agent %s: %w", c.addr, err)
	}
	return c.reply(limit)
}

func (c *Client) reply(limit time.Duration) (r reply, err error) {
	c.f.SetReadDeadline(time.Now().Add(limit))
	err = c.f.receive(&r, maxReply)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		err = errors.New("the agent closed the connection; it was stopped, or failed")
	}
	if err != nil {
		return r, fmt.Errorf("agent %s: %w", c.addr, err)
	}
	if r.Error != "" {
		return r, &RefusedError{c.addr, r.Error}
	}
	return r, nil
}

// Hold keeps the connection open, and returns the agent's program and its version; empty if it is too old to say.
func (c *Client) Hold(limit time.Duration) (program string, err error) {
	r, err := c.ask(request{Op: opHold}, limit)
	return r.Program, err
}

// Server makes the agent the server of a test and returns its port.
func (c *Client) Server(p wire.Params, limit time.Duration) (port int, err error) {
	r, err := c.ask(request{Op: opServer, Test: p}, limit)
	return r.Port, err
}
