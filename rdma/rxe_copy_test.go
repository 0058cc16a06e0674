package rdma

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// TestRXE_CopyBesides has a Reader and a Writer that do not return, on both ends of a stream: other goroutines write
// and read, and Close returns. Engine.Close succeeds once the Writer has returned.
func TestRXE_CopyBesides(t *testing.T) {
	server, client := smallEngines(t)
	a, b := streams(t, server, client)
	entered, free := make(chan struct{}, 2), make(chan struct{})
	copies := make(chan error, 2)
	go func() {
		_, err := a.ReadFrom(readerFunc(func([]byte) (int, error) {
			entered <- struct{}{}
			<-free
			return 0, io.EOF
		}))
		copies <- err
	}()
	<-entered
	_, err := a.Write([]byte("first"))
	ok(t, err)
	go func() {
		_, err := b.WriteTo(writerFunc(func(p []byte) (int, error) {
			entered <- struct{}{}
			<-free
			return len(p), nil
		}))
		copies <- err
	}()
	<-entered
	_, err = a.Write([]byte("second"))
	ok(t, err)
	ok(t, b.SetReadDeadline(time.Now().Add(testutil.Patience)))
	p := make([]byte, 6)
	if _, err := io.ReadFull(b, p); err != nil || string(p) != "second" {
		t.Errorf("%q, %v", p, err)
	}
	ok(t, a.Close())
	ok(t, b.Close())
	testutil.Eventually(t, "both ends are forgotten", func() bool {
		return server.Stats().Conns == 0 && client.Stats().Conns == 0
	})
	var busy *ibv.BusyError
	if err := server.Close(); !errors.As(err, &busy) {
		t.Errorf("Engine.Close while a Writer has a frame: %v, want a *ibv.BusyError", err)
	}
	close(free)
	for range 2 {
		if err := <-copies; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestRXE_CopyIdle has more sources that say nothing than the engine has blocks.
func TestRXE_CopyIdle(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{Memory: 4 << 20})
	a, b := streams(t, server, client)
	defer a.Close()
	defer b.Close()
	silent := make(chan struct{})
	done := make(chan error)
	entered := make(chan struct{})
	const sources = 150 // 4 MiB are 127 blocks
	for range sources {
		go func() {
			_, err := a.ReadFrom(readerFunc(func([]byte) (int, error) {
				entered <- struct{}{}
				<-silent
				return 0, io.EOF
			}))
			done <- err
		}()
		<-entered
	}
	exchange(t, b, a)
	close(silent)
	for range sources {
		if err := <-done; !errors.Is(err, link.ErrShutWrite) {
			ok(t, err)
		}
	}
}

// TestRXE_CopyDeadlines moves deadlines into the past while a Reader, and a Writer, runs.
func TestRXE_CopyDeadlines(t *testing.T) {
	server, client := smallEngines(t)
	a, b := streams(t, server, client)
	defer a.Close()
	defer b.Close()
	n, err := a.ReadFrom(readerFunc(func(p []byte) (int, error) {
		return len(p), a.SetWriteDeadline(time.Unix(1, 0))
	}))
	var timeout net.Error
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("ReadFrom: %d bytes, %v", n, err)
	}
	ok(t, a.SetWriteDeadline(time.Time{}))
	for range 2 {
		_, err = a.Write([]byte("hello"))
		ok(t, err)
		n, err = b.WriteTo(writerFunc(func(p []byte) (int, error) {
			return len(p), b.SetReadDeadline(time.Unix(1, 0))
		}))
		if n != 5 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("WriteTo: %d bytes, %v", n, err)
		}
		ok(t, b.SetReadDeadline(time.Time{}))
	}
}
