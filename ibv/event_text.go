package ibv

import "strconv"

// eventObject is the kind of object that an asynchronous event concerns.
type eventObject uint8

const (
	eventOfDevice eventObject = 0
	eventOfPort   eventObject = 1
	eventOfCQ     eventObject = 2
	eventOfQP     eventObject = 3
	eventOfSRQ    eventObject = 4
	eventOfWQ     eventObject = 5
)

var eventObjectNames = []string{"device", "port", "cq", "qp", "srq", "wq"}

// String returns the name in lower case, as in "qp".
func (o eventObject) String() string { return enumString("eventObject", int64(o), eventObjectNames) }

type eventText struct {
	object  eventObject
	explain string
}

var eventTexts = [...]eventText{
	EventCQErr: {eventOfCQ, "the completion queue overflowed or failed: completions are lost; create a " +
		"larger one, and its queue pairs again"},
	EventQPFatal:  {eventOfQP, "the queue pair failed and is in the error state: what was posted is flushed"},
	EventQPReqErr: {eventOfQP, "the peer sent an invalid request: the queue pair is in the error state"},
	EventQPAccessErr: {eventOfQP, "the peer requested memory that it may not access: the queue pair is in the " +
		"error state"},
	EventCommEst: {eventOfQP, "a first message arrived before the queue pair was moved to RTS, which can be " +
		"done now"},
	EventSQDrained:   {eventOfQP, "the send queue is drained: attributes may be changed"},
	EventPathMig:     {eventOfQP, "the connection has moved to its alternate path"},
	EventPathMigErr:  {eventOfQP, "the connection could not move to its alternate path"},
	EventDeviceFatal: {eventOfDevice, "the device failed or was removed: close everything and open it again"},
	EventPortActive:  {eventOfPort, "the port has a link and carries traffic"},
	EventPortErr:     {eventOfPort, "the port lost its link: connections retry until their timeouts end"},
	EventLIDChange:   {eventOfPort, "the subnet manager assigned another LID to the port: send it to the peers"},
	EventPKeyChange:  {eventOfPort, "the table of partition keys changed: look up pkey indexes again"},
	EventSMChange: {eventOfPort, "another subnet manager took over: address handles and joins through the " +
		"old one may be stale"},
	EventSRQErr:          {eventOfSRQ, "the shared receive queue failed: its queue pairs cannot receive"},
	EventSRQLimitReached: {eventOfSRQ, "fewer receives are posted than the limit: post more and arm the limit again"},
	EventQPLastWQEReached: {eventOfQP, "the queue pair took its last receive from the shared receive queue: it may " +
		"be closed now"},
	EventClientReregister: {eventOfPort, "the subnet manager asks for subscriptions, multicast joins and services to " +
		"be registered again"},
	EventGIDChange: {eventOfPort, "the GID table changed, for example because of a new address: look up " +
		"indexes again"},
	EventWQFatal:     {eventOfWQ, "the receive work queue failed"},
	EventSpeedChange: {eventOfPort, "the speed of a port changed"},
}

// object returns the kind of object that the event concerns. For a type that this release does
// not know it returns eventOfPort, because the C API then hands out a port number.
func (t AsyncEventType) object() eventObject {
	if int(t) >= len(eventTexts) {
		return eventOfPort
	}
	return eventTexts[t].object
}

// Explain describes, in a sentence, what happened and what follows from it.
func (t AsyncEventType) Explain() string {
	if int(t) >= len(eventTexts) {
		return "an event that this release does not know"
	}
	return eventTexts[t].explain
}

// asyncEventText returns a sentence about what happened to which object.
func asyncEventText(e AsyncEvent) string {
	on := e.device
	switch obj := e.Type.object(); {
	case e.QP != nil:
		on = e.QP.node.String()
	case e.CQ != nil:
		on = e.CQ.node.String()
	case e.SRQ != nil:
		on = e.SRQ.node.String()
	case e.WQ != nil:
		on = e.WQ.node.String()
	case obj == eventOfPort && e.Port != 0:
		on += " port " + strconv.Itoa(int(e.Port))
	case obj == eventOfCQ || obj == eventOfQP || obj == eventOfSRQ || obj == eventOfWQ:
		on = "a " + obj.String() + " of " + on
	}
	return e.Type.String() + " on " + on + ": " + e.Type.Explain()
}

// EventError reports a CQ, QP or SRQ that an asynchronous event said has failed: see Device.AsyncEvent.
type EventError struct {
	Event  AsyncEventType // EventCQErr, EventQPFatal or EventSRQErr
	Object string         // "cq of mlx5_0/1"
}

func (e *EventError) Error() string {
	return e.Event.String() + " on " + e.Object + ": " + e.Event.Explain()
}
