package rdmacm

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/foreign"
)

// handler receives the events of an ID, or the reason why there are no more. It runs on the
// goroutine that reads the channel, so it must not wait.
type handler interface {
	handle(ev *Event)
	finish(err error)
}

func (id *ID) setHandler(h handler) {
	id.own.Lock()
	id.own.handler = h
	id.own.Unlock()
}

func (id *ID) handler() handler { return guarded(&id.own, &id.own.handler) }

// hub is an event channel and the goroutine that reads it for all IDs on it. It is closed when its
// last user leaves.
type hub struct {
	ch   *EventChannel
	done chan struct{} // closed when the reader has returned

	mu   sync.Mutex
	refs int
	err  error // why the reader has returned, nil if because of Close
}

// newHub returns a hub with one user.
func newHub() (*hub, error) {
	ch, err := NewEventChannel()
	if err != nil {
		return nil, err
	}
	h := &hub{ch: ch, done: make(chan struct{}), refs: 1}
	go h.read()
	return h, nil
}

// A failed read loses no event, so it is repeated: the kernel may only have been short of memory.
// All tries together take about two seconds.
const (
	readTries    = 12
	readPause    = time.Millisecond
	readPauseMax = 500 * time.Millisecond
)

// permanent reports whether another read would also fail.
func permanent(err error) bool {
	if e := (*ibv.CredentialsError)(nil); errors.As(err, &e) {
		err = e.Err
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return true
	}
	switch errno {
	case syscall.EBADF, syscall.EACCES, syscall.EPERM, syscall.ENOSYS, syscall.ENODEV:
		return true
	}
	return false
}

func (h *hub) read() {
	defer close(h.done)
	failed, pause := 0, readPause
	for {
		ev, err := h.ch.Event(context.Background())
		switch {
		case errors.Is(err, ErrClosed):
			return
		case err != nil:
			if failed++; failed == readTries || permanent(err) {
				h.fail(&EventReadError{Err: err})
				return
			}
			time.Sleep(pause)
			pause = min(2*pause, readPauseMax)
			continue
		}
		failed, pause = 0, readPause
		id := ev.ID
		if ev.Listener != nil {
			id = ev.Listener
		}
		switch to := id.handler(); {
		case to != nil:
			to.handle(ev)
		case ev.Listener != nil:
			go dispose(ev.ID) // nothing refers to it
		}
	}
}

// fail ends everything that waits for events of the hub. Its users leave as usual; new ones are not
// accepted.
func (h *hub) fail(err error) {
	h.mu.Lock()
	h.err = err
	h.mu.Unlock()
	for _, id := range ids.on(h.ch) {
		if to := id.handler(); to != nil {
			to.finish(err)
		}
	}
}

// broken returns why the hub reads no more events, nil while it does.
func (h *hub) broken() error { return guarded(&h.mu, &h.err) }

// serve makes to the handler of an ID of the hub.
func (h *hub) serve(id *ID, to handler) {
	id.setHandler(to)
	if err := h.broken(); err != nil {
		to.finish(err) // fail may have run before to was set
	}
}

// join adds a user. It returns false if the hub's last user has left or it reads no more events.
func (h *hub) join() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refs == 0 || h.err != nil {
		return false
	}
	h.refs++
	return true
}

// leave removes a user, whose IDs must be closed.
// Preconditions: the caller is not the reader.
func (h *hub) leave() error {
	start := time.Now()
	h.mu.Lock()
	h.refs--
	last := h.refs == 0
	h.mu.Unlock()
	if !last {
		return nil
	}
	for {
		err := h.ch.Close()
		var busy *ibv.BusyError
		if errors.As(err, &busy) && time.Since(start) < time.Second {
			time.Sleep(100 * time.Microsecond) // the reader is about to close the ID of a late request
			continue
		}
		if err == nil {
			<-h.done
		}
		return err
	}
}

// dispose closes an object that nothing else refers to. If that fails for lack of a resource it is repeated, because
// nothing else will close it. If a function of OnClose ends the goroutine, another one goes on.
func dispose(c interface{ Close() error }) (err error) {
	foreign.Call(func() { err = insist(c) }, func(returned bool) {
		if !returned {
			go dispose(c)
		}
	})
	return err
}

func insist(c interface{ Close() error }) error {
	err := c.Close()
	for pause := time.Millisecond; err != nil && pause < 100*time.Millisecond; pause *= 2 {
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			break
		}
		time.Sleep(pause)
		err = c.Close()
	}
	return err
}

// dialers share a hub.
var dialers struct {
	sync.Mutex
	hub *hub
}

func dialHub() (*hub, error) {
	dialers.Lock()
	defer dialers.Unlock()
	if dialers.hub != nil && dialers.hub.join() {
		return dialers.hub, nil
	}
	h, err := newHub()
	if err != nil {
		return nil, err
	}
	dialers.hub = h
	return h, nil
}
