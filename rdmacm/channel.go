package rdmacm

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind/librdmacm"
	"github.com/pureverbs/pureverbs/internal/life"
	"github.com/pureverbs/pureverbs/internal/pollfd"
)

// EventChannel carries the events of any number of IDs.
//
// It belongs to the caller and is safe for concurrent use. Close fails while IDs use it; it makes
// goroutines that wait in Event return ErrClosed.
//
// C: struct rdma_event_channel.
type EventChannel struct {
	life   life.Object
	name   string // "rdma_cm/3"
	lib    librdmacm.Lib
	handle uintptr
	seq    uint64 // orders the locks of two channels
	events *pollfd.Reader

	// mu is held while C reads an event, and while an ID's channel or QP, which C reads then, is
	// changed. It is also held while an ID is created. The kernel gives a new ID the number of one
	// that is closed; rdma_get_cm_event, which asks the kernel for the address of the ID of
	// EventAddrResolved by number, would take the new ID's for it, and crash: that has no device.
	mu sync.Mutex
}

var channelSeq atomic.Uint64

// NewEventChannel opens an event channel. The error is a *loader.LibraryError on a host without
// librdmacm, and ibv.ErrNoDevice on one without an RDMA device. If a device or rdma_cm cannot be used, the error wraps
// the cause, one of those of ibv.Open: *ibv.UnlistedError, *ibv.DeviceFileError, *ibv.PermissionError.
//
// C: rdma_create_event_channel(3).
func NewEventChannel() (*EventChannel, error) {
	const op = "create event channel"
	lib, err := library()
	if err != nil {
		return nil, err
	}
	h, err := lib.CreateEventChannel()
	if err != nil {
		return nil, &ibv.OpError{Op: op, Err: verbs.ExplainCM(err)}
	}
	events, err := pollfd.NewReader(librdmacm.ChannelFD(h), "rdma_cm")
	if err != nil {
		lib.DestroyEventChannel(h)
		return nil, &ibv.OpError{Op: op, Err: err}
	}
	ch := &EventChannel{
		name: life.Number("event channel", "rdma_cm"), lib: lib, handle: h, seq: channelSeq.Add(1), events: events,
	}
	ch.life.Init("event channel", ch.name)
	life.Watch(ch, &ch.life)
	return ch, nil
}

// Event waits for the next event. Several goroutines may wait; each event is delivered to one of them. If ctx ends
// first, Event returns ctx's error, and no event is lost.
//
// C: rdma_get_cm_event(3), rdma_ack_cm_event(3).
func (ch *EventChannel) Event(ctx context.Context) (*Event, error) {
	var ev *Event
	err := ch.events.Read(ctx, func() (err error) {
		ev, err = ch.next()
		return err
	})
	if err != nil && err != ctx.Err() {
		err = &ibv.OpError{Op: "cm event", Err: err}
	}
	return ev, err
}

// next reads events until one is for an open ID.
func (ch *EventChannel) next() (*Event, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for {
		var ev *Event
		var refused uintptr
		err := ch.lib.GetEvent(ch.handle, func(r *librdmacm.Event) {
			if ev = ch.event(r); ev == nil && EventType(r.Event) == EventConnectRequest {
				refused = r.ID
			}
		})
		if err != nil || ev != nil {
			return ev, err
		}
		if refused != 0 {
			_ = ch.lib.DestroyID(refused)
		}
	}
}

// event returns the Event for r, or nil if it has no receiver.
func (ch *EventChannel) event(r *librdmacm.Event) *Event {
	if EventType(r.Event) == EventConnectRequest {
		// If the listener or its channel is gone, the listener is being closed.
		listener := ids.find(r.ListenID)
		if listener == nil || !ch.life.TryEnter() {
			return nil
		}
		defer ch.life.Leave()
		id := newID(ch, r.ID, listener.ps)
		id.order.advance(stageRequested)
		ev := newEvent(r, id, listener)
		if ev.UD == nil {
			asked := ev.Conn
			id.asked = &asked
		}
		return ev
	}
	id := ids.find(r.ID)
	if id == nil {
		return nil
	}
	if EventType(r.Event) == EventDeviceRemoval {
		id.removed()
	}
	if id.asked == nil && ch.lib.Response(r) {
		id.established.Store(true)
	}
	id.order.event(EventType(r.Event))
	id.follow(EventType(r.Event))
	return newEvent(r, id, nil)
}

// Close closes the channel. It fails with an *ibv.BusyError while IDs use it.
//
// C: rdma_destroy_event_channel(3).
func (ch *EventChannel) Close() error {
	_, err := ch.life.Close(func() error {
		ch.events.Close()
		ch.lib.DestroyEventChannel(ch.handle)
		return nil
	})
	return busy("event channel of "+ch.name, err)
}

// busy turns an error of life.Object.Close into one for the caller.
func busy(object string, err error) error {
	if b, ok := err.(*life.BusyError); ok {
		return &ibv.BusyError{Object: object, Children: b.Children}
	}
	return err
}

// enter keeps the channel open until ch.life.Leave.
func (ch *EventChannel) enter(op string) error {
	if !ch.life.Enter() {
		return &ibv.OpError{Op: op, Object: ch.name, Err: ErrClosed, Detail: "event channel"}
	}
	return nil
}
