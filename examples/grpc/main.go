// Grpc serves gRPC over RDMA, and calls it: here gRPC's own health service. It is a module of its own
// because package rdma does not need gRPC.
//
//	grpc            serves any number of clients
//	grpc -s HOST    asks whether the server serves
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pureverbs/pureverbs/examples/frame"
	"github.com/pureverbs/pureverbs/rdma"
)

const synopsis = `grpc            serves any number of clients
grpc -s HOST    asks whether the server serves
`

var (
	server = flag.String("s", "", "`address` of the server; without it, be one")
	bind   = flag.String("b", "", "`address` to serve at; without it, all")
	port   = flag.String("p", "7479", "`port` of the server")
)

func main() { frame.Main(synopsis, run) }

func run(ctx context.Context, out io.Writer) error {
	if *server == "" {
		return serve(ctx, net.JoinHostPort(*bind, *port), out)
	}
	return check(ctx, net.JoinHostPort(*server, *port), out)
}

// serve serves clients until ctx ends.
func serve(ctx context.Context, addr string, out io.Writer) error {
	l, err := rdma.ListenStream(ctx, addr, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "serving at %v\n", l.Addr())
	srv := grpc.NewServer()
	healthpb.RegisterHealthServer(srv, health.NewServer())
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		srv.GracefulStop() // waits for calls that have begun
		close(stopped)
	})
	err = srv.Serve(l)
	if !stop() {
		<-stopped // interrupted, as intended
	}
	return err
}

func check(ctx context.Context, addr string, out io.Writer) error {
	cc, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return rdma.DialStream(ctx, addr, nil)
		}))
	if err != nil {
		return err
	}
	defer cc.Close()
	reply, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, reply.Status)
	return nil
}
