// Rping lets a server read a client's memory and write it back, again and again,
// with itself or with the stock rping, as server or as client.
//
//	rping -s -v                     # on one host: waits
//	rping -c -a HOST -v -V -C 10    # on the other
//
// On the wire, after the connection by librdmacm:
//
//	client                               server
//	where its ping is, 16 bytes    ──►
//	                                     reads it
//	                               ◄──   go ahead, 16 bytes
//	where the pong goes, 16 bytes  ──►
//	                                     writes it
//	                               ◄──   go ahead, 16 bytes
//	the next, or disconnects
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "rping: %v\nrping -h lists the options\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rping:", err)
		os.Exit(1)
	}
}

type options struct {
	server, client  bool
	addr, port      string
	source          netip.Addr
	count, size     int
	persistent      bool
	verbose, verify bool
	timeout         time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("rping", pflag.ExitOnError)
	f.SortFlags = false
	f.BoolVarP(&o.server, "server", "s", false, "wait for a client")
	f.BoolVarP(&o.client, "client", "c", false, "connect to a server")
	f.StringVarP(&o.addr, "address", "a", "", "`address` of the server, or to listen on (default all)")
	source := f.StringP("source", "I", "", "`address` that the client comes from")
	f.StringVarP(&o.port, "port", "p", "7174", "`port` of the server")
	f.IntVarP(&o.count, "count", "C", 0, "`number` of pings of a client (default for ever)")
	f.IntVarP(&o.size, "size", "S", 64, "`bytes` in a ping of a client; a server takes any")
	f.BoolVarP(&o.persistent, "persistent", "P", false, "serve any number of clients until interrupted")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show the pings")
	f.BoolVarP(&o.verify, "verify", "V", false, "check every byte: a client what comes back, a server what it reads")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "longest `time` without a reply")
	f.Usage = func() { fmt.Fprint(f.Output(), "rping -s [options]\nrping -c -a HOST [options]\n\n", f.FlagUsages()) }
	_ = f.Parse(args) // it exits when it fails
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: no arguments expected", f.Arg(0))
	}
	switch {
	case o.server == o.client:
		return nil, errors.New("want either -s or -c")
	case o.client && o.addr == "":
		return nil, errors.New("-c: want -a with the address of the server")
	case o.client && o.persistent:
		return nil, errors.New("-P is for -s")
	case o.timeout <= 0:
		return nil, fmt.Errorf("--timeout %v: want more than 0", o.timeout)
	}
	if *source != "" {
		var err error
		if o.source, err = netip.ParseAddr(*source); err != nil {
			return nil, fmt.Errorf("-I: %w", err)
		}
	}
	return o, errors.Join(
		within("-S", o.size, minSize, maxSize),
		within("-C", o.count, 0, math.MaxInt32))
}

func within(flag string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s %d: want %d to %d", flag, n, least, most)
	}
	return nil
}

func run(ctx context.Context, o *options, out io.Writer) error {
	switch {
	case o.client:
		return ping(ctx, o, out)
	default:
		return serve(ctx, o, out)
	}
}

func ping(ctx context.Context, o *options, out io.Writer) (err error) {
	s := &session{o: o, out: out}
	opt := s.options()
	if o.source.IsValid() {
		opt.LocalAddr = netip.AddrPortFrom(o.source, 0)
	}
	c, err := rdmacm.Dial(ctx, net.JoinHostPort(o.addr, o.port), opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	n := 0
	for ; o.count == 0 || n < o.count; n++ {
		if err := s.ping(ctx, n); err != nil {
			if o.count == 0 && ctx.Err() != nil {
				break // interrupted, as intended
			}
			return fmt.Errorf("ping %d: %w", n, err)
		}
	}
	s.report(n)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.timeout)
	defer cancel()
	return c.Shutdown(ctx)
}

func serve(ctx context.Context, o *options, out io.Writer) (err error) {
	l, err := rdmacm.Listen(ctx, net.JoinHostPort(o.addr, o.port), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	fmt.Fprintf(out, "listening on %v\n", l.Addr())
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		request, err := l.Next(ctx)
		if o.persistent && ctx.Err() != nil {
			return nil // interrupted, as intended
		}
		if err != nil {
			return err
		}
		if !o.persistent {
			return reply(ctx, request, o, out)
		}
		clients.Go(func() {
			if err := reply(ctx, request, o, out); err != nil && ctx.Err() == nil {
				fmt.Fprintf(out, "%v: %v\n", request.RemoteAddr(), err)
			}
		})
	}
}

// reply serves one client until it disconnects.
func reply(ctx context.Context, request *rdmacm.Request, o *options, out io.Writer) (err error) {
	s := &session{o: o, out: out}
	c, err := request.Accept(ctx, s.options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for n := 0; ; n++ {
		switch err := s.reply(ctx, n); {
		case errors.Is(err, errEnd):
			s.report(n)
			return nil
		case err != nil:
			return fmt.Errorf("ping %d: %w", n, err)
		}
	}
}
