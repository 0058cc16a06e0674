package wire

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestListenFD refuses what is no socket. TestRXE_ServeStock has those that are.
func TestListenFD(t *testing.T) {
	for _, fd := range []int{-1, 9999} {
		_, err := ListenFD(t.Context(), fd, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "descriptor") {
			t.Errorf("descriptor %d: %v", fd, err)
		}
	}
}

// TestNameNotYetKnown: a name server that cannot be reached, or does not know a name, is asked again.
func TestNameNotYetKnown(t *testing.T) {
	for name, look := range map[string]func(context.Context) error{
		"tcp": func(ctx context.Context) error {
			_, err := DialTCP(ctx, TCP, "", "host.invalid.", 1, testutil.Patience, testutil.Patience, "nobody")
			return err
		},
		"rdma_cm": func(ctx context.Context) error {
			_, err := LookUp(ctx, "ip", "host.invalid.", testutil.Patience)
			return err
		},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var asked atomic.Int32
		old := net.DefaultResolver
		r := &net.Resolver{PreferGo: true}
		r.Dial = func(context.Context, string, string) (net.Conn, error) {
			if asked.Add(1) == 20 { // one time it asks each server twice for both families
				cancel(io.EOF)
			}
			return nil, syscall.ENETUNREACH
		}
		net.DefaultResolver = r
		err := look(ctx)
		net.DefaultResolver = old
		if err == nil || context.Cause(ctx) != io.EOF {
			t.Errorf("%s: %v, asked %d times", name, err, asked.Load())
		}
		cancel(nil)
	}
}

// TestListenHint tells a port that is in use from an address that is not there.
func TestListenHint(t *testing.T) {
	l, err := Listen(t.Context(), TCP, "127.0.0.1", 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tc := range []struct {
		addr string
		want string
	}{{"127.0.0.1", "another server may be using the port"},
		{"192.0.2.1", "no interface of this host has the address"}} {
		if _, err := Listen(t.Context(), TCP, tc.addr, l.Port(), time.Minute); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.addr, err, tc.want)
		}
	}
}

// TestProbe: a connection that closes without a byte is no client, and does not end the server.
func TestProbe(t *testing.T) {
	l, err := Listen(t.Context(), TCP, "127.0.0.1", 0, testutil.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port()))
	for range 3 {
		probe, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		probe.Close()
	}
	client, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	io.WriteString(client, "x")
	c, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.c.Close()
	if got := c.c.RemoteAddr().String(); got != client.LocalAddr().String() {
		t.Errorf("the client is %s, want %s", got, client.LocalAddr())
	}
	if _, err := io.ReadFull(c.c, make([]byte, 1)); err != nil {
		t.Errorf("what the client said: %v", err)
	}
}

// TestDialSeveral: a server with several addresses is found at the one that leads to it, whatever the others do.
func TestDialSeveral(t *testing.T) {
	ln, err := net.Listen("tcp", "127.77.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	for _, host := range []string{"127.77.0.2", "127.77.0.1+127.77.0.2", "127.77.0.2+127.77.0.1",
		"127.77.0.1+127.77.0.3+127.77.0.2"} {
		c, err := DialTCP(t.Context(), TCP, "", host, port, testutil.Patience, 0, "nobody")
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		if got := c.RemoteAddr().String(); got != ln.Addr().String() {
			t.Errorf("%s: connected to %s", host, got)
		}
		c.Close()
	}
	_, err = DialTCP(t.Context(), TCP, "", "127.77.0.1+127.77.0.3", port, testutil.Patience, 0, "nobody")
	if err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("two addresses without a server: %v", err)
	}
}
