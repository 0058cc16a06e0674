// Cmtime measures how long the steps of connecting take, for many connections at a
// time, with itself or with the stock cmtime, as server or as client.
//
//	cmtime                    # on one host: waits, until interrupted
//	cmtime -s HOST -c 1000    # on the other
//
// The client calls package rdmacm's steps one by one; the server uses Listen and Accept.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { program.Main("cmtime", os.Args[1:], parse, run) }

type options struct {
	program.Ends
	connections, retries int
	timeout              time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{}
	var ms int
	f := program.NewFlags("cmtime [options]\ncmtime -s HOST [options]\n")
	o.Ends.Flags(f, "7471")
	f.Int(&o.connections, "connections", "c", 100, 1, 1<<20, "`number` of connections of a client")
	f.Int(&o.retries, "retries", "r", 2, 0, 100, "`times` to resolve again what could not be resolved")
	f.Int(&ms, "timeout", "t", 2000, 1, 1<<30, "longest time to resolve an address or a route, in `ms`")
	err := f.Parse(args, 0)
	o.timeout = time.Duration(ms) * time.Millisecond
	return o, err
}

func run(ctx context.Context, o *options, out io.Writer) error {
	if o.Server != "" {
		return client(ctx, o, out)
	}
	return server(ctx, o, out)
}

// server accepts all connections, and closes each when its client has.
func server(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	opt := &rdmacm.Options{QP: ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1}}
	l := program.Must(rdmacm.Listen(ctx, net.JoinHostPort(o.Bind, o.Port), opt))
	defer program.Close(l, &err)
	fmt.Fprintf(out, "listening on %v\n", l.Addr())
	var (
		clients   sync.WaitGroup
		all, open atomic.Int64
	)
	defer clients.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		c, err := l.Accept(ctx)
		if ctx.Err() != nil { // interrupted, as intended
			return nil
		}
		program.Check(err)
		all.Add(1)
		open.Add(1)
		clients.Go(func() {
			select {
			case <-c.Done():
			case <-ctx.Done():
			}
			if err := c.Close(); err != nil {
				fmt.Fprintf(out, "%v: %v\n", c.RemoteAddr(), err)
			}
			if open.Add(-1) == 0 {
				fmt.Fprintf(out, "%d connections\n", all.Load())
			}
		})
	}
}
