package wire

import (
	"context"
	"errors"
	"fmt"
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

// TestStrangersComeFirst: what is no client neither ends a server nor keeps it from its client, however slow it is, and
// the server says what came.
func TestStrangersComeFirst(t *testing.T) {
	version := string(greeting())
	kinds := []struct {
		name, say string
		leaves    bool
		want      error // nil: it is there when the client comes
	}{
		{"empty", "", true, ErrClosed},
		{"silent", "", false, nil},
		{"HTTP", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", false, ErrGarbage},
		{"short HTTP", "GET /\n", true, ErrGarbage},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\xaa", 600), false, ErrGarbage},
		{"SSH", "SSH-2.0-OpenSSH_9.2p1\r\n", false, ErrGarbage},
		{"zeros", strings.Repeat("\x00", 4096), false, ErrGarbage},
		{"digits", strings.Repeat("1", 16), false, ErrGarbage},
		{"half a version", version[:7], true, ErrClosed},
		{"a slow version", version[:7], false, nil},
	}
	for _, queues := range []bool{false, true} {
		t.Run(fmt.Sprintf("queues %v", queues), func(t *testing.T) {
			l, err := Listen(t.Context(), TCP, "127.0.0.1", 0, testutil.Patience)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			l.queues = queues
			at := net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port()))
			came := make(chan error, len(kinds))
			accepted := make(chan *Conn, 1)
			go func() {
				c, err := l.Accept(t.Context(), func(_ string, why error) { came <- why })
				if err != nil {
					t.Error(err)
				}
				accepted <- c
			}()
			for _, k := range kinds {
				if queues && k.want == nil { // there they have their time
					continue
				}
				c, err := net.Dial("tcp", at)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				io.WriteString(c, k.say)
				if k.leaves {
					c.Close()
				}
				if k.want == nil {
					continue
				}
				if why := <-came; !errors.Is(why, k.want) {
					t.Errorf("%s: %v, want %v", k.name, why, k.want)
				}
			}
			client, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			for i := range version { // slowly
				io.WriteString(client, version[i:i+1])
			}
			c := <-accepted
			if c == nil {
				return
			}
			defer c.Close()
			if c.Peer() != client.LocalAddr().String() {
				t.Errorf("the client is %s, want %s", c.Peer(), client.LocalAddr())
			}
			b := make([]byte, versionLen)
			if err := c.read("version", b, testutil.Patience); err != nil || string(b) != version {
				t.Errorf("what the client said is %q, %v", b, err)
			}
		})
	}
}

// TestSilentStranger: a connection that says nothing has its time, and ends.
func TestSilentStranger(t *testing.T) {
	l, err := Listen(t.Context(), TCP, "127.0.0.1", 0, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	came := make(chan error, 1)
	go l.Accept(t.Context(), func(_ string, why error) { came <- why })
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port())))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if why := <-came; !errors.Is(why, ErrSilent) || !strings.Contains(why.Error(), "0 of the first 16 bytes") {
		t.Errorf("%v, want %v", why, ErrSilent)
	}
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("it is not closed: %v", err)
	}
}

// greeting is the first message of a client.
func greeting() []byte {
	b := make([]byte, versionLen)
	copy(b, "6.06")
	return b
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
