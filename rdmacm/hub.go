package rdmacm

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// handler takes the events of an ID. It runs on the goroutine that reads the
// channel, and so must not wait.
type handler interface{ handle(ev *Event) }

func (id *ID) setHandler(h handler) {
	id.own.Lock()
	id.own.handler = h
	id.own.Unlock()
}

func (id *ID) handler() handler {
	id.own.Lock()
	defer id.own.Unlock()
	return id.own.handler
}

// hub is an event channel with the goroutine that reads it for all IDs on it. The
// last user that leaves closes it.
type hub struct {
	ch   *EventChannel
	done chan struct{} // closed when the reader has returned

	mu   sync.Mutex
	refs int
}

// newHub makes a hub with one user.
func newHub() (*hub, error) {
	ch, err := NewEventChannel()
	if err != nil {
		return nil, err
	}
	h := &hub{ch: ch, done: make(chan struct{}), refs: 1}
	go h.read()
	return h, nil
}

func (h *hub) read() {
	defer close(h.done)
	for {
		ev, err := h.ch.Event(context.Background())
		if err != nil {
			return // closed
		}
		id := ev.ID
		if ev.Listener != nil {
			id = ev.Listener
		}
		switch to := id.handler(); {
		case to != nil:
			to.handle(ev)
		case ev.Listener != nil:
			_ = ev.ID.Close() // nobody knows of it
		}
	}
}

// join adds a user; it is false for a hub that the last one has left.
func (h *hub) join() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refs == 0 {
		return false
	}
	h.refs++
	return true
}

// leave takes a user away, whose IDs are closed.
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
