package ibv

import (
	"context"
	"errors"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/pollfd"
)

// AsyncEvent is something that happened to a device, a port or an object, apart
// from completions. One of the last four fields is set, by the kind of Type.
//
// C: struct ibv_async_event.
type AsyncEvent struct {
	Type AsyncEventType
	Port uint8 // of a port event
	QP   *QP   // of a QP event
	CQ   *CQ   // of a CQ event
	SRQ  *SRQ  // of an SRQ event

	device string
}

// String says in a sentence what happened to what.
func (e AsyncEvent) String() string {
	return asyncEventText(e)
}

// asyncReader reads the events of a Device, one caller at a time.
type asyncReader struct {
	poll   *pollfd.FD
	turn   chan struct{} // holds a token while nobody reads
	mu     sync.Mutex    // held while C is called
	closed chan struct{}
	once   sync.Once
}

func newAsyncReader(fd int) (*asyncReader, error) {
	p, err := pollfd.New(fd, "ibv_async")
	if err != nil {
		return nil, err
	}
	r := &asyncReader{poll: p, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	r.turn <- struct{}{}
	return r, nil
}

// close makes readers return and waits until none is in C.
func (r *asyncReader) close() {
	r.once.Do(func() {
		close(r.closed)
		r.poll.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
	})
}

// AsyncEvent waits for the next event of the device. The event is acknowledged
// before it is returned. Several goroutines may wait; each event goes to one.
// With EventDeviceFatal all calls of CQ.Wait on the Device end with
// ErrDeviceRemoved.
//
// C: ibv_get_async_event(3), ibv_ack_async_event(3).
func (d *Device) AsyncEvent(ctx context.Context) (AsyncEvent, error) {
	r := d.async
	gone := func() (AsyncEvent, error) {
		return AsyncEvent{}, &OpError{Op: "async event", Object: d.Name(), Err: ErrClosed}
	}
	select {
	case <-r.closed:
		return gone()
	default:
	}
	select {
	case <-r.turn:
	case <-r.closed:
		return gone()
	case <-ctx.Done():
		return AsyncEvent{}, ctx.Err()
	}
	defer func() { r.turn <- struct{}{} }()

	r.poll.Uninterrupt()
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { r.poll.Interrupt(); close(interrupted) })
	defer func() {
		if !stop() {
			<-interrupted // or it would interrupt the next reader
		}
	}()
	var (
		ev  AsyncEvent
		err error
	)
	werr := r.poll.Wait(func() bool {
		ev, err = d.readAsyncEvent()
		return !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	if werr == nil && err == nil {
		return ev, nil
	}
	select {
	case <-r.closed:
		return gone()
	default:
	}
	if ctx.Err() != nil {
		return AsyncEvent{}, ctx.Err()
	}
	if err == nil || errors.Is(err, syscall.EAGAIN) {
		err = werr
	}
	return AsyncEvent{}, &OpError{Op: "async event", Object: d.Name(), Err: err}
}

func (d *Device) readAsyncEvent() (AsyncEvent, error) {
	d.async.mu.Lock()
	defer d.async.mu.Unlock()
	select {
	case <-d.async.closed:
		return AsyncEvent{}, ErrClosed
	default:
	}
	raw := new(abi.AsyncEvent)
	if err := d.v.getAsyncEvent(d.handle, raw); err != nil {
		return AsyncEvent{}, err
	}
	ev := AsyncEvent{Type: AsyncEventType(raw.EventType), device: d.Name()}
	element := eventElement(raw)
	switch ev.Type.object() {
	case eventOfQP:
		ev.QP, _ = d.object(element).(*QP)
	case eventOfCQ:
		ev.CQ, _ = d.object(element).(*CQ)
	case eventOfSRQ:
		ev.SRQ, _ = d.object(element).(*SRQ)
	case eventOfPort:
		ev.Port = uint8(element)
	}
	if ev.Type == EventDeviceFatal {
		d.removed.note(ErrDeviceRemoved)
	}
	// Destroying the object blocks until its events are acknowledged.
	d.v.ackAsyncEvent(raw)
	return ev, nil
}
