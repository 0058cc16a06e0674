// Udaddy finds a peer's datagram queue pair by IP address, sends it datagrams and
// gets as many back, with itself or with the stock udaddy, as server or as client.
//
//	udaddy              # on one host: waits
//	udaddy -s HOST      # on the other
//
// Each datagram carries the number of its sender's queue pair as immediate data. Answers go to that
// queue pair at the address that the datagram came from.
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
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "udaddy: %v\nudaddy -h lists the options\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "udaddy:", err)
		os.Exit(1)
	}
}

type options struct {
	server, bind, port       string
	from                     netip.AddrPort // of a client
	connections, count, size int
	verify                   bool
	timeout                  time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("udaddy", pflag.ExitOnError)
	f.SortFlags = false
	f.StringVarP(&o.server, "server", "s", "", "`address` of the server (default: be the server)")
	f.StringVarP(&o.bind, "bind", "b", "", "`address` to come from, or to listen on (default all)")
	f.StringVarP(&o.port, "port", "p", "7174", "`port` of the server")
	f.IntVarP(&o.connections, "connections", "c", 1, "`number` of pairs of queue pairs, the same on both sides")
	f.IntVarP(&o.count, "count", "C", 10, "`number` of datagrams each way, the same on both sides")
	f.IntVarP(&o.size, "size", "S", 100, "`bytes` in a datagram, the same on both sides")
	f.BoolVarP(&o.verify, "verify", "V", false, "check every byte; the peer has to be one of these examples")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "longest `time` without a datagram")
	f.Usage = func() { fmt.Fprint(f.Output(), "udaddy [options]\nudaddy -s HOST [options]\n\n", f.FlagUsages()) }
	_ = f.Parse(args) // it exits when it fails
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: no arguments expected", f.Arg(0))
	}
	if o.server != "" && o.bind != "" {
		ip, err := netip.ParseAddr(o.bind)
		if err != nil {
			return nil, fmt.Errorf("-b: %w", err)
		}
		o.from = netip.AddrPortFrom(ip, 0)
	}
	return o, errors.Join(
		within("-c", o.connections, 1, 1<<16),
		within("-C", o.count, 1, 1<<14),
		within("-S", o.size, 1, 1<<16))
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

func client(ctx context.Context, o *options, out io.Writer) error {
	return o.all(out, func(p *peer) (err error) {
		opt := p.options()
		opt.LocalAddr = o.from
		c, err := rdmacm.Dial(ctx, net.JoinHostPort(o.server, o.port), opt)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		p.ah, p.qpn, p.qkey = c.Peer()
		if err := p.send(); err != nil {
			return err
		}
		return p.receive(ctx)
	})
}

func server(ctx context.Context, o *options, out io.Writer) (err error) {
	l, err := rdmacm.Listen(ctx, net.JoinHostPort(o.bind, o.port), &rdmacm.Options{PortSpace: rdmacm.PortSpaceUDP})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	fmt.Fprintf(out, "listening on %v\n", l.Addr())
	return o.all(out, func(p *peer) (err error) {
		request, err := l.Next(ctx)
		if err != nil {
			return err
		}
		c, err := request.Accept(ctx, p.options())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		defer func() {
			if p.ah != nil {
				err = errors.Join(err, p.ah.Close())
			}
		}()
		if err := p.receive(ctx); err != nil {
			return err
		}
		if err := p.send(); err != nil {
			return err
		}
		return p.sent(ctx)
	})
}

// all runs all connections concurrently.
func (o *options) all(out io.Writer, talk func(*peer) error) error {
	errs := make(chan error)
	for range o.connections {
		go func() { errs <- talk(&peer{o: o}) }()
	}
	var err error
	for range o.connections {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return err
	}
	checked := ""
	if o.verify {
		checked = ", every byte as it should be"
	}
	fmt.Fprintf(out, "%d datagrams sent and as many received%s\n", o.connections*o.count, checked)
	return nil
}
