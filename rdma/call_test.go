package rdma

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// fakeCaller is a caller on a connection that never started: its requests stay staged, and a test answers them.
func fakeCaller() *Caller {
	r, err := NewCaller(fakeConn())
	if err != nil {
		panic(err)
	}
	return r
}

func fakeConn() *Conn {
	e := &shard{most: mostSmall, progress: noProgress()}
	e.blocks = fakeBlocks(headroom+64, 8*stageMost)
	e.opt.Block = 64
	l := newLink(e, wire.Messages, linkOptions{}, nil)
	l.peer = wire.Hello{Block: 64, MaxMessage: 64}
	return &Conn{l}
}

// fakeBlocks are n blocks in memory that is not registered.
func fakeBlocks(size, n int) *blocks.Set {
	slab := int64(n * size)
	return blocks.NewSet(blocks.Config{Block: size, Slab: slab, Most: slab, Budget: blocks.NewBudget(slab, slab),
		Register: func(n int) (blocks.Memory, error) { return fakeMemory(make([]byte, n)), nil }, Short: func() {}})
}

type fakeMemory []byte

func (m fakeMemory) Bytes() []byte { return m }
func (m fakeMemory) Addr() uint64  { return 1 << 20 }
func (m fakeMemory) LKey() uint32  { return 1 }
func (m fakeMemory) Close() error  { return nil }

// noProgress is for shards without a CQ: goroutines that wait only sleep.
func noProgress() *progress.Progress {
	p := progress.New(nil, progress.Options{})
	p.Stop()
	return p
}

// reply is what the peer sends as the answer to call id.
func (r *Caller) reply(id uint32, err bool) *Message {
	m := newMessage(r.c.l)
	m.imm, m.hasImm = id, true
	if err {
		m.imm |= callFailed
	}
	h := m.handle()
	return &h
}

// end ends the caller as if the connection had ended, and looks at what is left.
func (r *Caller) end(t *testing.T) {
	t.Helper()
	r.cancel()
	<-r.done
	if len(r.waiting) != 0 {
		t.Errorf("%d calls still wait", len(r.waiting))
	}
}

// TestCallTimes looks at when a call ends that waits for its answer.
func TestCallTimes(t *testing.T) {
	const limit = time.Second
	for _, c := range []struct {
		name   string
		answer time.Duration // when it comes; 0: never
		close  time.Duration // when the connection ends; 0: never
		want   error
		after  time.Duration
	}{
		{"no answer", 0, 0, context.DeadlineExceeded, limit},
		{"an answer in time", limit - 1, 0, nil, limit - 1},
		{"a late answer", limit + 1, 0, context.DeadlineExceeded, limit},
		{"the connection ends", 0, limit / 2, net.ErrClosed, limit / 2},
		{"an answer before the connection ends", limit / 4, limit / 2, nil, limit / 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := fakeCaller()
				defer r.end(t)
				reply := r.reply(1, false)
				if c.answer > 0 {
					go func() {
						time.Sleep(c.answer)
						r.answer(reply)
					}()
				}
				if c.close > 0 {
					time.AfterFunc(c.close, r.cancel)
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				began := time.Now()
				m, err := r.Call(ctx, []byte("request"))
				if !errors.Is(err, c.want) || (m != nil) != (c.want == nil) || time.Since(began) != c.after {
					t.Errorf("%v, %v after %v; want %v after %v", m, err, time.Since(began), c.want, c.after)
				}
				if m != nil {
					m.Release()
				}
				time.Sleep(limit)
				synctest.Wait()
				if c.answer > 0 && reply.m.gen.Load() == reply.gen {
					t.Error("nobody has released the answer")
				}
			})
		})
	}
}

// TestCallersOne: a connection has one Caller. A second one, which would take its replies, is refused.
func TestCallersOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := fakeCaller()
		defer r.end(t)
		refused := func(what string, err error) {
			t.Helper()
			var arg *ibv.ArgError
			if !errors.As(err, &arg) {
				t.Errorf("%s: %v, want an *ibv.ArgError", what, err)
			}
		}
		_, err := NewCaller(r.c)
		refused("a second Caller", err)
		refused("Serve beside a Caller", Serve(t.Context(), r.c, nil))
		time.AfterFunc(time.Second, func() { r.answer(r.reply(1, false)) })
		m, err := r.Call(t.Context(), []byte("request"))
		if err != nil {
			t.Fatalf("the first Caller: %v", err)
		}
		m.Release()

		c := fakeConn()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error)
		for range 2 { // requests come one by one: any number may serve them
			go func() { served <- Serve(ctx, c, nil) }()
		}
		synctest.Wait()
		_, err = NewCaller(c)
		refused("a Caller beside Serve", err)
		cancel()
		for range 2 {
			if err := <-served; err != context.Canceled {
				t.Errorf("serve = %v", err)
			}
		}
		last, err := NewCaller(c)
		if err != nil {
			t.Fatalf("a Caller after Serve: %v", err)
		}
		last.end(t)
	})
}

// TestCallAnswerInTime has answers come at the moment at which calls are given up: each is returned or released.
func TestCallAnswerInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := fakeCaller()
		defer r.end(t)
		for i := range uint32(10_000) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			reply := r.reply(i+1, i%2 == 0)
			time.AfterFunc(time.Second, func() { r.answer(reply) })
			m, err := r.Call(ctx, nil)
			var failed *CallError
			if m == nil && !errors.As(err, &failed) && err != context.DeadlineExceeded {
				t.Fatal(err)
			}
			if m != nil {
				m.Release()
			}
			synctest.Wait()
			if reply.m.gen.Load() == reply.gen {
				t.Fatalf("nobody has released answer %d: the call said %v", i, err)
			}
			cancel()
			r.c.l.mu.Lock()
			r.c.l.dropStaged()
			r.c.l.mu.Unlock()
		}
	})
}

// TestCallWithoutRoom gives up calls that were not even sent: the peer does not read.
func TestCallWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := fakeCaller()
		defer r.end(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		for range stageMost {
			go func() { _, _ = r.Call(ctx, nil) }()
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := r.Call(short, nil); err != context.DeadlineExceeded || time.Since(began) != time.Millisecond {
			t.Errorf("a call without room: %v after %v", err, time.Since(began))
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Call(over, nil); err != context.Canceled || time.Since(began) != time.Millisecond {
			t.Errorf("a call with an ended context: %v after %v", err, time.Since(began))
		}
		if n := r.c.l.q.Staged(); n != stageMost {
			t.Errorf("%d requests are staged, want %d", n, stageMost)
		}
		time.Sleep(time.Second)
		synctest.Wait()
	})
}
