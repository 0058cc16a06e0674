package rsocket

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind/librdmacm"
	"github.com/pureverbs/pureverbs/internal/life"
)

// longest bounds one wait in C, by the pipe. The library now and then misses an
// event of a socket, and would notice it after five seconds by itself.
const longest = 200 * time.Millisecond

// Poller waits for many sockets in one goroutine. It belongs to the caller. One
// goroutine at a time waits; the other methods may be called by any, also meanwhile.
type Poller struct {
	life life.Object // its user is Wait
	lib  *lib
	r, w *os.File // a pipe that ends a wait
	rfd  int

	waiting sync.Mutex // held by Wait
	poked   atomic.Bool

	mu    sync.Mutex
	socks map[*Socket]Events
	stale bool // socks has changed since fds was made

	// Of the goroutine that waits.
	fds   []librdmacm.PollFD // the pipe, then one for each of list
	list  []*Socket
	held  []*Socket
	ready []Ready
}

// Ready is a socket that something is to be done with.
type Ready struct {
	Socket *Socket
	Events Events
}

// NewPoller makes a poller without sockets.
func NewPoller() (*Poller, error) {
	l, err := library()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &Poller{lib: l, r: r, w: w, socks: map[*Socket]Events{}, stale: true}
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

// wake ends a wait that is under way, or else the next.
func (p *Poller) wake() {
	if !p.poked.Swap(true) {
		_, _ = p.w.Write([]byte{0})
	}
}

// drain takes what wake has written.
func (p *Poller) drain() {
	var b [8]byte
	c, err := p.r.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) { read(fd, b[:]) })
	// A wake before this line writes nothing. What it is for is looked at before the
	// next call of rpoll.
	p.poked.Store(false)
}

// Add has the poller wait for events of a socket, or for other events than before.
// Err and Hup are reported whatever was asked for. Readiness is a level: a socket
// stays ready until what it is ready for was done.
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
	p.stale = true
	p.mu.Unlock()
	p.wake()
	return nil
}

// Remove has the poller forget a socket. Wait may report it once more if it is
// under way.
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
		p.stale = true
	}
	p.mu.Unlock()
}

// Wait waits until sockets are ready, and returns them; the slice is good until the
// next Wait. A socket that was closed is reported as Invalid, once, and forgotten.
// It ends with ctx, and with ErrClosed when the poller is closed. Another Wait at
// the same time is an *ibv.ArgError.
//
// C: rpoll.
func (p *Poller) Wait(ctx context.Context) ([]Ready, error) {
	if !p.life.TryEnter() {
		return nil, ErrClosed
	}
	defer p.life.Leave()
	if !p.waiting.TryLock() {
		return nil, &ibv.ArgError{Arg: "Poller", Got: "a second Wait at the same time",
			Want: "one goroutine that waits; use more pollers"}
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

// wait is one call of rpoll.
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
	// Without a limit of time: librdmacm before v63 may hang for good in the rpoll
	// after one that timed out. The pipe ends it.
	limit := time.AfterFunc(longest, p.wake)
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

// refresh lists the sockets for C, if they have changed.
func (p *Poller) refresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stale {
		return
	}
	p.stale = false
	p.fds = append(p.fds[:0], librdmacm.PollFD{FD: int32(p.rfd), Events: int16(PollIn)})
	p.list = p.list[:0]
	for s, ev := range p.socks {
		p.fds = append(p.fds, librdmacm.PollFD{FD: int32(s.fd), Events: int16(ev)})
		p.list = append(p.list, s)
	}
}

// Close ends a wait and frees the poller. The sockets stay open. More calls do
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
	var all []*Socket
	for s := range p.socks {
		all = append(all, s)
	}
	p.mu.Unlock()
	for _, s := range all {
		p.forget(s)
	}
	return errors.Join(p.r.Close(), p.w.Close())
}
