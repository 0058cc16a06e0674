package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/internal/pollfd"
)

// EventChannel carries the events of any number of IDs.
//
// It belongs to the caller and is safe for concurrent use. Close fails while IDs
// are on it, and makes goroutines in Event return ErrClosed.
//
// C: struct rdma_event_channel.
type EventChannel struct {
	lib    *cm
	handle uintptr
	seq    uint64 // the order in which two are locked
	poll   *pollfd.FD
	turn   chan struct{} // holds a token while nobody reads
	closed chan struct{} // closed by Close
	track  *leak.Record

	// mu is held while C reads an event, and by whoever changes what that reads: an
	// ID's channel, an ID's QP.
	mu   sync.Mutex
	done bool // under mu

	ids atomic.Int64
}

var channelSeq atomic.Uint64

// NewEventChannel opens an event channel. A host without librdmacm gives a
// *loader.LibraryError, one without an RDMA device ibv.ErrNoDevice.
//
// C: rdma_create_event_channel(3).
func NewEventChannel() (*EventChannel, error) {
	const op = "create event channel"
	lib, err := library()
	if err != nil {
		return nil, err
	}
	h, err := lib.createEventChannel()
	if err != nil {
		return nil, &ibv.OpError{Op: op, Err: explainInit(err)}
	}
	p, err := pollfd.New(channelFD(h), "rdma_cm")
	if err != nil {
		lib.destroyEventChannel(h)
		return nil, &ibv.OpError{Op: op, Err: err}
	}
	ch := &EventChannel{
		lib: lib, handle: h, seq: channelSeq.Add(1), poll: p,
		turn: make(chan struct{}, 1), closed: make(chan struct{}), track: leak.Track("event channel"),
	}
	ch.turn <- struct{}{}
	watch(ch, ch.track)
	return ch, nil
}

// Event waits for the next event. Several goroutines may wait; each event goes
// to one. When ctx ends it returns its error, and no event is lost.
//
// C: rdma_get_cm_event(3), rdma_ack_cm_event(3).
func (ch *EventChannel) Event(ctx context.Context) (*Event, error) {
	gone := func() (*Event, error) { return nil, &ibv.OpError{Op: "cm event", Err: ErrClosed} }
	select {
	case <-ch.turn:
	case <-ch.closed:
		return gone()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { ch.turn <- struct{}{} }()

	ch.poll.Uninterrupt()
	if ctx.Done() != nil {
		interrupted := make(chan struct{})
		stop := context.AfterFunc(ctx, func() { ch.poll.Interrupt(); close(interrupted) })
		defer func() {
			if !stop() {
				<-interrupted // or it would interrupt the next reader
			}
		}()
	}
	var (
		ev  *Event
		err error
	)
	werr := ch.poll.Wait(func() bool {
		ev, err = ch.take()
		return !again(err)
	})
	switch {
	case ev != nil:
		return ev, nil
	case errors.Is(err, ErrClosed) || isClosed(ch.closed):
		return gone()
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil || again(err):
		err = werr
	}
	return nil, &ibv.OpError{Op: "cm event", Err: err}
}

// take reads events until there is one for an ID that is open.
func (ch *EventChannel) take() (*Event, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for {
		if ch.done {
			return nil, ErrClosed
		}
		r, err := ch.lib.takeEvent(ch.handle)
		if err != nil {
			return nil, err
		}
		if EventType(r.Event) == EventConnectRequest {
			if listener := ids.find(r.ListenID); listener != nil {
				return newEvent(r, newID(ch, r.ID, listener.ps), listener), nil
			}
			_ = ch.lib.destroyID(r.ID) // the listener is being closed
		} else if id := ids.find(r.ID); id != nil {
			if EventType(r.Event) == EventDeviceRemoval {
				id.removed()
			}
			return newEvent(r, id, nil), nil
		}
	}
}

// Close closes the channel; it fails with a *ibv.BusyError while IDs are on it.
//
// C: rdma_destroy_event_channel(3).
func (ch *EventChannel) Close() error {
	ch.mu.Lock()
	n, done := ch.ids.Load(), ch.done
	if n == 0 {
		ch.done = true
	}
	ch.mu.Unlock()
	switch {
	case done:
		return nil
	case n > 0:
		return &ibv.BusyError{Object: "event channel", Children: []string{fmt.Sprintf("%d id", n)}}
	}
	close(ch.closed)
	// It waits for a reader, who needs mu; from then on there is none in C.
	ch.poll.Close()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.lib.destroyEventChannel(ch.handle)
	ch.track.Done()
	return nil
}

// enter counts an ID, and keeps the channel open by that.
func (ch *EventChannel) enter(op string) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.done {
		return &ibv.OpError{Op: op, Err: ErrClosed, Detail: "event channel"}
	}
	ch.ids.Add(1)
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
