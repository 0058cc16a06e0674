package grpc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma"
)

// TestRXE_Streams has many calls at a time over one connection and over several. Each sends its own bytes, which the
// server sends back.
func TestRXE_Streams(t *testing.T) {
	r := testutil.NeedRXE(t)
	streams, size := 50, 64<<10
	if testutil.Full() && r.Emulated {
		streams, size = 1000, 1<<20
	}
	l, err := rdma.ListenStream(t.Context(), net.JoinHostPort(r.IP[0], "0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnknownServiceHandler(sendBack))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	for _, conns := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d streams over %d connections", streams, conns), func(t *testing.T) {
			var calls sync.WaitGroup
			for i := range conns {
				cc, err := grpc.NewClient("passthrough:///"+l.Addr().String(),
					grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
						local := netip.AddrPortFrom(netip.MustParseAddr(r.IP[1]), 0)
						return rdma.DialStream(ctx, addr, &rdma.Options{LocalAddr: local})
					}))
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := cc.Close(); err != nil {
						t.Error(err)
					}
				}()
				for n := i; n < streams; n += conns {
					calls.Go(func() {
						if err := exchange(t.Context(), cc, uint64(n), size); err != nil {
							t.Errorf("stream %d: %v", n, err)
						}
					})
				}
			}
			calls.Wait()
		})
	}
	s.Stop()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// sendBack is a method that sends back each message.
func sendBack(_ any, s grpc.ServerStream) error {
	for {
		var m wrapperspb.BytesValue
		if err := s.RecvMsg(&m); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		if err := s.SendMsg(&m); err != nil {
			return err
		}
	}
}

// exchange sends random bytes of a seed, and compares what comes back.
func exchange(ctx context.Context, cc *grpc.ClientConn, seed uint64, size int) error {
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/a/b")
	if err != nil {
		return err
	}
	source := func() func() []byte {
		rnd := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
		left := size
		return func() []byte {
			p := make([]byte, min(left, 16<<10))
			_, _ = rnd.Read(p)
			left -= len(p)
			return p
		}
	}
	sent := make(chan error, 1)
	go func() {
		next := source()
		for p := next(); len(p) > 0; p = next() {
			if err := s.SendMsg(wrapperspb.Bytes(p)); err != nil {
				sent <- err
				return
			}
		}
		sent <- s.CloseSend()
	}()
	next := source()
	for want := next(); ; want = next() {
		var m wrapperspb.BytesValue
		err := s.RecvMsg(&m)
		switch {
		case err == io.EOF && len(want) == 0:
			return <-sent
		case err != nil:
			return err
		case !bytes.Equal(m.Value, want):
			return fmt.Errorf("other bytes came back: %d, want %d", len(m.Value), len(want))
		}
	}
}
