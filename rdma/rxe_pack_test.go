package rdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// batchOf posts messages that are held until all are there.
func batchOf(t *testing.T, c *Conn, list ...[]byte) {
	t.Helper()
	b := c.Batch()
	for i, p := range list {
		if i%2 == 1 {
			b.SendImm(uint32(i), p)
		} else {
			b.Send(p)
		}
	}
	if n, err := b.Post(timeout(t)); n != len(list) || err != nil {
		t.Fatalf("%d of %d messages were sent: %v", n, len(list), err)
	}
}

// TestRXE_Packed sends messages that share frames. They arrive one by one, as they were sent.
func TestRXE_Packed(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	var list [][]byte
	for i, n := range []int{0, 1, 7, 8, 9, 28, 29, 100, 1000, 4000, 12_000, 20_000, 32 << 10, 50_000, 0, 3, 16 << 10,
		16<<10 - 3*wire.RecordLen, 30_000, 2000, 1} {
		list = append(list, bytes.Repeat([]byte{byte(i + 1)}, n))
	}
	for _, way := range [][2]*Conn{{a, b}, {b, a}} {
		batchOf(t, way[0], list...)
		for i, p := range list {
			m, err := way[1].Recv(timeout(t))
			ok(t, err)
			imm, has := m.Imm()
			if !bytes.Equal(m.Bytes(), p) || has != (i%2 == 1) || has && imm != uint32(i) {
				t.Errorf("message %d: %d bytes, immediate %d %v; want %d bytes", i, m.Len(), imm, has, len(p))
			}
			m.Release()
		}
	}
}

// TestRXE_PackedWays has each way to send a message between two short ones, while there are no credits. Those that copy
// share a frame with both, those of buffers do not, and all arrive as they were sent.
func TestRXE_PackedWays(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, nil)
	ctx := timeout(t)
	batch := func(a *Conn, add func(*Batch)) error {
		list := a.Batch()
		add(list)
		_, err := list.Post(ctx)
		return err
	}
	filled := func(buf *Buffer, err error) func(p []byte) *Buffer {
		ok(t, err)
		return func(p []byte) *Buffer {
			copy(buf.Bytes(), p)
			return buf
		}
	}
	registered := 3
	if client.e.Sizes.MaxSendSGE == 1 {
		registered = 2 // the long ones are copied, too
	}
	for _, w := range []struct {
		name        string
		send        func(a *Conn, p []byte) error
		hasImm      bool
		short, long int // frames, with up to copyMost bytes and with more
	}{
		{"Send", func(a *Conn, p []byte) error { return a.Send(ctx, p) }, false, 1, 1},
		{"SendImm", func(a *Conn, p []byte) error { return a.SendImm(ctx, 7, p) }, true, 1, 1},
		{"Batch.Send", func(a *Conn, p []byte) error {
			return batch(a, func(b *Batch) { b.Send(p) })
		}, false, 1, 1},
		{"Batch.SendImm", func(a *Conn, p []byte) error {
			return batch(a, func(b *Batch) { b.SendImm(7, p) })
		}, true, 1, 1},
		{"SendBuffer", func(a *Conn, p []byte) error {
			return a.SendBuffer(ctx, filled(client.Pool().Get(len(p)))(p))
		}, false, 3, 3},
		{"SendBuffer of registered memory", func(a *Conn, p []byte) error {
			return a.SendBuffer(ctx, filled(client.Pool().Register(make([]byte, len(p))))(p))
		}, false, 2, registered}, // a short one is copied, and shares with the one behind it
		{"Batch.SendBuffer", func(a *Conn, p []byte) error {
			return batch(a, func(b *Batch) { b.SendBuffer(filled(client.Pool().Get(len(p)))(p)) })
		}, false, 3, 3},
	} {
		lengths := map[int]int{1: w.short, link.CopyMost: w.short, link.CopyMost + 1: w.long, 5000: w.long}
		if r := testutil.NeedRXE(t); !r.Emulated && !r.Hardware && !testutil.Full() { // each takes a while
			delete(lengths, 1)
			delete(lengths, 5000)
		}
		for n, frames := range lengths {
			a, b := conns(t, server, client)
			full := make([]byte, client.e.Options.Block)
			for range link.StartWindow + 1 { // the last one waits, and has no room
				ok(t, a.Send(ctx, full))
			}
			p := bytes.Repeat([]byte{byte(n)}, n)
			ok(t, a.Send(ctx, []byte("before")))
			if err := w.send(a, p); err != nil {
				t.Fatalf("%s of %d bytes: %v", w.name, n, err)
			}
			ok(t, a.Send(ctx, []byte("after")))
			a.l.Mu.Lock()
			got := a.l.Queue.Staged() - 1
			a.l.Mu.Unlock()
			if got != frames {
				t.Errorf("%s of %d bytes: %d frames, want %d", w.name, n, got, frames)
			}
			want := [][]byte{full, full, full, []byte("before"), p, []byte("after")}
			for i := range want {
				m, err := b.Recv(ctx)
				ok(t, err)
				imm, has := m.Imm()
				if !bytes.Equal(m.Bytes(), want[i]) || has != (w.hasImm && i == 4) || has && imm != 7 {
					t.Errorf("%s of %d bytes, message %d: %d bytes, immediate %d %v", w.name, n, i, m.Len(), imm, has)
				}
				m.Release()
			}
			ok(t, a.Close())
			ok(t, b.Close())
		}
	}
}

// TestRXE_PackedHeld releases the messages of a frame in another order: the frame's block stays with the last of them.
func TestRXE_PackedHeld(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	const n, kept = 200, 57
	list := make([][]byte, n)
	for i := range list {
		list[i] = bytes.Repeat([]byte{byte(i)}, i)
	}
	before := server.Stats().Frames
	batchOf(t, a, list...)
	var got []*Message
	for range n {
		m, there, err := b.TryRecv() // finds what is left of a frame
		if !there && err == nil {
			m, err = b.Recv(timeout(t))
		}
		ok(t, err)
		got = append(got, m)
	}
	// On a busy machine frames with new limits come in between.
	if frames, held := server.Stats().Frames-before, server.Stats().BlocksHeld; frames > 2+2 || held > 2 {
		t.Errorf("%d messages came in %d frames, %d blocks are held; want at most 4 and 2", n, frames, held)
	}
	for _, i := range rand.Perm(n) {
		if i != kept {
			got[i].Release()
		}
	}
	if held := server.Stats().BlocksHeld; held != 1 {
		t.Errorf("%d blocks are held by one message", held)
	}
	for range 3 {
		echo(t, a, b)
	}
	if !bytes.Equal(got[kept].Bytes(), list[kept]) {
		t.Error("a message has changed that was not released")
	}
	got[kept].Release()
	if held := server.Stats().BlocksHeld; held != 0 {
		t.Errorf("%d blocks are held by nobody", held)
	}
}

// TestRXE_PackedClosed closes a connection while a part of a frame's messages was received. What was received stays,
// and no block is lost.
func TestRXE_PackedClosed(t *testing.T) {
	server, client := newEngines(t, nil)
	for round := range 3 {
		a, b := conns(t, server, client)
		batchOf(t, a, make([][]byte, 100)...)
		m, err := b.Recv(timeout(t))
		ok(t, err)
		switch round {
		case 0: // this end
			ok(t, b.Close())
			if _, err := b.Recv(timeout(t)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Recv after Close: %v", err)
			}
		case 1: // the peer
			ok(t, a.Close())
			for range 99 {
				m, err := b.Recv(timeout(t))
				ok(t, err)
				m.Release()
			}
			if _, err := b.Recv(timeout(t)); err != io.EOF {
				t.Errorf("Recv after all: %v, want io.EOF", err)
			}
		case 2: // none
			b.l.Fail(errors.New("a fault"))
			<-b.Done()
			for range 99 {
				m, err := b.Recv(timeout(t))
				ok(t, err)
				m.Release()
			}
			if _, err := b.Recv(timeout(t)); err == nil {
				t.Error("Recv after all: no error")
			}
		}
		ok(t, a.Close())
		ok(t, b.Close())
		m.Release()
	}
}

// TestRXE_PackedRandom has goroutines send numbered messages of random sizes both ways over one connection, some of
// which are given up, and others receive and release them when they like. Those of each goroutine arrive in order, and
// all that were not given up do.
func TestRXE_PackedRandom(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{Memory: 16 << 20})
	each, senders := 300, 4
	switch {
	case testutil.Full():
		each = 20_000
	case !testutil.NeedRXE(t).Emulated:
		each = 100
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	before := server.Stats().Frames
	var all sync.WaitGroup
	for k, way := range [][2]*Conn{{a, b}, {b, a}} {
		from, to := way[0], way[1]
		sent := make([][]bool, senders)
		var sending sync.WaitGroup
		for s := range senders {
			rnd := rand.New(rand.NewPCG(seed, uint64(k)<<8|uint64(s)))
			sent[s] = make([]bool, each)
			sending.Go(func() {
				for i := range each {
					p := make([]byte, 8+rnd.IntN([]int{8, 64, 64, 500, 5000, 70_000}[rnd.IntN(6)]))
					numbered(p, uint32(s), uint32(i))
					ctx, cancel := timeout(t), context.CancelFunc(func() {})
					if rnd.IntN(8) == 0 {
						ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(200))*time.Microsecond)
					}
					err := from.Send(ctx, p)
					cancel()
					if sent[s][i] = err == nil; err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("seed %d: %v", seed, err)
						return
					}
				}
			})
		}
		all.Go(func() {
			sending.Wait()
			ok(t, from.CloseWrite())
		})
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(k)<<8|0xff))
			got := make([][]bool, senders)
			for s := range got {
				got[s] = make([]bool, each)
			}
			last := make([]int64, senders)
			var kept *Message // one: the window may be two frames
			var releasing sync.WaitGroup
			for {
				m, err := to.Recv(timeout(t))
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
				p := m.Bytes()
				s, i := binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint32(p[4:])
				want := make([]byte, len(p))
				if numbered(want, s, i); !bytes.Equal(p, want) || int64(i) < last[s] {
					t.Errorf("seed %d: message %d of sender %d: wrong bytes, or after %d", seed, i, s, last[s])
				}
				last[s], got[s][i] = int64(i)+1, true
				if rnd.IntN(3) == 0 {
					releasing.Go(m.Release)
					continue
				}
				if kept != nil {
					kept.Release()
				}
				if kept = m; rnd.IntN(2) == 0 {
					kept.Release()
					kept = nil
				}
			}
			if kept != nil {
				kept.Release()
			}
			releasing.Wait()
			sending.Wait()
			for s := range got {
				for i := range got[s] {
					if got[s][i] != sent[s][i] {
						t.Errorf("seed %d: message %d of sender %d: sent %v, received %v", seed, i, s, sent[s][i],
							got[s][i])
					}
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d messages came in %d frames at one end", senders*each, server.Stats().Frames-before)
}

// numbered makes a message that tells its sender and number.
func numbered(p []byte, s, i uint32) {
	binary.LittleEndian.PutUint32(p, s)
	binary.LittleEndian.PutUint32(p[4:], i)
	for j := 8; j < len(p); j++ {
		p[j] = byte(j) ^ byte(i) ^ byte(s<<4)
	}
}
