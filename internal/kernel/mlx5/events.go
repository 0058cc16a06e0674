package mlx5

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

func (e *events) init() { e.changed.L = &e.mu }

// begin says that the caller reads events, until it has counted them.
func (e *events) begin() {
	e.mu.Lock()
	e.readers++
	e.mu.Unlock()
}

// done undoes begin.
func (e *events) done() {
	e.mu.Lock()
	e.readers--
	e.mu.Unlock()
	e.changed.Broadcast()
}

func (e *events) note(c *count) {
	e.mu.Lock()
	c.read++
	e.mu.Unlock()
}

func (e *events) ack(c *count, n int) {
	e.mu.Lock()
	c.acked += uint32(n)
	e.mu.Unlock()
	e.changed.Broadcast()
}

// wait returns when as many events were acknowledged as were reported. The error is a *uverbs.ReplyError if fewer were
// ever read.
func (e *events) wait(command string, c *count, reported uint32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for int32(reported-c.acked) > 0 {
		if int32(reported-c.read) > 0 && e.readers == 0 {
			return &uverbs.ReplyError{Command: command, Field: "events", Got: uint64(reported),
				Want: "as many as were read"}
		}
		e.changed.Wait()
	}
	return nil
}

// xrcEvent marks the event of a QP that was opened by its number. C: IBV_XRC_QP_EVENT_FLAG.
const xrcEvent = 0x80000000

// counted is an object that has async events.
type counted interface {
	owned
	asyncCount() *count
}

// element reports whether an event is of an object, and not of the device or a port.
func element(eventType uint32) bool {
	switch eventType &^ xrcEvent {
	case abi.IBV_EVENT_DEVICE_FATAL, abi.IBV_EVENT_PORT_ACTIVE, abi.IBV_EVENT_PORT_ERR, abi.IBV_EVENT_LID_CHANGE,
		abi.IBV_EVENT_PKEY_CHANGE, abi.IBV_EVENT_SM_CHANGE, abi.IBV_EVENT_CLIENT_REREGISTER, abi.IBV_EVENT_GID_CHANGE,
		abi.IBV_EVENT_DEVICE_SPEED_CHANGE:
		return false
	}
	return eventType&^xrcEvent <= abi.IBV_EVENT_WQ_FATAL
}

func notAnObject(command string, h uint64, want string) error {
	return &uverbs.ReplyError{Command: command, Field: "the object", Got: h, Want: want}
}

// found looks up the object of an event. ok is false if it has ended: that of a removed device ends without its events.
func (c *context) found(command string, h uint64) (o any, ok bool, err error) {
	o, issued := c.v.table.load(handle(h))
	if b, is := o.(owned); o != nil && (!is || b.context() != c) || !issued {
		return nil, false, notAnObject(command, h, "one of this context")
	}
	return o, o != nil, nil
}

// GetAsyncEvent reads an event.
func (c *context) GetAsyncEvent(ev *abi.AsyncEvent) error {
	const command = "read of async events"
	c.events.begin()
	defer c.events.done()
	for {
		var d abi.UverbsAsyncEventDesc
		if err := uverbs.Read(c.core.AsyncFD, uverbs.Bytes(&d)); err != nil {
			return err
		}
		ev.Element, ev.EventType = uintptr(d.Element), d.EventType
		if !element(d.EventType) {
			return nil
		}
		o, ok, err := c.found(command, d.Element)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		n, is := o.(counted)
		if !is {
			return notAnObject(command, d.Element, "one that has events")
		}
		c.events.note(n.asyncCount())
		return nil
	}
}

// AckAsyncEvent lets the object of an event end.
func (v *Verbs) AckAsyncEvent(ev *abi.AsyncEvent) {
	if !element(ev.EventType) {
		return
	}
	o, _ := v.table.load(ev.Element)
	if n, ok := o.(counted); ok {
		n.context().events.ack(n.asyncCount(), 1)
	}
}

// CreateCompChannel makes a completion channel.
func (c *context) CreateCompChannel() (*channel, error) {
	fd, err := c.file.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	return &channel{object: object{c: c}, fd: fd}, nil
}

// DestroyCompChannel ends a completion channel, which its descriptor keeps.
func (ch *channel) DestroyCompChannel() error {
	ch.c.v.table.remove(ch.handle)
	if ch.given {
		return nil
	}
	return uverbs.CloseFD(ch.fd)
}

// ChannelFD gives the descriptor of a completion channel away.
func (ch *channel) ChannelFD() (int, error) {
	ch.given = true
	return ch.fd, nil
}

// GetCQEvent reads an event of a completion channel.
func (ch *channel) GetCQEvent(e *control.CQEvent) error {
	const command = "read of completion events"
	c := ch.c
	c.events.begin()
	defer c.events.done()
	for {
		if err := uverbs.Read(ch.fd, uverbs.Bytes(&e.Args[0])); err != nil {
			return err
		}
		o, ok, err := c.found(command, uint64(e.Args[0]))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		q, is := o.(*cq)
		if !is {
			return notAnObject(command, uint64(e.Args[0]), "a CQ")
		}
		c.events.note(&q.completions)
		e.CQ, e.Cookie = q.handle, q.cookie
		return nil
	}
}

// AckCQEvents lets a CQ end.
func (q *cq) AckCQEvents(n int, _ *control.CQEvent) { q.c.events.ack(&q.completions, n) }

// reported is how many of an object's events the kernel has reported.
type reported struct {
	of *count
	n  uint32
}
