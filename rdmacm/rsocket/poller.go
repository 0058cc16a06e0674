package rsocket

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind/librdmacm"
	"github.com/pureverbs/pureverbs/internal/life"
)

// maxWait bounds one wait in C, by means of the pipe. The library sometimes misses an event of a
// socket and would notice it only after five seconds.
const maxWait = 200 * time.Millisecond

// Poller waits for many sockets in one goroutine. It belongs to the caller. Only one goroutine at a
// time may be in Wait; the other methods are safe for concurrent use, also during Wait.
type Poller struct {
	life life.Object // its user is Wait
	lib  *lib
	r, w *os.File // a pipe that ends a wait
	rfd  int

	waiting sync.Mutex // held during Wait
	woken   atomic.Bool

	mu      sync.Mutex
	socks   map[*Socket]Events
	changed bool // socks has changed since fds was made

	// Used only by the goroutine in Wait.
	fds   []librdmacm.PollFD // the pipe, one for each of list, the queues of those that listen
	list  []*Socket
	held  []*Socket
	ready []Ready
}

// Ready is a socket that is ready, and for what.
type Ready struct {
	Socket *Socket
	Events Events
}

// NewPoller returns a poller without sockets.
func NewPoller() (*Poller, error) {
	l, err := library()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &Poller{lib: l, r: r, w: w, socks: map[*Socket]Events{}, changed: true}
	c, err := r.SyscallConn()
	if err == nil {
		err = c.Control(func(fd uintptr) { p.rfd = int(fd) })
	}
	if err != nil {
		_, _ = r.Close(), w.Close()
		return nil, err
	}
	p.life.Init("poller", life.Number("poller", "rsocket"))
	return p, nil
}

// wake ends the wait in progress, or else the next one.
func (p *Poller) wake() {
	if !p.woken.Swap(true) {
		_, _ = p.w.Write([]byte{0})
	}
}

// drain reads the bytes that wake has written.
//
// Preconditions: the poller is entered, so the pipe is open.
func (p *Poller) drain() {
	var b [8]byte
	read(p.rfd, b[:])
	// A wake before this line writes nothing. Its change is seen before the next call of rpoll.
	p.woken.Store(false)
}

// Add adds a socket with the events to wait for, or changes its events. PollErr and PollHup are
// always reported. Readiness is level-triggered: a socket is reported until it is no longer ready.
func (p *Poller) Add(s *Socket, ev Events) error {
	if p.life.Closed() || s.life.Closed() {
		return ErrClosed
	}
	s.mu.Lock()
	if s.pollers == nil {
		s.pollers = map[*Poller]struct{}{}
	}
	s.pollers[p] = struct{}{}
	s.mu.Unlock()
	p.mu.Lock()
	p.socks[s] = ev
	p.changed = true
	p.mu.Unlock()
	p.wake()
	return nil
}

// Remove removes a socket. A Wait in progress may report it once more.
func (p *Poller) Remove(s *Socket) {
	p.forget(s)
	p.wake()
}

func (p *Poller) forget(s *Socket) {
	s.mu.Lock()
	delete(s.pollers, p)
	s.mu.Unlock()
	p.mu.Lock()
	if _, ok := p.socks[s]; ok {
		delete(p.socks, s)
		p.changed = true
	}
	p.mu.Unlock()
}

// Wait waits until sockets are ready and returns them; the slice is valid until the next Wait. A
// closed socket is reported once, as PollInvalid, and removed. Wait returns ctx's error when ctx
// ends, ErrClosed when the poller is closed, and an *ibv.ArgError while another goroutine is in
// Wait.
//
// C: rpoll.
func (p *Poller) Wait(ctx context.Context) ([]Ready, error) {
	if !p.life.TryEnter() {
		return nil, ErrClosed
	}
	defer p.life.Leave()
	if !p.waiting.TryLock() {
		return nil, &ibv.ArgError{Arg: "Poller", Got: "a second Wait at the same time",
			Want: "one waiting goroutine; use more pollers"}
	}
	defer p.waiting.Unlock()
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, p.wake)()
	}
	for {
		switch {
		case p.life.Closed():
			return nil, ErrClosed
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		ready, err := p.wait()
		if len(ready) > 0 || err != nil {
			return ready, err
		}
	}
}

// wait calls rpoll once.
func (p *Poller) wait() ([]Ready, error) {
	p.refresh()
	p.ready = p.ready[:0]
	// The sockets stay open while they are in C.
	if cap(p.held) < len(p.list) {
		p.held = make([]*Socket, 0, len(p.list))
	}
	held := p.held[:0]
	for _, s := range p.list {
		if s.begin() != nil {
			p.ready = append(p.ready, Ready{s, PollInvalid})
			continue
		}
		held = append(held, s)
	}
	defer func() {
		for _, s := range held {
			s.life.Leave()
		}
	}()
	if len(p.ready) > 0 {
		for _, r := range p.ready {
			p.forget(r.Socket)
		}
		return p.ready, nil
	}
	for i := range p.fds {
		p.fds[i].Revents = 0
	}
	// rpoll gets no timeout: librdmacm before v63 may hang forever in the rpoll after one that
	// timed out. The pipe ends it.
	limit := time.AfterFunc(maxWait, p.wake)
	_, err := p.lib.Poll(p.fds, -1)
	limit.Stop()
	if err != nil {
		if e, ok := err.(*Error); ok && e.Errno == syscall.EINTR {
			return nil, nil
		}
		return nil, err
	}
	if p.fds[0].Revents != 0 {
		p.drain()
	}
	for i, s := range p.list {
		if ev := Events(p.fds[1+i].Revents); ev != 0 {
			p.ready = append(p.ready, Ready{s, ev})
		}
	}
	return p.ready, nil
}

// refresh rebuilds the list of sockets for C if they have changed.
func (p *Poller) refresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.changed {
		return
	}
	p.changed = false
	p.fds = append(p.fds[:0], librdmacm.PollFD{FD: int32(p.rfd), Events: int16(PollIn)})
	p.list = p.list[:0]
	for s, ev := range p.socks {
		p.fds = append(p.fds, librdmacm.PollFD{FD: int32(s.fd), Events: int16(ev)})
		p.list = append(p.list, s)
	}
	for _, s := range p.list { // what rpoll does not watch
		if q := s.queue.Load(); q != 0 && p.socks[s]&PollIn != 0 {
			p.fds = append(p.fds, librdmacm.PollFD{FD: q, Events: int16(PollIn)})
		}
	}
}

// Close ends a Wait in progress and frees the poller. The sockets stay open. Further calls do
// nothing.
func (p *Poller) Close() error {
	if !p.life.Shut() {
		return nil
	}
	p.wake()
	var err error
	_, _ = p.life.Close(func() error {
		err = p.destroy()
		return nil
	})
	return err
}

func (p *Poller) destroy() error {
	p.mu.Lock()
	all := slices.Collect(maps.Keys(p.socks))
	p.mu.Unlock()
	for _, s := range all {
		p.forget(s)
	}
	return errors.Join(p.r.Close(), p.w.Close())
}
