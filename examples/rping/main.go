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

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { program.Main("rping", os.Args[1:], parse, run) }

type options struct {
	server, client  bool
	at              program.Ends // Bind is the server's address, on either side
	source          netip.AddrPort
	count, size     int
	persistent      bool
	verbose, verify bool
	timeout         program.Timeout
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := program.NewFlags("rping -s [options]\nrping -c -a HOST [options]\n")
	f.BoolVarP(&o.server, "server", "s", false, "wait for a client")
	f.BoolVarP(&o.client, "client", "c", false, "connect to a server")
	f.StringVarP(&o.at.Bind, "address", "a", "", "`address` of the server, or to listen on (default all)")
	f.Addr(&o.source, "source", "I", "`address` that the client comes from")
	f.StringVarP(&o.at.Port, "port", "p", "7174", "`port` of the server")
	f.Int(&o.count, "count", "C", 0, 0, math.MaxInt32, "`number` of pings of a client (default for ever)")
	f.Int(&o.size, "size", "S", 64, minSize, maxSize, "`bytes` in a ping of a client; a server takes any")
	f.BoolVarP(&o.persistent, "persistent", "P", false, "serve any number of clients until interrupted")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show the pings")
	f.BoolVarP(&o.verify, "verify", "V", false, "check every byte: a client what comes back, a server what it reads")
	f.Timeout(&o.timeout, "longest `time` without a reply")
	err := f.Parse(args, 0)
	switch {
	case err != nil:
		return nil, err
	case o.server == o.client:
		return nil, errors.New("want either -s or -c")
	case o.client && o.at.Bind == "":
		return nil, errors.New("-c: want -a with the address of the server")
	case o.client && o.persistent:
		return nil, errors.New("-P is for -s")
	}
	return o, nil
}

func run(ctx context.Context, o *options, out io.Writer) (err error) {
	if o.client {
		return ping(ctx, o, out)
	}
	defer program.Catch(&err)
	l := program.Must(o.at.Listen(ctx, nil, out))
	defer program.Close(l, &err)
	serve := func(ctx context.Context, request *rdmacm.Request) error { return reply(ctx, request, o, out) }
	if o.persistent {
		return program.Serve(ctx, l, out, serve)
	}
	return serve(ctx, program.Must(l.Next(ctx)))
}

func ping(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	s := &session{o: o, out: out}
	opt := s.options()
	opt.LocalAddr = o.source
	c := program.Must(rdmacm.Dial(ctx, net.JoinHostPort(o.at.Bind, o.at.Port), opt))
	defer program.Close(c, &err)
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
	ctx, cancel := o.timeout.Context(context.WithoutCancel(ctx))
	defer cancel()
	return c.Shutdown(ctx)
}

// reply serves one client until it disconnects.
func reply(ctx context.Context, request *rdmacm.Request, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	s := &session{o: o, out: out}
	c := program.Must(request.Accept(ctx, s.options()))
	defer program.Close(c, &err)
	for n := 0; ; n++ {
		source, err := s.message(ctx)
		if errors.Is(err, rdmacm.ErrDisconnected) {
			s.report(n)
			return nil
		}
		if err == nil {
			err = s.reply(ctx, n, source)
		}
		if err != nil {
			return fmt.Errorf("ping %d: %w", n, err)
		}
	}
}
