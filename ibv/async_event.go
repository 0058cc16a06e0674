package ibv

import (
	"context"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// AsyncEvent is something other than a completion that happened to a device, a port or an
// object. Type determines which one of the other fields is set, if any.
//
// C: struct ibv_async_event.
type AsyncEvent struct {
	Type AsyncEventType
	Port uint8 // of a port event
	QP   *QP   // of a QP event
	CQ   *CQ   // of a CQ event
	SRQ  *SRQ  // of an SRQ event
	WQ   *WQ   // of a WQ event

	device string
}

// String describes the event in a sentence.
func (e AsyncEvent) String() string {
	return asyncEventText(e)
}

// AsyncEvent waits for the next event of the device. The event is acknowledged before it is
// returned. Several goroutines may wait; each event is delivered to one of them. On EventDeviceFatal every CQ.Wait on
// the Device returns ErrDeviceRemoved.
//
// C: ibv_get_async_event(3), ibv_ack_async_event(3).
func (d *Device) AsyncEvent(ctx context.Context) (AsyncEvent, error) {
	var ev AsyncEvent
	err := d.async.Read(ctx, func() (err error) {
		ev, err = d.readAsyncEvent()
		return err
	})
	if err != nil && err != ctx.Err() {
		err = &OpError{Op: "async event", Object: d.Name(), Err: err}
	}
	return ev, err
}

func (d *Device) readAsyncEvent() (AsyncEvent, error) {
	raw := new(abi.AsyncEvent)
	if err := d.v.GetAsyncEvent(d.handle, raw); err != nil {
		return AsyncEvent{}, err
	}
	ev := AsyncEvent{Type: AsyncEventType(raw.EventType), device: d.Name()}
	element := raw.Element
	switch ev.Type.object() {
	case eventOfQP:
		ev.QP, _ = d.object(element).(*QP)
	case eventOfCQ:
		ev.CQ, _ = d.object(element).(*CQ)
	case eventOfSRQ:
		ev.SRQ, _ = d.object(element).(*SRQ)
	case eventOfWQ:
		ev.WQ, _ = d.object(element).(*WQ)
	case eventOfPort:
		ev.Port = uint8(raw.PortNum())
	}
	if ev.Type == EventQPLastWQEReached && ev.QP != nil {
		ev.QP.rest.note()
	}
	if ev.Type == EventDeviceFatal {
		d.removed.note(ErrDeviceRemoved)
	}
	// Destroying the object blocks until its events are acknowledged.
	d.v.AckAsyncEvent(raw)
	return ev, nil
}
