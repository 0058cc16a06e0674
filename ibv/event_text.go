package ibv

// EventObject is the kind of thing that an asynchronous event is about.
type EventObject uint8

const (
	EventOfDevice EventObject = 0
	EventOfPort   EventObject = 1
	EventOfCQ     EventObject = 2
	EventOfQP     EventObject = 3
	EventOfSRQ    EventObject = 4
	EventOfWQ     EventObject = 5
)

var eventObjectNames = []string{"device", "port", "cq", "qp", "srq", "wq"}

// String is the name in lower case, as in "qp".
func (o EventObject) String() string { return enumString("EventObject", int64(o), eventObjectNames) }

type eventText struct {
	object  EventObject
	explain string
}

var eventTexts = [...]eventText{
	EventCQErr:            {EventOfCQ, "the completion queue overflowed or failed: completions are lost, so make a larger one and its queue pairs anew"},
	EventQPFatal:          {EventOfQP, "the queue pair failed and is in the error state: what was posted is flushed"},
	EventQPReqErr:         {EventOfQP, "the peer sent an invalid request: the queue pair is in the error state"},
	EventQPAccessErr:      {EventOfQP, "the peer asked for memory that it may not use: the queue pair is in the error state"},
	EventCommEst:          {EventOfQP, "a first message arrived before the queue pair was moved to RTS, which can be done now"},
	EventSQDrained:        {EventOfQP, "the send queue is drained: attributes may be changed"},
	EventPathMig:          {EventOfQP, "the connection has moved to its alternate path"},
	EventPathMigErr:       {EventOfQP, "the connection could not move to its alternate path"},
	EventDeviceFatal:      {EventOfDevice, "the device failed or was removed: close everything and open it again"},
	EventPortActive:       {EventOfPort, "the port has a link and carries traffic"},
	EventPortErr:          {EventOfPort, "the port lost its link: connections retry until their timeouts end"},
	EventLIDChange:        {EventOfPort, "the subnet manager gave the port another LID: peers must be told"},
	EventPKeyChange:       {EventOfPort, "the table of partition keys changed: look up pkey indexes again"},
	EventSMChange:         {EventOfPort, "another subnet manager took over: address handles and joins through the old one may be stale"},
	EventSRQErr:           {EventOfSRQ, "the shared receive queue failed: its queue pairs cannot receive"},
	EventSRQLimitReached:  {EventOfSRQ, "fewer receives are posted than the limit: post more and arm the limit again"},
	EventQPLastWQEReached: {EventOfQP, "the queue pair took its last receive from the shared receive queue: it may be closed now"},
	EventClientReregister: {EventOfPort, "the subnet manager asks for subscriptions, multicast joins and services to be registered again"},
	EventGIDChange:        {EventOfPort, "the GID table changed, as when an address was added or removed: look up indexes again"},
	EventWQFatal:          {EventOfWQ, "the receive work queue failed"},
	EventSpeedChange:      {EventOfPort, "the speed of the port changed"},
}

// Object is the kind of thing that the event is about. For a type that this
// release does not know it is EventOfPort, since the C API hands out a number
// then.
func (t AsyncEventType) Object() EventObject {
	if int(t) >= len(eventTexts) {
		return EventOfPort
	}
	return eventTexts[t].object
}

// Explain says in a sentence what happened and what follows from it.
func (t AsyncEventType) Explain() string {
	if int(t) >= len(eventTexts) {
		return "an event that this release does not know"
	}
	return eventTexts[t].explain
}
