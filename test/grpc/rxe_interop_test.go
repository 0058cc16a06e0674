package grpc

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
	"github.com/pureverbs/pureverbs/rdma"
)

// TestMain fails when a test leaves an object open.
func TestMain(m *testing.M) { emulated.Run(func() int { return runTests(m) }) }

func runTests(m *testing.M) int {
	leak.Enable()
	code := m.Run()
	err := rdma.CloseIdle()
	for _, o := range leak.Open() {
		err = errors.Join(err, errors.New("not closed: "+o))
	}
	if err != nil {
		println(err.Error())
		code = max(code, 1)
	}
	return code
}

// suite is the interoperability tests that need nothing of a cloud. Each ends the program when it fails.
var suite = []struct {
	name string
	run  func(context.Context, *grpc.ClientConn, testgrpc.TestServiceClient)
}{
	{"EmptyUnary", call(interop.DoEmptyUnaryCall)},
	{"LargeUnary", call(interop.DoLargeUnaryCall)},
	{"ClientStreaming", call(interop.DoClientStreaming)},
	{"ServerStreaming", call(interop.DoServerStreaming)},
	{"PingPong", call(interop.DoPingPong)},
	{"EmptyStream", call(interop.DoEmptyStream)},
	{"TimeoutOnSleepingServer", call(interop.DoTimeoutOnSleepingServer)},
	{"CancelAfterBegin", call(interop.DoCancelAfterBegin)},
	{"CancelAfterFirstResponse", call(interop.DoCancelAfterFirstResponse)},
	{"CustomMetadata", call(interop.DoCustomMetadata)},
	{"StatusCodeAndMessage", call(interop.DoStatusCodeAndMessage)},
	{"SpecialStatusMessage", call(interop.DoSpecialStatusMessage)},
	{"UnimplementedMethod", func(ctx context.Context, cc *grpc.ClientConn, _ testgrpc.TestServiceClient) {
		interop.DoUnimplementedMethod(ctx, cc)
	}},
	{"UnimplementedService", func(ctx context.Context, cc *grpc.ClientConn, _ testgrpc.TestServiceClient) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(cc))
	}},
}

func call(f func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) func(context.Context,
	*grpc.ClientConn, testgrpc.TestServiceClient) {
	return func(ctx context.Context, _ *grpc.ClientConn, tc testgrpc.TestServiceClient) { f(ctx, tc) }
}

// TestRXE_Interop runs the suite with a server on one device and a client on the other.
func TestRXE_Interop(t *testing.T) {
	r := testutil.NeedRXE(t)
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	l, err := rdma.ListenStream(ctx, net.JoinHostPort(r.IP[0], "0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, interop.NewTestServer())
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()

	opt := &rdma.Options{LocalAddr: netip.AddrPortFrom(netip.MustParseAddr(r.IP[1]), 0)}
	var streams atomic.Int32
	cc, err := grpc.NewClient("passthrough:///"+l.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			streams.Add(1)
			return rdma.DialStream(ctx, addr, opt)
		}))
	if err != nil {
		t.Fatal(err)
	}
	tc := testgrpc.NewTestServiceClient(cc)
	for _, c := range suite {
		t.Run(c.name, func(t *testing.T) { c.run(ctx, cc, tc) })
	}
	if err := cc.Close(); err != nil {
		t.Error(err)
	}
	s.Stop()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if n := streams.Load(); n != 1 {
		t.Errorf("%d streams were dialed, want 1: none may break", n)
	}
}
