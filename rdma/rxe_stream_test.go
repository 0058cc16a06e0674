package rdma

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/deadline"
)

func TestRXE_Stream(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := streams(t, server, client)
	defer a.Close()
	defer b.Close()
	data := make([]byte, 3<<20)
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	done := make(chan error, 1)
	go func() {
		for rest := data; len(rest) > 0; {
			n := min(1+rnd.IntN(70000), len(rest))
			if rnd.IntN(2) == 0 {
				n = min(n, 1+rnd.IntN(40))
			}
			if _, err := a.Write(rest[:n]); err != nil {
				done <- err
				return
			}
			rest = rest[n:]
		}
		done <- a.CloseWrite()
	}()
	h := sha256.New()
	n, err := io.Copy(h, b)
	ok(t, err)
	ok(t, <-done)
	if want := sha256.Sum256(data); n != int64(len(data)) || !bytes.Equal(h.Sum(nil), want[:]) {
		t.Errorf("%d bytes with another hash, want %d", n, len(data))
	}
}

// TestRXE_StreamDone ends streams from either side. Done and Err report it, also of a stream that TCP carries.
func TestRXE_StreamDone(t *testing.T) {
	server, client := smallEngines(t)
	a, b := streams(t, server, client)
	for _, s := range []*Stream{a, b} {
		if s.Err() != nil || deadline.IsClosed(s.Done()) {
			t.Errorf("an open stream has ended: %v", s.Err())
		}
	}
	ok(t, a.Close())
	for s, want := range map[*Stream]error{a: ErrClosed, b: ErrPeerClosed} {
		<-s.Done()
		if !errors.Is(s.Err(), want) {
			t.Errorf("%v, want %v", s.Err(), want)
		}
	}
	ok(t, b.Close())

	d, c := tcpPair(t)
	s, p := newTCPStream(d, ""), newTCPStream(c, "")
	if s.Err() != nil || deadline.IsClosed(s.Done()) {
		t.Errorf("an open stream of TCP has ended: %v", s.Err())
	}
	ok(t, c.SetLinger(0)) // resets
	ok(t, p.Close())
	<-p.Done()
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Read: %v", err)
	}
	<-s.Done()
	if !errors.Is(s.Err(), syscall.ECONNRESET) || p.Err() != ErrClosed {
		t.Errorf("after a reset: %v and %v", s.Err(), p.Err())
	}
	ok(t, s.Close())
}
