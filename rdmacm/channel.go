package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/control"
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
	life life.Object
	name string // "rdma_cm/3"
	lib  control.CM
	seq  uint64 // orders the locks of two channels

	// mu is held while C reads an event, and while an ID's channel or QP, which C reads then, is
	// changed. It is also held while an ID is created. The kernel gives a new ID the number of one
	// that is closed; rdma_get_cm_event, which asks the kernel for the address of the ID of
	// EventAddrResolved by number, would take the new ID's for it, and crash: that has no device.
	mu     sync.Mutex
	file   *file // protected by mu
	closed bool  // protected by mu
}

// file is a struct rdma_event_channel, which is an open file of rdma_cm. An EventChannel has another one after the
// process has changed its credentials: see renew.
type file struct {
	handle uintptr
	events *pollfd.Reader
	ids    int         // whose C objects name it; protected by the channel's mu
	former atomic.Bool // the channel has another one
}

func openFile(lib control.CM) (*file, error) {
	h, err := lib.CreateEventChannel()
	if err != nil {
		return nil, verbs.ExplainCM(err)
	}
	events, err := pollfd.NewReader(lib.ChannelFD(h), "rdma_cm")
	if err != nil {
		lib.DestroyEventChannel(h)
		return nil, verbs.ExplainCM(err)
	}
	return &file{handle: h, events: events}, nil
}

func (f *file) close(lib control.CM) {
	f.events.Close()
	lib.DestroyEventChannel(f.handle)
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
	f, err := openFile(lib)
	if err != nil {
		return nil, &ibv.OpError{Op: op, Err: err}
	}
	ch := &EventChannel{name: life.Number("event channel", "rdma_cm"), lib: lib, seq: channelSeq.Add(1), file: f}
	ch.life.Init("event channel", ch.name)
	life.Watch(ch, &ch.life)
	return ch, nil
}

// Event waits for the next event. Several goroutines may wait; each event is delivered to one of them. If ctx ends
// first, Event returns ctx's error, and no event is lost.
//
// C: rdma_get_cm_event(3), rdma_ack_cm_event(3).
func (ch *EventChannel) Event(ctx context.Context) (*Event, error) {
	for {
		var ev *Event
		f := ch.current()
		err := f.events.Read(ctx, func() (err error) {
			ev, err = ch.next(f)
			return err
		})
		if err == errRenewed || err == ErrClosed && ch.current() != f {
			continue
		}
		if err != nil && err != ctx.Err() {
			err = &ibv.OpError{Op: "cm event", Err: err}
		}
		return ev, err
	}
}

func (ch *EventChannel) current() *file { return guarded(&ch.mu, &ch.file) }

// errRenewed is returned by next when the channel has another file.
var errRenewed = errors.New("the channel has another file")

// next reads events of a file until one is for an open ID.
func (ch *EventChannel) next(f *file) (*Event, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for ch.file == f {
		var ev *Event
		var refused uintptr
		err := ch.lib.GetEvent(f.handle, func(r *control.CMEvent) {
			if ev = ch.event(r); ev == nil && EventType(r.Event) == EventConnectRequest {
				refused = r.ID
			}
		})
		if errors.Is(err, control.ErrCredentials) {
			if err = ch.renew(f); err == nil {
				break
			}
		}
		if err != nil || ev != nil {
			return ev, err
		}
		if refused != 0 {
			ch.discard(refused)
		}
	}
	return nil, errRenewed
}

// renew gives the channel another file in place of one that the kernel refuses, because the process has changed its
// credentials. The IDs move to it with their unread events; the kernel does that whatever the old file's credentials.
// The new file belongs to an OS thread of its own (see package librdmacm), so no other thread's credentials matter.
//
// Preconditions: ch.mu is held.
func (ch *EventChannel) renew(old *file) error {
	switch {
	case ch.closed:
		return ErrClosed
	case ch.file != old:
		return nil
	}
	f, err := openFile(ch.lib)
	if err != nil {
		return &ibv.CredentialsError{File: "rdma_cm", Err: fmt.Errorf("it cannot be opened again: %w", err)}
	}
	ch.file = f
	old.former.Store(true)
	go old.events.Close() // wakes the goroutine that waits there; it may be the caller
	old.ids++
	listens := false
	for _, id := range ids.on(ch) {
		listens = listens || id.order.load() == stageListening
		if id.life.TryEnter() { // otherwise it is being closed, and moves then
			if id.inC.TryLock() { // otherwise it moves after the call
				_ = ch.move(id)
				id.inC.Unlock()
			}
			id.life.Leave()
		}
	}
	if listens {
		ch.lib.MoveRequests(old.handle, ch.file.handle)
	}
	ch.leave(old)
	return nil
}

// move moves an ID of the channel to its present file. One that could not be moved is moved when it is used.
//
// Preconditions: ch.mu and id.inC are held, and nothing destroys the ID meanwhile.
func (ch *EventChannel) move(id *ID) error {
	from := id.file
	if from == ch.file {
		return nil
	}
	if err := ch.take(id.handle); err != nil {
		return err
	}
	ch.enroll(id)
	ch.leave(from)
	return nil
}

// take moves the C object of an ID to the present file.
//
// Preconditions: ch.mu is held, and nothing destroys the ID meanwhile.
func (ch *EventChannel) take(h uintptr) error {
	return ch.write(func(file uintptr) error {
		err := ch.lib.MigrateID(h, file)
		if err == syscall.EINVAL { // MoveRequests has moved the kernel's part
			ch.lib.SetChannel(h, file)
			return nil
		}
		return err
	})
}

// enroll notes that the C object of an ID names the present file.
//
// Preconditions: ch.mu is held.
func (ch *EventChannel) enroll(id *ID) {
	ch.file.ids++
	id.file = ch.file
}

// leave notes that a C object no longer names a file, and closes the file if it was the last one of a former file.
//
// Preconditions: ch.mu is held.
func (ch *EventChannel) leave(f *file) {
	if f.ids--; f.ids == 0 && f != ch.file {
		go f.close(ch.lib)
	}
}

// write calls f, which writes to the file it gets, and again with another file if the kernel refuses the first.
//
// Preconditions: ch.mu is held.
func (ch *EventChannel) write(f func(file uintptr) error) error {
	for {
		at := ch.file
		err := f(at.handle)
		if !errors.Is(err, control.ErrCredentials) {
			return err
		}
		if err := ch.renew(at); err != nil {
			return err
		}
	}
}

// discard destroys the C object of an ID that names the present file.
//
// Preconditions: ch.mu is held.
func (ch *EventChannel) discard(h uintptr) {
	at := ch.file
	at.ids++
	defer ch.leave(at)
	if !errors.Is(ch.lib.DestroyID(h), control.ErrCredentials) || ch.renew(at) != nil {
		return
	}
	if ch.take(h) == nil {
		_ = ch.lib.DestroyID(h)
	}
}

// event returns the Event for r, or nil if it has no receiver.
func (ch *EventChannel) event(r *control.CMEvent) *Event {
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
		ch.mu.Lock()
		ch.closed = true // no other file from here on
		f := ch.file
		ch.mu.Unlock()
		f.close(ch.lib)
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
