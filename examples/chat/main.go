// Chat is a room: what somebody in it says, all others read. Each line is a message of package rdma.
//
//	chat                    keeps the room
//	chat -s HOST -n NAME    says the lines of its input, and prints what others say
package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/pureverbs/pureverbs/examples/frame"
	"github.com/pureverbs/pureverbs/rdma"
)

const synopsis = `chat                    keeps the room
chat -s HOST -n NAME    says the lines of its input, and prints what others say
`

var (
	server = flag.String("s", "", "`address` of the room; without it, keep one")
	bind   = flag.String("b", "", "`address` to keep the room at; without it, all")
	port   = flag.String("p", "7472", "`port` of the room")
	name   = flag.String("n", "somebody", "`name` to speak under")
)

func main() { frame.Main(synopsis, run) }

func run(ctx context.Context, out io.Writer) error {
	if *server == "" {
		return keep(ctx, net.JoinHostPort(*bind, *port), out)
	}
	return visit(ctx, net.JoinHostPort(*server, *port), *name, os.Stdin, out)
}

// room forwards messages. Each member has a queue of lines, so that nobody waits for a slow one.
type room struct {
	mu      sync.Mutex
	members map[*rdma.Conn]chan []byte
}

// keep keeps the room until ctx ends.
func keep(ctx context.Context, addr string, out io.Writer) error {
	l, err := rdma.Listen(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(out, "the room is at %v\n", l.Addr())
	r := room{members: make(map[*rdma.Conn]chan []byte)}
	return frame.Serve(ctx, l.Accept, r.hear)
}

// hear forwards what a member says, until it leaves.
func (r *room) hear(ctx context.Context, c *rdma.Conn) error {
	queue := make(chan []byte, 100)
	var sender sync.WaitGroup
	sender.Go(func() {
		for line := range queue {
			_ = c.Send(ctx, line) // Recv reports that the member has left
		}
	})
	defer sender.Wait()
	r.mu.Lock()
	r.members[c] = queue
	r.mu.Unlock()
	for {
		m, err := c.Recv(ctx)
		if err != nil {
			break
		}
		r.tell(c, bytes.Clone(m.Bytes()))
		m.Release()
	}
	r.mu.Lock()
	delete(r.members, c)
	r.mu.Unlock()
	close(queue)
	return nil
}

// tell queues a line for all members but the one that said it. A member whose queue is full misses it.
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
