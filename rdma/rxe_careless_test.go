package rdma

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Careless has callers that misuse a stream. Each call returns, and the other end sees an end.
func TestRXE_Careless(t *testing.T) {
	needLogic(t)
	server, client := smallEngines(t)
	past := time.Unix(1, 0)
	flood := readerFunc(func(p []byte) (int, error) { return len(p), nil })
	for _, row := range []struct {
		name string
		f    func(t *testing.T, a, b *Stream)
	}{
		{"Close during ReadFrom, the peer does not read", func(t *testing.T, a, b *Stream) {
			done := make(chan error)
			go func() {
				_, err := io.Copy(a, flood)
				done <- err
			}()
			time.Sleep(time.Millisecond)
			ok(t, a.CloseNow())
			if err := <-done; !errors.Is(err, net.ErrClosed) {
				t.Errorf("ReadFrom: %v", err)
			}
		}},
		{"Close during WriteTo, nothing comes", func(t *testing.T, a, b *Stream) {
			done := make(chan error)
			go func() {
				_, err := io.Copy(io.Discard, a)
				done <- err
			}()
			time.Sleep(time.Millisecond)
			ok(t, a.Close())
			if err := <-done; !errors.Is(err, net.ErrClosed) {
				t.Errorf("WriteTo: %v", err)
			}
		}},
		{"Close within Read and Write of copies", func(t *testing.T, a, b *Stream) {
			_, err := b.Write([]byte("hello"))
			ok(t, err)
			_, err = io.Copy(b, readerFunc(func(p []byte) (int, error) { return len(p), b.Close() }))
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("ReadFrom: %v", err)
			}
			_, err = io.Copy(writerFunc(func(p []byte) (int, error) { return len(p), a.Close() }), a)
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("WriteTo: %v", err)
			}
		}},
		{"a stream copied to itself", func(t *testing.T, a, b *Stream) {
			done := make(chan error)
			go func() {
				_, err := io.Copy(a, a)
				done <- err
			}()
			_, err := io.WriteString(b, "hello")
			ok(t, err)
			p := make([]byte, 5)
			_, err = io.ReadFull(b, p)
			ok(t, err)
			ok(t, b.CloseWrite())
			ok(t, <-done)
		}},
		{"deadlines in the past, then none, again and again", func(t *testing.T, a, b *Stream) {
			p := make([]byte, 1)
			for range 50 {
				ok(t, a.SetDeadline(past))
				if _, err := a.Read(p); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("Read: %v", err)
				}
				if _, err := a.Write(p); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("Write: %v", err)
				}
				ok(t, a.SetDeadline(time.Time{}))
				_, err := a.Write(p)
				ok(t, err)
				_, err = b.Read(p)
				ok(t, err)
			}
		}},
		{"a deadline that moves while a copy runs", func(t *testing.T, a, b *Stream) {
			ok(t, a.SetWriteDeadline(time.Now().Add(time.Hour)))
			go func() { _, _ = io.Copy(io.Discard, b) }()
			n := 0
			_, err := io.Copy(a, readerFunc(func(p []byte) (int, error) {
				if n++; n == 100 {
					ok(t, a.SetWriteDeadline(past))
				} else {
					ok(t, a.SetWriteDeadline(time.Now().Add(time.Duration(n)*time.Hour)))
				}
				return 1, nil
			}))
			if !errors.Is(err, os.ErrDeadlineExceeded) || n != 100 {
				t.Errorf("after %d reads: %v", n, err)
			}
		}},
		{"Write after CloseWrite, and nothing at all", func(t *testing.T, a, b *Stream) {
			for range 3 {
				n, err := a.Write(nil)
				if n != 0 || err != nil {
					t.Errorf("a write of nothing: %d, %v", n, err)
				}
			}
			n, err := io.Copy(a, strings.NewReader(""))
			if n != 0 || err != nil {
				t.Errorf("a copy of nothing: %d, %v", n, err)
			}
			ok(t, a.CloseWrite())
			if _, err := a.Write(nil); err == nil {
				t.Error("a write of nothing after CloseWrite has no error")
			}
			if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("the peer reads %d bytes, %v", n, err)
			}
		}},
		{"many goroutines close, move deadlines, write and read", func(t *testing.T, a, b *Stream) {
			var all sync.WaitGroup
			for i := range 8 {
				for _, s := range []*Stream{a, b} {
					all.Go(func() {
						p := make([]byte, 1000)
						for range 100 {
							_ = s.SetDeadline(time.Now().Add(time.Duration(i) * time.Millisecond))
							_, _ = s.Write(p)
							_ = s.SetReadDeadline(time.Now().Add(time.Millisecond))
							_, _ = s.Read(p)
						}
						_ = s.Close()
					})
				}
			}
			all.Wait()
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, b := streams(t, server, client)
			done := make(chan struct{})
			go func() {
				defer close(done)
				row.f(t, a, b)
			}()
			select {
			case <-done:
			case <-time.After(testutil.Patience):
				t.Fatal("a call does not return")
			}
			_ = a.Close()
			_ = b.Close()
		})
	}
}

// TestRXE_CarelessPackets has callers that misuse a socket for datagrams.
func TestRXE_CarelessPackets(t *testing.T) {
	needLogic(t)
	a, b := packets(t, twoEngines(t)...)
	var all sync.WaitGroup
	for i := range 8 {
		for _, c := range []*PacketConn{a, b} {
			to := b.LocalAddr()
			if c == b {
				to = a.LocalAddr()
			}
			all.Go(func() {
				p := make([]byte, 100)
				for range 50 {
					_ = c.SetDeadline(time.Now().Add(time.Duration(i) * time.Millisecond))
					_, _ = c.WriteTo(p, to)
					_, _, _ = c.ReadFrom(p)
					_, _, _ = c.ReadFrom(nil)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
}
