// Chat is a room: what somebody in it says, all others read. Each line is a message of package rdma.
//
//	chat                        keeps the room
//	chat -s HOST -n NAME        says the lines of its input, and prints what others say
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/rdma"
)

func main() { cm.Main("chat", run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	f := cm.Flags("chat")
	host := f.StringP("server", "s", "", "`address` of the room; without it, keep one")
	bind := f.StringP("bind", "b", "", "`address` to keep the room at; without it, all")
	port := f.StringP("port", "p", "7472", "`port` of the room")
	name := f.StringP("name", "n", "somebody", "`name` to speak under")
	if err := cm.Parse(f, args, "chat\nchat -s HOST -n NAME\n", func() error { return nil }); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdma.CloseIdle()) }()
	if *host == "" {
		return keep(ctx, net.JoinHostPort(*bind, *port), out)
	}
	return visit(ctx, net.JoinHostPort(*host, *port), *name, os.Stdin, out)
}

// room passes messages on. Each member has a queue of lines, so that nobody waits for a slow one.
type room struct {
	mu      sync.Mutex
	members map[*rdma.Conn]chan []byte
}

func keep(ctx context.Context, addr string, out io.Writer) error {
	l, err := rdma.Listen(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(out, "the room is at %v\n", l.Addr())
	r := room{members: make(map[*rdma.Conn]chan []byte)}
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		go r.hear(ctx, c)
	}
}

// hear passes on what a member says, until it leaves.
func (r *room) hear(ctx context.Context, c *rdma.Conn) {
	queue := make(chan []byte, 100)
	r.mu.Lock()
	r.members[c] = queue
	r.mu.Unlock()
	go func() {
		for line := range queue {
			_ = c.Send(ctx, line) // Recv tells that the member has left
		}
	}()
	for {
		m, err := c.Recv(ctx)
		if err != nil {
			break
		}
		r.tell(c, append([]byte(nil), m.Bytes()...))
		m.Release()
	}
	r.mu.Lock()
	delete(r.members, c)
	r.mu.Unlock()
	close(queue)
	_ = c.Close()
}

// tell gives a line to all but who said it. Who does not keep up misses lines.
func (r *room) tell(from *rdma.Conn, line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, queue := range r.members {
		if c == from {
			continue
		}
		select {
		case queue <- line:
		default:
		}
	}
}

// visit says the lines of in, and prints what others say until in ends.
func visit(ctx context.Context, addr, name string, in io.Reader, out io.Writer) error {
	c, err := rdma.Dial(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	go func() {
		for {
			m, err := c.Recv(ctx)
			if err != nil {
				return
			}
			fmt.Fprintf(out, "%s\n", m.Bytes())
			m.Release()
		}
	}()
	fmt.Fprintf(out, "in the room at %v\n", c.RemoteAddr())
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if err := c.Send(ctx, fmt.Appendf(nil, "%s: %s", name, lines.Text())); err != nil {
			return err
		}
	}
	return lines.Err()
}
