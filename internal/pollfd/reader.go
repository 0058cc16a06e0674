package pollfd

import (
	"context"
	"errors"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/life"
)

// Reader reads events from a descriptor of a C library. Any number of goroutines may wait, each
// with a context; only one at a time is in C.
type Reader struct {
	number int
	name   string
	turn   chan struct{} // has a token while no goroutine reads
	closed chan struct{}

	once sync.Once

	mu sync.Mutex
	fd *FD // nil until it is needed; protected by mu
}

// NewReader makes fd non-blocking and returns a Reader for it.
func NewReader(fd int, name string) (*Reader, error) {
	r := Later(fd, name)
	if _, err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// Later is NewReader, but the first call of Read makes fd non-blocking: most programs never read the asynchronous
// events of a device, and the poller costs eight system calls.
func Later(fd int, name string) *Reader {
	r := &Reader{number: fd, name: name, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	r.turn <- struct{}{}
	return r
}

func (r *Reader) open() (*FD, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isClosed() {
		return nil, life.ErrClosed
	}
	var err error
	if r.fd == nil {
		r.fd, err = New(r.number, r.name)
	}
	return r.fd, err
}

// Read calls try, again each time that the descriptor may have become readable, until try returns
// something other than EAGAIN. Read returns that, life.ErrClosed after Close, or the error of ctx.
// If try succeeds, Read succeeds, even if ctx has ended meanwhile.
func (r *Reader) Read(ctx context.Context, try func() error) error {
	if r.isClosed() {
		return life.ErrClosed
	}
	select {
	case <-r.turn:
	case <-r.closed:
		return life.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { r.turn <- struct{}{} }()

	fd, err := r.open()
	if err != nil {
		return err
	}
	fd.Uninterrupt()
	if ctx.Done() != nil {
		interrupted := make(chan struct{})
		stop := context.AfterFunc(ctx, func() { fd.Interrupt(); close(interrupted) })
		defer func() {
			if !stop() {
				<-interrupted // otherwise it could interrupt the next reader
			}
		}()
	}
	err = syscall.EAGAIN
	werr := fd.Wait(func() bool {
		for err = try(); errors.Is(err, syscall.EINTR); err = try() { // the netpoller would wait for further data
		}
		return !errors.Is(err, syscall.EAGAIN)
	})
	switch {
	case err == nil:
		return nil
	case r.isClosed():
		return life.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, syscall.EAGAIN):
		return werr
	}
	return err
}

func (r *Reader) isClosed() bool {
	select {
	case <-r.closed:
		return true
	default:
		return false
	}
}

// Close makes current and future calls of Read return. When Close returns, no goroutine is in C.
// The library's descriptor stays open.
func (r *Reader) Close() {
	r.once.Do(func() {
		r.mu.Lock()
		close(r.closed)
		fd := r.fd
		r.mu.Unlock()
		if fd != nil {
			fd.Close()
		}
		<-r.turn // and never returns it
	})
}
