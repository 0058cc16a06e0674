// Calls makes calls over a connection.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pureverbs/pureverbs/rdma"
)

func main() {
	ctx := context.Background()
	l, err := rdma.Listen(ctx, "10.88.0.1:7471", nil)
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error)
	go func() {
		c, err := l.Accept(ctx)
		if err == nil {
			err = errors.Join(serve(ctx, c), c.Close())
		}
		served <- err
	}()
	c, err := rdma.Dial(ctx, l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(call(ctx, c), <-served, l.Close(), rdma.CloseIdle()); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, c *rdma.Conn) error {
	// doc: calls-serve
	upper := func(_ context.Context, request *rdma.Message) ([]byte, error) {
		return bytes.ToUpper(request.Bytes()), nil
	}
	err := rdma.Serve(ctx, c, upper) // until the client closes
	// end
	return err
}

func call(ctx context.Context, c *rdma.Conn) error {
	// doc: calls-call
	caller, err := rdma.NewCaller(c)
	if err != nil {
		return err // the connection has a Caller
	}
	reply, err := caller.Call(ctx, []byte("hello"))
	if err != nil {
		return err // a *rdma.CallError if the handler returned an error
	}
	fmt.Printf("%s\n", reply.Bytes())
	reply.Release()
	return caller.Close()
	// end
}

// Output:
// HELLO
