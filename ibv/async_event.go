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
// returned. Several goroutines may wait; each event is delivered to one of them.
//
// An event that reports a failure ends the calls that wait for the object. EventDeviceFatal ends all waits on the
// Device, with ErrDeviceRemoved. EventCQErr ends those of the CQ, EventQPFatal those of the QP and EventSRQErr those of
// QPs with the SRQ, with an *EventError.
//
// The first call needs a file descriptor: it fails with a *DescriptorError if there is none.
//
// C: ibv_get_async_event(3), ibv_ack_async_event(3).
func (d *Device) AsyncEvent(ctx context.Context) (AsyncEvent, error) {
	var ev AsyncEvent
	err := d.async.Read(ctx, func() (err error) {
		ev, err = d.readAsyncEvent()
		return err
	})
	if err != nil && err != ctx.Err() {
		err = &OpError{Op: "async event", Object: d.Name(), Err: explainDescriptors(err)}
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
	d.note(ev)
	// Destroying the object blocks until its events are acknowledged.
	d.v.AckAsyncEvent(raw)
	return ev, nil
}

// note ends the waits that the event decides.
func (d *Device) note(ev AsyncEvent) {
	switch {
	case ev.Type == EventDeviceFatal:
		d.removed.note(ErrDeviceRemoved)
	case ev.Type == EventQPLastWQEReached && ev.QP != nil:
		ev.QP.rest.note(nil)
	case ev.Type == EventCQErr && ev.CQ != nil:
		ev.CQ.fail(&EventError{Event: ev.Type, Object: ev.CQ.node.String()})
	case ev.Type == EventQPFatal && ev.QP != nil:
		ev.QP.rest.note(&EventError{Event: ev.Type, Object: ev.QP.node.String()})
	case ev.Type == EventSRQErr && ev.SRQ != nil:
		err := &EventError{Event: ev.Type, Object: ev.SRQ.node.String()}
		for _, o := range d.all() {
			if qp, ok := o.(*QP); ok && qp.srq == ev.SRQ {
				qp.rest.note(err)
			}
		}
	}
}
