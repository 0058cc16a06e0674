package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// allBack waits until the pool has all its buffers again.
func allBack(t *testing.T, e *Engine) {
	t.Helper()
	testutil.Eventually(t, "the pool has all buffers", func() bool { return e.Stats().Buffers == 0 })
}

func TestRXE_SendBuffer(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	ctx := timeout(t)
	data := make([]byte, 5<<20)
	rnd := rand.NewChaCha8([32]byte{1})
	_, _ = rnd.Read(data)
	pool := client.Pool()
	mine := bytes.Clone(data)
	done := make(chan error, 1)
	// Around the inlined size, a block, a block and the copied size, half the window.
	sizes := []int{0, 1, 28, 29, 1000, 32 << 10, 32<<10 + 1, 32<<10 + link.CopyMost, 32<<10 + link.CopyMost + 1,
		1 << 20, 5 << 20}
	go func() {
		done <- func() error {
			for _, n := range sizes {
				buf, err := pool.Get(n)
				if err != nil {
					return err
				}
				copy(buf.Bytes(), data)
				if err := a.SendBuffer(ctx, buf); err != nil {
					return err
				}
				if n == 0 {
					continue
				}
				if buf, err = pool.Register(mine[:n]); err != nil {
					return err
				}
				if err := a.SendBuffer(ctx, buf); err != nil {
					return err
				}
				panics(t, "Bytes after SendBuffer", func() { buf.Bytes() })
				panics(t, "Release after SendBuffer", buf.Release)
			}
			return nil
		}()
	}()
	recv := func(n int) {
		t.Helper()
		m, err := b.Recv(ctx)
		ok(t, err)
		if !bytes.Equal(m.Bytes(), data[:n]) {
			t.Errorf("%d bytes that differ from the %d sent", m.Len(), n)
		}
		m.Release()
	}
	for _, n := range sizes {
		recv(n)
		if n > 0 {
			recv(n)
		}
	}
	ok(t, <-done)
	allBack(t, client) // without anything else being sent

	get := func(n int) *Buffer {
		buf, err := pool.Get(n)
		ok(t, err)
		return buf
	}
	if err := a.SendBuffer(ctx, get(defaultMaxMessage+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a message that is too large: %v", err)
	}
	other, err := server.Pool().Get(10)
	ok(t, err)
	var arg *ibv.ArgError
	if err := a.SendBuffer(ctx, other); !errors.As(err, &arg) {
		t.Errorf("a buffer of another engine: %v", err)
	}
	if err := a.SendBuffer(ctx, nil); !errors.As(err, &arg) {
		t.Errorf("no buffer: %v", err)
	}
	none := a.Batch()
	none.Send([]byte("a"))
	none.SendBuffer(nil)
	if n, err := none.Post(ctx); n != 0 || !errors.As(err, &arg) || none.Len() != 0 {
		t.Errorf("a batch with no buffer: %d, %v", n, err)
	}
	short, cancel := context.WithCancel(ctx)
	go func() { done <- a.SendBuffer(short, get(8<<20)) }()
	testutil.Eventually(t, "the window is used up", func() bool { return server.Stats().BlocksHeld > 1 })
	cancel()
	if err := <-done; err != context.Canceled {
		t.Errorf("a message of which some was sent: %v", err)
	}
	go func() { done <- a.SendBuffer(ctx, get(7)) }() // the cancelled message takes credits
	m, err := b.Recv(ctx)
	ok(t, err)
	if m.Len() != 7 {
		t.Errorf("%d bytes, want the message after the cancelled one", m.Len())
	}
	m.Release()
	ok(t, <-done)
	go func() { done <- a.SendBuffer(ctx, get(8<<20)) }()
	testutil.Eventually(t, "the window is used up", func() bool { return server.Stats().BlocksHeld > 1 })
	ok(t, b.Close()) // what the device still sends is given back when the connection has ended
	if err := <-done; !errors.Is(err, ErrPeerClosed) {
		t.Errorf("a peer that closes: %v", err)
	}
	ok(t, a.Close())
	if err := a.SendBuffer(ctx, get(1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SendBuffer after Close: %v", err)
	}
	allBack(t, client)
	allBack(t, server)
}

// TestRXE_GetWaitSends waits for buffers that have been sent, and whose completions nobody has asked for.
func TestRXE_GetWaitSends(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{Memory: 8 << 20})
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	ctx := timeout(t)
	const messages = 200
	done := make(chan error, 1)
	go func() {
		for i := range messages {
			buf, err := client.Pool().GetWait(ctx, 50_000) // more than one frame, less than signalBuffer
			if err == nil {
				fill(buf.Bytes(), byte(i))
				err = a.SendBuffer(ctx, buf)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for i := range messages {
		m, err := b.Recv(ctx)
		ok(t, err)
		if got := m.Bytes(); len(got) != 50_000 || got[0] != byte(i) || got[49_999] != byte(i) {
			t.Errorf("message %d: %d bytes, %d", i, len(got), got[0])
		}
		m.Release()
	}
	ok(t, <-done)
}

func TestRXE_Batch(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	ctx := timeout(t)
	recv := func(want string) {
		t.Helper()
		m, err := b.Recv(ctx)
		ok(t, err)
		if string(m.Bytes()) != want {
			t.Errorf("%.20q, want %.20q", m.Bytes(), want)
		}
		m.Release()
	}
	for i := range 100 { // the window grows
		ok(t, a.Send(ctx, nil))
		if i%2 > 0 {
			recv("")
			recv("")
		}
	}
	ok(t, a.Flush(ctx))
	batch := a.Batch()
	before := client.Stats().Doorbells
	for i := range 5 {
		batch.Send(fmt.Append(nil, i))
		batch.SendImm(uint32(i), []byte("imm"))
		buf, err := client.Pool().Get(20_000)
		ok(t, err)
		fill(buf.Bytes(), 'b')
		batch.SendBuffer(buf)
	}
	if n := batch.Len(); n != 15 {
		t.Errorf("%d messages, want 15", n)
	}
	n, err := batch.Post(ctx)
	ok(t, err)
	if rung := client.Stats().Doorbells - before; n != 15 || rung > 2 { // 2 if the peer's credits come meanwhile
		t.Errorf("%d messages with %d doorbells, want 15 with one", n, rung)
	}
	for i := range 5 {
		recv(fmt.Sprint(i))
		m, err := b.Recv(ctx)
		ok(t, err)
		if imm, has := m.Imm(); !has || imm != uint32(i) {
			t.Errorf("imm %d, %v", imm, has)
		}
		m.Release()
		recv(string(bytes.Repeat([]byte{'b'}, 20_000)))
	}
	if n, err := batch.Post(ctx); n != 0 || err != nil {
		t.Errorf("an empty batch: %d, %v", n, err)
	}

	buf, err := client.Pool().Get(10)
	ok(t, err)
	batch.Send([]byte("kept back"))
	batch.SendBuffer(buf)
	batch.Send(make([]byte, defaultMaxMessage+1))
	if n, err := batch.Post(ctx); n != 0 || !errors.Is(err, ErrTooLarge) || batch.Len() != 0 {
		t.Errorf("a message that is too large: %d, %v; %d are left", n, err, batch.Len())
	}
	short, cancel := context.WithCancel(ctx)
	for range 300 { // more than there are credits
		buf, err := client.Pool().Get(10)
		ok(t, err)
		batch.SendBuffer(buf)
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := batch.Post(short)
		done <- result{n, err}
	}()
	testutil.Eventually(t, "the window is used up", func() bool { return server.Stats().BlocksHeld > 1 })
	cancel()
	r := <-done
	if r.err != context.Canceled || r.n == 0 || r.n == 300 {
		t.Errorf("with a context that ends: %d, %v", r.n, r.err)
	}
	ok(t, a.CloseWrite())
	for i := 0; ; i++ {
		m, err := b.Recv(ctx)
		if err == io.EOF && i == r.n {
			break
		}
		ok(t, err)
		m.Release()
	}
	allBack(t, client)
}

func TestRXE_WriteBuffers(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := streams(t, server, client)
	defer a.Close()
	defer b.Close()
	rnd := rand.New(rand.NewPCG(5, 6))
	var v net.Buffers
	var want []byte
	for i := range 500 {
		p := bytes.Repeat([]byte{byte(i)}, rnd.IntN(2000))
		if i%100 == 0 {
			p = bytes.Repeat([]byte{byte(i)}, 100_000)
		}
		v, want = append(v, p), append(want, p...)
	}
	done := make(chan error, 1)
	go func() {
		if n, err := a.WriteBuffers(v[:50]); err != nil || n == 0 {
			done <- fmt.Errorf("%d, %w", n, err)
			return
		}
		n, err := a.WriteBuffers(v[50:])
		if n == 0 || len(v) != 500 || err != nil {
			done <- fmt.Errorf("%d bytes, %d slices: %w", n, len(v), err)
			return
		}
		done <- a.CloseWrite()
	}()
	got, err := io.ReadAll(b)
	ok(t, err)
	ok(t, <-done)
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes that differ from the %d written", len(got), len(want))
	}
	if n, err := a.WriteBuffers(v); n != 0 || err == nil {
		t.Errorf("after CloseWrite: %d, %v", n, err)
	}
}
