// Greeter serves gRPC's health service over RDMA, and asks for it.
//
//	greeter serve ADDRESS
//	greeter check ADDRESS
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	pb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pureverbs/pureverbs/rdma"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: greeter serve ADDRESS, or greeter check ADDRESS")
	}
	run := check
	if os.Args[1] == "serve" {
		run = serve
	}
	if err := errors.Join(run(context.Background(), os.Args[2]), rdma.CloseIdle()); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, addr string) error {
	// doc: grpc-listen
	l, err := rdma.ListenStream(ctx, addr, nil) // was: net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	// end
	pb.RegisterHealthServer(s, health.NewServer())
	fmt.Println("listening at", l.Addr())
	return s.Serve(l)
}

func check(ctx context.Context, addr string) error {
	// doc: grpc-client
	dial := func(ctx context.Context, addr string) (net.Conn, error) { return rdma.DialStream(ctx, addr, nil) }
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	// end
	if err != nil {
		return err
	}
	defer cc.Close()
	reply, err := pb.NewHealthClient(cc).Check(ctx, &pb.HealthCheckRequest{})
	if err == nil {
		fmt.Println(reply.Status)
	}
	return err
}
