package rdmacm

import (
	"fmt"
	"net/netip"

	"github.com/pureverbs/pureverbs/internal/control"
)

// Event is a copy of an event of an ID. It has already been acknowledged.
//
// C: struct rdma_cm_event.
type Event struct {
	Type     EventType
	Status   int32 // 0, a negated errno, or a positive code of the transport
	ID       *ID   // of an EventConnectRequest: the new ID, which the caller closes
	Listener *ID   // of an EventConnectRequest

	PrivateData []byte     // what the peer sent, at its full size
	Conn        ConnParam  // the peer's, in connection events
	UD          *UDParam   // in events of datagrams and multicast groups, else nil
	Group       netip.Addr // of EventMulticastJoin and EventMulticastError
	Arg         uint64     // of EventUser
}

// Err returns a *RejectError or an *EventError if the event reports a failure, otherwise nil. That of an EventAddrError
// also names a destination without a zone.
func (e *Event) Err() error {
	err := errOf(e.Type, e.Status, e.UD != nil, e.PrivateData)
	if e.Type == EventAddrError && e.ID != nil {
		return withoutZone(e.ID.PeerAddr(), err)
	}
	return err
}

// String describes the event on one line.
func (e *Event) String() string {
	if err := e.Err(); err != nil {
		return err.Error()
	}
	switch e.Type {
	case EventMulticastJoin:
		return fmt.Sprintf("%v of %v", e.Type, e.Group)
	case EventUser:
		return fmt.Sprintf("%v %#x", e.Type, e.Arg)
	}
	return e.Type.String()
}

// newEvent returns the Event for r.
func newEvent(r *control.CMEvent, id, listener *ID) *Event {
	e := &Event{Type: EventType(r.Event), Status: r.Status, ID: id, Listener: listener, PrivateData: r.Data}
	switch {
	case r.UD:
		if e.Type == EventMulticastJoin {
			id.joined(&r.Param)
		}
		e.UD = &UDParam{AH: verbs.AHAttr(&r.Param.AHAttr), QPN: r.Param.QPNum, QKey: r.Param.QKey}
		if e.Type == EventMulticastJoin || e.Type == EventMulticastError {
			e.Group = id.group(r.Param.PrivateData)
		}
	case e.Type == EventUser:
		e.Arg = r.Arg()
	default:
		e.Conn.fromC(r.Conn())
	}
	return e
}
