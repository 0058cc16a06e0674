package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestSecret: connections that do not know the secret of a test are closed and change nothing, whatever they send; the
// client is served, and nothing listens after that.
func TestSecret(t *testing.T) {
	secret, old := NewSecret(), NewSecret()
	for _, tc := range []struct {
		name  string
		say   string
		ends  bool // it closes its side
		times int
	}{
		{"silent", "", false, 1},
		{"probe", "", true, 3},
		{"HTTP", "GET / HTTP/1.0\r\n\r\n" + strings.Repeat("x", 64), false, 1},
		{"TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x5a", 505), false, 1},
		{"perftest", Version + strings.Repeat("\x00", versionLen-len(Version)), false, 1},
		{"half a message", string(secret.Proof()[:ProofLen/2]), false, 1},
		{"half a message, and the end", string(secret.Proof()[:ProofLen/2]), true, 1},
		{"a wrong secret", string(Secret("secret").Proof()), false, 1},
		{"the secret of an earlier test", string(old.Proof()), false, 1},
		{"many at once", "SSH-2.0-scanner_1.0\r\n", false, 400},
		{"many silent ones", "", false, 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(secret.With(t.Context()))
			defer cancel()
			l, err := Listen(ctx, TCP, "127.0.0.1", 0, testutil.Patience)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			at := net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port()))
			served := make(chan error, 1)
			var c *Conn
			go func() {
				var err error
				if c, err = l.Accept(ctx, nil); err == nil {
					err = c.read("version", make([]byte, versionLen), testutil.Patience)
				}
				served <- err
			}()
			var strangers []net.Conn
			for range tc.times {
				s, err := net.Dial("tcp", at)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				io.WriteString(s, tc.say)
				if tc.ends {
					s.(*net.TCPConn).CloseWrite()
				}
				strangers = append(strangers, s)
			}
			isClosed := func(i int) {
				s := strangers[i]
				s.SetReadDeadline(time.Now().Add(testutil.Patience))
				if n, err := s.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("stranger %d reads %d bytes, %v", i, n, err)
				}
			}
			for i := range strangers {
				if tc.ends || len(tc.say) >= ProofLen { // the server knows before the client comes
					isClosed(i)
				}
			}
			client, err := Dial(ctx, TCP, "", "127.0.0.1", l.Port(), testutil.Patience, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := client.write("version", greeting()); err != nil {
				t.Fatal(err)
			}
			if err := <-served; err != nil {
				t.Fatalf("the client was not served: %v", err)
			}
			defer c.Close()
			if got := c.c.RemoteAddr().String(); got != client.c.LocalAddr().String() {
				t.Errorf("the client is %s, want %s", got, client.c.LocalAddr())
			}
			for i := range strangers {
				isClosed(i)
			}
			if late, err := net.Dial("tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("one more: %v", err)
				late.Close()
			}
		})
	}
}

// TestSecret_Slow: a stranger that sends byte after byte holds nobody up, and without a client the server ends with its
// context.
func TestSecret_Slow(t *testing.T) {
	ctx, cancel := context.WithCancelCause(NewSecret().With(t.Context()))
	l, err := Listen(ctx, TCP, "127.0.0.1", 0, testutil.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept(ctx, nil)
		ended <- err
	}()
	s, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port())))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range ProofLen - 1 {
		io.WriteString(s, "x")
	}
	cancel(io.ErrNoProgress)
	if err := <-ended; !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("Accept: %v", err)
	}
}

// TestMeetErrors: what keeps two ends from meeting says nothing of their devices.
func TestMeetErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	_, inUse := Listen(t.Context(), TCP, "127.0.0.1", port, time.Minute)
	_, allInUse := ListenAmong(t.Context(), TCP, "127.0.0.1", Ports{port, port}, time.Minute)
	ln.Close()
	_, refused := Dial(t.Context(), TCP, "", "127.0.0.1", port, time.Minute, 0)
	_, noName := Dial(t.Context(), TCP, "", "host.invalid.", port, time.Minute, 0)
	_, notOurs := Listen(t.Context(), TCP, "192.0.2.1", 0, time.Minute)
	for name, err := range map[string]error{"in use": inUse, "all in use": allInUse, "refused": refused,
		"no such name": noName, "no such address": notOurs, "busy": &ExchangeError{"a", "version", ErrBusy},
		"agent": fmt.Errorf("server: %w", ErrAgent)} {
		if meet := (*MeetError)(nil); !errors.As(err, &meet) {
			t.Errorf("%s: %v is no MeetError", name, err)
		}
	}
	for _, err := range []error{ErrSilent, ErrClosed, ErrInterrupted, ErrGarbage, &MismatchError{}} {
		if meet := (*MeetError)(nil); errors.As(err, &meet) {
			t.Errorf("%v is a MeetError", err)
		}
	}
}
