package rdma

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// half is what *net.TCPConn and *Stream have.
type half interface {
	net.Conn
	CloseRead() error
	CloseWrite() error
}

// outcome says how a call of a net.Conn ended, in words that both have.
func outcomeOf(n int, err error) string {
	switch {
	case err == nil:
		return fmt.Sprint(n, " bytes")
	case err == io.EOF:
		return "EOF"
	case errors.Is(err, net.ErrClosed):
		return "closed"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "deadline"
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return "broken"
	}
	return err.Error()
}

// TestRXE_HalfClose does the same to a TCP connection and to a stream, and wants the same of both.
func TestRXE_HalfClose(t *testing.T) {
	needLogic(t)
	testutil.NeedRXE(t)
	server, client := smallEngines(t)
	read := func(c half) string { return outcomeOf(c.Read(make([]byte, 10))) }
	write := func(c half) string { return outcomeOf(c.Write([]byte("hello"))) }
	closes := func(err error) string { return outcomeOf(0, err) }
	for _, row := range []struct {
		name string
		do   func(a, b half) []string
		want string
	}{
		{"CloseWrite", func(a, b half) []string {
			return []string{write(a), closes(a.CloseWrite()), read(b), read(b), read(b)}
		}, "[5 bytes 0 bytes 5 bytes EOF EOF]"},
		{"the other way goes on", func(a, b half) []string {
			return []string{closes(a.CloseWrite()), write(b), read(a), write(b), read(a), read(b)}
		}, "[0 bytes 5 bytes 5 bytes 5 bytes 5 bytes EOF]"},
		{"Write after CloseWrite", func(a, b half) []string {
			return []string{closes(a.CloseWrite()), write(a), closes(a.CloseWrite()), write(a), read(b)}
		}, "[0 bytes broken 0 bytes broken EOF]"},
		{"both CloseWrite", func(a, b half) []string {
			return []string{closes(a.CloseWrite()), closes(b.CloseWrite()), read(a), read(b), closes(a.Close()),
				closes(b.Close())}
		}, "[0 bytes 0 bytes EOF EOF 0 bytes 0 bytes]"},
		{"CloseRead", func(a, b half) []string {
			return []string{closes(a.CloseRead()), read(a), closes(a.CloseRead()), read(a), write(b), write(a), read(b)}
		}, "[0 bytes EOF 0 bytes EOF 5 bytes 5 bytes 5 bytes]"},
		{"CloseRead while Read waits", func(a, b half) []string {
			got := make(chan string)
			go func() { got <- read(a) }()
			time.Sleep(time.Millisecond) // so that it waits, most of the time
			return []string{closes(a.CloseRead()), <-got}
		}, "[0 bytes EOF]"},
		{"both ways", func(a, b half) []string {
			return []string{closes(a.CloseRead()), closes(a.CloseWrite()), read(a), write(a), read(b), write(b)}
		}, "[0 bytes 0 bytes EOF broken EOF 5 bytes]"},
		{"after Close", func(a, b half) []string {
			return []string{closes(a.Close()), closes(a.CloseRead()), closes(a.CloseWrite()), read(a), write(a)}
		}, "[0 bytes closed closed closed closed]"},
		{"deadlines stay", func(a, b half) []string {
			_ = a.SetDeadline(time.Now().Add(-time.Second))
			return []string{read(a), write(a), closes(a.CloseWrite()), read(b)}
		}, "[deadline deadline 0 bytes EOF]"},
		{"CloseWrite after the peer's Close", func(a, b half) []string {
			return []string{closes(b.Close()), read(a), closes(a.CloseWrite()), closes(a.Close())}
		}, "[0 bytes EOF 0 bytes 0 bytes]"},
		{"the peer's Close", func(a, b half) []string {
			got := []string{closes(b.Close()), read(a)}
			last := write(a)
			for end := time.Now().Add(testutil.Patience); last == "5 bytes" && time.Now().Before(end); last = write(a) {
				time.Sleep(time.Millisecond) // TCP learns it by an answer
			}
			return append(got, last)
		}, "[0 bytes EOF broken]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, kind := range []string{"TCP", "RDMA"} {
				var a, b half
				if kind == "TCP" {
					a, b = tcpPair(t)
				} else {
					s, d := streams(t, server, client)
					a, b = s, d
				}
				if got := fmt.Sprint(row.do(a, b)); got != row.want {
					t.Errorf("%s: %s, want %s", kind, got, row.want)
				}
				_ = a.Close()
				_ = b.Close()
			}
		})
	}
}

func tcpPair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	defer l.Close()
	d, err := net.Dial("tcp", l.Addr().String())
	ok(t, err)
	c, err := l.Accept()
	ok(t, err)
	return d.(*net.TCPConn), c.(*net.TCPConn)
}
