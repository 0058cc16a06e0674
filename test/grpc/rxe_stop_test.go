package grpc

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma"
)

// TestRXE_StopMany stops a server with many peers. However these behave, it takes no longer than Linger and a second.
// PUREVERBS_TEST_PEERS is another number of peers, with the default Linger.
func TestRXE_StopMany(t *testing.T) {
	n, linger := 20, time.Second
	if v, err := strconv.Atoi(os.Getenv("PUREVERBS_TEST_PEERS")); err == nil {
		n, linger = v, 5*time.Second
	}
	for _, peers := range []string{"read", "nothing", "unreachable"} {
		for _, data := range []int{0, 1 << 20} {
			t.Run(fmt.Sprintf("%s, %d bytes", peers, data), func(t *testing.T) {
				stopMany(t, peers, data, n, linger)
			})
		}
	}
}

// busy is what a busy machine takes; one linger for each peer would be 20 s.
const busy = 5 * time.Second

func stopMany(t *testing.T, how string, data, n int, linger time.Duration) {
	r := testutil.NeedRXE(t)
	var engines [2]*rdma.Engine
	for i := range engines {
		memory := max(256, int64(n)) << 20 // for what the peers do not take
		e, err := rdma.NewEngine(r.Dev[i], &rdma.EngineOptions{Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		engines[i] = e
	}
	l, err := rdma.ListenStream(t.Context(), net.JoinHostPort(r.IP[0], "0"),
		&rdma.Options{Engine: engines[0], Linger: linger})
	if err != nil {
		t.Fatal(err)
	}
	var writing, called atomic.Int32
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		called.Add(1)
		if data == 0 {
			<-stream.Context().Done()
			return nil
		}
		return stream.SendMsg(wrapperspb.Bytes(make([]byte, data)))
	}))
	defer s.Stop()
	served := make(chan error, 1)
	go func() { served <- s.Serve(&watched{l, &writing}) }()
	var hello bytes.Buffer
	request(t, &hello)
	opt := &rdma.Options{Engine: engines[1], LocalAddr: netip.AddrPortFrom(netip.MustParseAddr(r.IP[1]), 0)}
	for range n {
		c, err := rdma.DialStream(t.Context(), l.Addr().String(), opt)
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		if _, err := c.Write(hello.Bytes()); err != nil {
			t.Fatal(err)
		}
		if how == "read" {
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
	}
	testutil.Eventually(t, "the calls of all peers", func() bool { return int(called.Load()) == n })
	if data > 0 && how != "read" {
		testutil.Eventually(t, "data that all peers have not taken", func() bool { return int(writing.Load()) == n })
	}
	if how == "unreachable" {
		r.SetLink(t, 1, false)
	}
	began := time.Now()
	s.Stop()
	took := time.Since(began)
	t.Logf("%d peers: %v", n, took)
	if most := linger + busy; took > most {
		t.Errorf("stopping a server of %d peers took %v, want at most %v", n, took, most)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// request writes what a client sends that calls a method, and takes any amount of data.
func request(t *testing.T, w io.Writer) {
	const most = 1<<31 - 1
	_, _ = io.WriteString(w, http2.ClientPreface)
	f := http2.NewFramer(w, nil)
	var headers bytes.Buffer
	enc := hpack.NewEncoder(&headers)
	for _, h := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
		{Name: ":path", Value: "/a/b"}, {Name: ":authority", Value: "c"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}} {
		_ = enc.WriteField(h)
	}
	for _, err := range []error{
		f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: most}),
		f.WriteWindowUpdate(0, most-65535),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// watched is a listener that counts the calls of Write of its connections that have not returned.
type watched struct {
	net.Listener
	writing *atomic.Int32
}

func (l *watched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{c, l.writing}, nil
}

type watchedConn struct {
	net.Conn
	writing *atomic.Int32
}

func (c *watchedConn) Write(p []byte) (int, error) {
	c.writing.Add(1)
	defer c.writing.Add(-1)
	return c.Conn.Write(p)
}
