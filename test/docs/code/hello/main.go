// Hello sends a message and prints the reply.
//
//	hello serve 10.88.0.1:7471
//	hello 10.88.0.1:7471 "a message"
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/pureverbs/pureverbs/rdma"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: hello serve ADDRESS, or hello ADDRESS MESSAGE")
	}
	ctx := context.Background()
	if os.Args[1] == "serve" {
		log.Fatal(serve(ctx, os.Args[2]))
	}
	if err := ask(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// serve replies to every message with the same message.
func serve(ctx context.Context, addr string) error {
	l, err := rdma.Listen(ctx, addr, nil)
	if err != nil {
		return err
	}
	fmt.Println("listening at", l.Addr())
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		go echo(ctx, c)
	}
}

func echo(ctx context.Context, c *rdma.Conn) {
	defer c.Close()
	for {
		m, err := c.Recv(ctx) // io.EOF after the client's Close
		if err != nil {
			return
		}
		err = c.Send(ctx, m.Bytes())
		m.Release()
		if err != nil {
			log.Printf("%v: %v", c.RemoteAddr(), err)
			return
		}
	}
}

// ask sends a message and prints the reply.
func ask(ctx context.Context, addr, text string) (err error) {
	c, err := rdma.Dial(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(), rdma.CloseIdle()) }()
	if err := c.Send(ctx, []byte(text)); err != nil {
		return err
	}
	m, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", m.Bytes())
	m.Release()
	return nil
}
