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
	fd     *FD
	turn   chan struct{} // has a token while no goroutine reads
	closed chan struct{}
	once   sync.Once
}

// NewReader makes fd non-blocking and returns a Reader for it.
func NewReader(fd int, name string) (*Reader, error) {
	p, err := New(fd, name)
	if err != nil {
		return nil, err
	}
	r := &Reader{fd: p, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	r.turn <- struct{}{}
	return r, nil
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

	r.fd.Uninterrupt()
	if ctx.Done() != nil {
		interrupted := make(chan struct{})
		stop := context.AfterFunc(ctx, func() { r.fd.Interrupt(); close(interrupted) })
		defer func() {
			if !stop() {
				<-interrupted // otherwise it could interrupt the next reader
			}
		}()
	}
	err := error(syscall.EAGAIN)
	werr := r.fd.Wait(func() bool {
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
		close(r.closed)
		r.fd.Close()
		<-r.turn // and never returns it
	})
}
