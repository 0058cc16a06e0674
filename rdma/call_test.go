package rdma

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
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
	return &Conn{fakeLinkOf(wire.Hello{Block: 64, MaxMessage: 64}, wire.Messages, nil)}
}

// reply is what the peer sends as the answer to call id.
func (r *Caller) reply(id uint32, err bool) *Message {
	if err {
		id |= callFailed
	}
	h := fakeMessage(r.c.l, nil, id, true)
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
				if c.answer > 0 && reply.h.Valid() {
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
			if reply.h.Valid() {
				t.Fatalf("nobody has released answer %d: the call said %v", i, err)
			}
			cancel()
			r.c.l.Mu.Lock()
			r.c.l.DropStaged()
			r.c.l.Mu.Unlock()
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
		for range link.StageMost {
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
		if n := r.c.l.Queue.Staged(); n != link.StageMost {
			t.Errorf("%d requests are staged, want %d", n, link.StageMost)
		}
		time.Sleep(time.Second)
		synctest.Wait()
	})
}
