package rdma

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

func TestRXE_Messages(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	ctx := timeout(t)
	sizes := []int{0, 1, 28, 29, 1000, 32 << 10, 32<<10 + 1, 100_000, 1 << 20, 5 << 20}
	rnd := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 5<<20)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	done := make(chan error, 1)
	go func() {
		for i, n := range sizes {
			if err := a.SendImm(ctx, uint32(i), data[:n]); err != nil {
				done <- err
				return
			}
		}
		done <- a.CloseWrite()
	}()
	for i, n := range sizes {
		m, err := b.Recv(ctx)
		ok(t, err)
		var joined []byte
		for _, p := range m.Blocks() {
			joined = append(joined, p...)
		}
		if imm, has := m.Imm(); !has || imm != uint32(i) {
			t.Errorf("message %d: imm %d, %v", i, imm, has)
		}
		if !bytes.Equal(m.Bytes(), data[:n]) || !bytes.Equal(joined, data[:n]) {
			t.Errorf("message %d: %d bytes that differ from the %d sent", i, m.Len(), n)
		}
		m.Release()
	}
	ok(t, <-done)
	if _, err := b.Recv(ctx); err != io.EOF {
		t.Errorf("after CloseWrite: %v, want io.EOF", err)
	}
	ok(t, b.Send(ctx, data[:50000]))
	ok(t, b.Flush(ctx))
	m, err := a.Recv(ctx)
	ok(t, err)
	m.Release()
}

// TestRXE_Busy closes an engine that is in use: it stays open, and says what uses it.
func TestRXE_Busy(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	ok(t, a.Send(timeout(t), []byte("kept")))
	ok(t, a.Send(timeout(t), []byte("not read")))
	m, err := b.Recv(timeout(t))
	ok(t, err)
	var busy *ibv.BusyError
	if err := server.Close(); !errors.As(err, &busy) || !strings.Contains(err.Error(), "1 connections") {
		t.Errorf("with an open connection: %v", err)
	}
	ok(t, a.Close())
	ok(t, b.Close())
	testutil.Eventually(t, "the engine names the message", func() bool {
		err := server.Close()
		return errors.As(err, &busy) && strings.Contains(err.Error(), "1 blocks of messages")
	})
	if string(m.Bytes()) != "kept" {
		t.Errorf("after Close: %q", m.Bytes())
	}
	m.Release()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a released message can be used")
			}
		}()
		m.Bytes()
	}()
	if _, err := a.Recv(timeout(t)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Recv after Close: %v", err)
	}
	if err := a.Send(timeout(t), nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Send after Close: %v", err)
	}
}

// TestRXE_Cancelled ends the context of a message of many frames that the peer does not take: the peer never sees a
// part of it, and the next message arrives.
func TestRXE_Cancelled(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	for range 3 {
		ctx, cancel := context.WithCancel(timeout(t))
		done := make(chan error)
		go func() { done <- a.Send(ctx, make([]byte, 8<<20)) }()
		testutil.Eventually(t, "the window is used up", func() bool { return server.Stats().BlocksHeld > 1 })
		cancel()
		if err := <-done; err != context.Canceled {
			t.Fatalf("Send: %v", err)
		}
		sent := make(chan error)
		go func() { sent <- a.Send(timeout(t), []byte("next")) }()
		m, err := b.Recv(timeout(t))
		ok(t, err)
		if string(m.Bytes()) != "next" {
			t.Errorf("%d bytes, want the next message", m.Len())
		}
		m.Release()
		ok(t, <-sent)
	}
	if err := a.Send(timeout(t), make([]byte, defaultMaxMessage+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a message that is too large: %v", err)
	}
}
