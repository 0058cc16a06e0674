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
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/examples/internal/pingpong"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { cm.Main("cmtime", run) }

type options struct {
	server, bind, port   string
	connections, retries int
	timeout              time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := cm.Flags("cmtime")
	f.StringVarP(&o.server, "server", "s", "", "`address` of the server (default: be the server)")
	f.StringVarP(&o.bind, "bind", "b", "", "`address` to come from, or to listen on (default all)")
	f.IntVarP(&o.connections, "connections", "c", 100, "`number` of connections of a client")
	f.StringVarP(&o.port, "port", "p", "7471", "`port` of the server")
	f.IntVarP(&o.retries, "retries", "r", 2, "`times` to resolve again what could not be resolved")
	ms := f.IntP("timeout", "t", 2000, "longest time to resolve an address or a route, in `ms`")
	err := cm.Parse(f, args, "cmtime [options]\ncmtime -s HOST [options]\n", func() error {
		o.timeout = time.Duration(*ms) * time.Millisecond
		return errors.Join(
			cm.Within("-c", o.connections, 1, 1<<20),
			cm.Within("-r", o.retries, 0, 100),
			cm.Within("-t", *ms, 1, 1<<30))
	})
	return o, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	switch {
	case err != nil:
		return err
	case o.server != "":
		return client(ctx, o, out)
	default:
		return server(ctx, o, out)
	}
}

func client(ctx context.Context, o *options, out io.Writer) (err error) {
	b := &bench{o: o}
	if b.dst, err = cm.Resolve(ctx, o.server, o.port); err != nil {
		return err
	}
	if o.bind != "" {
		if b.src, err = cm.Resolve(ctx, o.bind, "0"); err != nil {
			return err
		}
	}
	if b.ch, err = rdmacm.NewEventChannel(); err != nil {
		return err
	}
	defer pingpong.Close(b.ch, &err)
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.run(ctx); err != nil {
		return err
	}
	b.report(out)
	return nil
}

// server accepts all connections, and closes each when its client has.
func server(ctx context.Context, o *options, out io.Writer) (err error) {
	l, err := rdmacm.Listen(ctx, net.JoinHostPort(o.bind, o.port), &rdmacm.Options{
		QP: ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1},
	})
	if err != nil {
		return err
	}
	defer pingpong.Close(l, &err)
	fmt.Fprintf(out, "listening on %v\n", l.Addr())
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for n := 0; ; n++ {
		c, err := l.Accept(ctx)
		if ctx.Err() != nil { // interrupted, as intended
			fmt.Fprintf(out, "%d connections\n", n)
			return nil
		}
		if err != nil {
			return err
		}
		clients.Go(func() {
			select {
			case <-c.Done():
			case <-ctx.Done():
			}
			if err := c.Close(); err != nil {
				fmt.Fprintf(out, "%v: %v\n", c.RemoteAddr(), err)
			}
		})
	}
}
