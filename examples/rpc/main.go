// Rpc calls functions of another process with net/rpc, over a stream of package rdma. A protocol that
// needs only a net.Conn needs no change.
//
//	rpc                      serves any number of clients
//	rpc -s HOST -a 6 -b 7    has the server multiply
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/rpc"

	"github.com/pureverbs/pureverbs/examples/frame"
	"github.com/pureverbs/pureverbs/rdma"
)

const synopsis = `rpc                      serves any number of clients
rpc -s HOST -a 6 -b 7    has the server multiply
`

var (
	server = flag.String("s", "", "`address` of the server; without it, be one")
	bind   = flag.String("bind", "", "`address` to serve at; without it, all")
	port   = flag.String("p", "7474", "`port` of the server")
	first  = flag.Int("a", 6, "first `factor`")
	second = flag.Int("b", 7, "second `factor`")
)

func main() { frame.Main(synopsis, run) }

func run(ctx context.Context, out io.Writer) error {
	if *server == "" {
		return serve(ctx, net.JoinHostPort(*bind, *port), out)
	}
	s, err := rdma.DialStream(ctx, net.JoinHostPort(*server, *port), nil)
	if err != nil {
		return err
	}
	c := rpc.NewClient(s)
	defer c.Close()
	var product int
	if err := c.Call("Arith.Multiply", Factors{*first, *second}, &product); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d times %d is %d\n", *first, *second, product)
	return nil
}

// serve serves clients until ctx ends.
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
	return frame.Serve(ctx, l.AcceptStream, func(ctx context.Context, s *rdma.Stream) error {
		defer context.AfterFunc(ctx, func() { _ = s.Close() })()
		srv.ServeConn(s) // it closes s
		return nil
	})
}

// Arith has the methods that the server offers.
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
