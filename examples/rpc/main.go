// Rpc calls functions of another process with net/rpc, over a stream of package rdma: what speaks through a net.Conn
// needs no change.
//
//	rpc                        serves any number of clients
//	rpc -s HOST -a 6 -b 7      has the server multiply
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/rpc"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/rdma"
)

func main() { cm.Main("rpc", run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	f := cm.Flags("rpc")
	host := f.StringP("server", "s", "", "`address` of the server; without it, be one")
	bind := f.String("bind", "", "`address` to serve at; without it, all")
	port := f.StringP("port", "p", "7474", "`port` of the server")
	var factors Factors
	f.IntVarP(&factors.A, "first", "a", 6, "first `factor`")
	f.IntVarP(&factors.B, "second", "b", 7, "second `factor`")
	if err := cm.Parse(f, args, "rpc\nrpc -s HOST -a NUMBER -b NUMBER\n", func() error { return nil }); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdma.CloseIdle()) }()
	if *host == "" {
		return serve(ctx, net.JoinHostPort(*bind, *port), out)
	}
	s, err := rdma.DialStream(ctx, net.JoinHostPort(*host, *port), nil)
	if err != nil {
		return err
	}
	c := rpc.NewClient(s)
	defer c.Close()
	var product int
	if err := c.Call("Arith.Multiply", factors, &product); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d times %d is %d\n", factors.A, factors.B, product)
	return nil
}

func serve(ctx context.Context, addr string, out io.Writer) error {
	l, err := rdma.ListenStream(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(out, "serving at %v\n", l.Addr())
	srv := rpc.NewServer()
	if err := srv.Register(Arith{}); err != nil {
		return err
	}
	for {
		s, err := l.AcceptStream(ctx)
		if err != nil {
			return err
		}
		go srv.ServeConn(s) // which closes it
	}
}

// Arith is what the server offers.
type Arith struct{}

// Factors are the arguments of Multiply.
type Factors struct{ A, B int }

// Multiply sets product to the product of two numbers.
func (Arith) Multiply(f Factors, product *int) error {
	*product = f.A * f.B
	if f.A != 0 && *product/f.A != f.B || f.A == -1 && f.B == math.MinInt {
		return fmt.Errorf("%d times %d is too large", f.A, f.B)
	}
	return nil
}
