//go:build linux

package notify

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// slow is how long a call keeps others waiting, at least; twice that at most.
const slow = 2 * time.Millisecond

// receiver handles calls, one after the other on one thread: several would take turns, and wake up cold each time. When
// a call takes long, another receiver takes its place.
type receiver struct {
	tid      int
	waiting  atomic.Bool   // for a call, where a signal ends the wait
	step     atomic.Uint64 // odd while a call is handled
	watched  atomic.Bool
	replaced atomic.Bool
}

// Preconditions: s.running counts it.
func (s *Session) receive() {
	defer s.running.Done()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := &receiver{tid: unix.Gettid()}
	s.mu.Lock()
	s.receivers[r] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.receivers, r)
		s.mu.Unlock()
	}()
	n := new(notification)
	for !s.closing.Load() && !r.replaced.Load() {
		r.waiting.Store(true)
		e := receive(s.listener, n)
		r.waiting.Store(false)
		switch e {
		case 0:
			r.step.Add(1)
			if !r.watched.Load() && r.watched.CompareAndSwap(false, true) {
				s.watch(r, 0)
			}
			s.handle(n)
			r.step.Add(1)
		case unix.EINTR, unix.EAGAIN:
		case unix.ENOENT: // the caller is gone, or all are
			p := []unix.PollFd{{Fd: int32(s.listener)}}
			if _, err := unix.Poll(p, 0); err == nil && p[0].Revents&unix.POLLHUP != 0 {
				return
			}
		default:
			return
		}
	}
}

// watch checks now and then whether r still handles the same call, as long as there are calls.
func (s *Session) watch(r *receiver, seen uint64) {
	step := r.step.Load()
	if step == seen {
		if step&1 != 0 {
			r.replaced.Store(true)
			s.running.Add(1)
			go s.receive()
			return
		}
		r.watched.Store(false)
		if r.step.Load() == step || !r.watched.CompareAndSwap(false, true) {
			return
		}
	}
	time.AfterFunc(slow, func() { s.watch(r, step) })
}

// handle has the handler answer a call.
func (s *Session) handle(n *notification) {
	c := &Call{s: s, id: n.ID, TID: int(n.PID)}
	defer func() {
		if v := recover(); v != nil {
			c.Errno(unix.EIO)
			if s.cfg.OnPanic != nil {
				s.cfg.OnPanic(c, v, debug.Stack())
			}
		}
	}()
	if n.Nr < 0 || n.Nr >= maxCall || callOf[n.Nr] == 0 {
		c.Continue()
		return
	}
	calls[callOf[n.Nr]-1].set(c, &n.Args)
	s.handler(c)
}
