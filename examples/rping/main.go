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
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/examples/internal/pingpong"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { cm.Main("rping", run) }

type options struct {
	server, client     bool
	addr, source, port string
	count, size        int
	persistent         bool
	verbose, verify    bool
	timeout            time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := cm.Flags("rping")
	f.BoolVarP(&o.server, "server", "s", false, "wait for a client")
	f.BoolVarP(&o.client, "client", "c", false, "connect to a server")
	f.StringVarP(&o.addr, "address", "a", "", "`address` of the server, or to listen on (default all)")
	f.StringVarP(&o.source, "source", "I", "", "`address` that the client comes from")
	f.StringVarP(&o.port, "port", "p", "7174", "`port` of the server")
	f.IntVarP(&o.count, "count", "C", 0, "`number` of pings of a client (default for ever)")
	f.IntVarP(&o.size, "size", "S", 64, "`bytes` in a ping of a client; a server takes any")
	f.BoolVarP(&o.persistent, "persistent", "P", false, "serve clients until interrupted, any number at a time")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show the pings")
	f.BoolVarP(&o.verify, "verify", "V", false, "check every byte: a client what comes back, a server what it reads")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "longest `time` without an answer")
	err := cm.Parse(f, args, "rping -s [options]\nrping -c -a HOST [options]\n", func() error {
		switch {
		case o.server == o.client:
			return errors.New("want either -s or -c")
		case o.client && o.addr == "":
			return errors.New("-c: want -a with the address of the server")
		case o.client && o.persistent:
			return errors.New("-P is for -s")
		case o.timeout <= 0:
			return fmt.Errorf("--timeout %v: want more than 0", o.timeout)
		}
		return errors.Join(
			cm.Within("-S", o.size, minSize, maxSize),
			cm.Within("-C", o.count, 0, math.MaxInt32))
	})
	return o, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	switch {
	case err != nil:
		return err
	case o.client:
		return ping(ctx, o, out)
	default:
		return serve(ctx, o, out)
	}
}

func ping(ctx context.Context, o *options, out io.Writer) (err error) {
	s := &session{o: o, out: out}
	opt := s.options()
	if o.source != "" {
		ip, err := netip.ParseAddr(o.source)
		if err != nil {
			return &cm.UsageError{Err: fmt.Errorf("-I: %w", err)}
		}
		opt.LocalAddr = netip.AddrPortFrom(ip, 0)
	}
	c, err := rdmacm.Dial(ctx, net.JoinHostPort(o.addr, o.port), opt)
	if err != nil {
		return err
	}
	defer pingpong.Close(c, &err)
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
	defer pingpong.Close(l, &err)
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
			return answer(ctx, request, o, out)
		}
		clients.Go(func() {
			if err := answer(ctx, request, o, out); err != nil && ctx.Err() == nil {
				fmt.Fprintf(out, "%v: %v\n", request.RemoteAddr(), err)
			}
		})
	}
}

// answer serves one client until it disconnects.
func answer(ctx context.Context, request *rdmacm.Request, o *options, out io.Writer) (err error) {
	s := &session{o: o, out: out}
	c, err := request.Accept(ctx, s.options())
	if err != nil {
		return err
	}
	defer pingpong.Close(c, &err)
	for n := 0; ; n++ {
		switch err := s.answer(ctx, n); {
		case errors.Is(err, errEnd):
			s.report(n)
			return nil
		case err != nil:
			return fmt.Errorf("ping %d: %w", n, err)
		}
	}
}
