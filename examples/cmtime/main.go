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
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "cmtime: %v\ncmtime -h lists the options\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cmtime:", err)
		os.Exit(1)
	}
}

type options struct {
	server, bind, port   string
	connections, retries int
	timeout              time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("cmtime", pflag.ExitOnError)
	f.SortFlags = false
	f.StringVarP(&o.server, "server", "s", "", "`address` of the server (default: be the server)")
	f.StringVarP(&o.bind, "bind", "b", "", "`address` to come from, or to listen on (default all)")
	f.IntVarP(&o.connections, "connections", "c", 100, "`number` of connections of a client")
	f.StringVarP(&o.port, "port", "p", "7471", "`port` of the server")
	f.IntVarP(&o.retries, "retries", "r", 2, "`times` to resolve again what could not be resolved")
	ms := f.IntP("timeout", "t", 2000, "longest time to resolve an address or a route, in `ms`")
	f.Usage = func() { fmt.Fprint(f.Output(), "cmtime [options]\ncmtime -s HOST [options]\n\n", f.FlagUsages()) }
	_ = f.Parse(args) // it exits when it fails
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: no arguments expected", f.Arg(0))
	}
	o.timeout = time.Duration(*ms) * time.Millisecond
	return o, errors.Join(
		within("-c", o.connections, 1, 1<<20),
		within("-r", o.retries, 0, 100),
		within("-t", *ms, 1, 1<<30))
}

func within(flag string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s %d: want %d to %d", flag, n, least, most)
	}
	return nil
}

func run(ctx context.Context, o *options, out io.Writer) error {
	switch {
	case o.server != "":
		return client(ctx, o, out)
	default:
		return server(ctx, o, out)
	}
}

func client(ctx context.Context, o *options, out io.Writer) (err error) {
	b := &bench{o: o}
	if b.dst, err = resolve(ctx, o.server, o.port); err != nil {
		return err
	}
	if o.bind != "" {
		if b.src, err = resolve(ctx, o.bind, "0"); err != nil {
			return err
		}
	}
	if b.ch, err = rdmacm.NewEventChannel(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.ch.Close()) }()
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
	defer func() { err = errors.Join(err, l.Close()) }()
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
		if err != nil {
			return err
		}
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

// resolve looks up a name, or reads an address, and a port. An empty host is any address of this machine.
func resolve(ctx context.Context, host, port string) (netip.AddrPort, error) {
	ip := netip.IPv4Unspecified()
	if host != "" {
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return netip.AddrPort{}, err
		}
		ip = ips[0].Unmap()
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	return netip.AddrPortFrom(ip, uint16(n)), err
}
