package rdmacm

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
)

// stage is how far an ID is, as this package has seen it. It explains refusals of the kernel, which has the state
// itself, and decides nothing.
type stage uint32

const (
	stageNew stage = iota
	stageBound
	stageResolving
	stageResolved
	stageRouting
	stageRouted
	stageRequested // of an EventConnectRequest
	stageConnecting
	stageOver
	stageListening
)

var stageTexts = [...]string{
	stageNew:        "is new",
	stageBound:      "is bound to an address",
	stageResolving:  "is resolving an address",
	stageResolved:   "has resolved an address",
	stageRouting:    "is resolving a route",
	stageRouted:     "has a route",
	stageRequested:  "has a peer's request",
	stageConnecting: "is connecting or connected",
	stageOver:       "had a connection",
	stageListening:  "listens",
}

// order is where a call belongs: an ID of the stages from to to accepts it.
type order struct {
	from, to stage
	early    string // what must be done first
	late     string // what to do instead
}

const anotherID = "use another ID"

// orders has the state that rdma_cm wants for each call (Linux, drivers/infiniband/core/cma.c).
var orders = map[string]order{
	"bind": {stageNew, stageNew, "", "bind an ID once, before its other calls; " + anotherID},
	"resolve address": {stageNew, stageBound, "",
		"resolve one address with an ID that does not listen; " + anotherID},
	"resolve route": {stageResolved, stageResolved, "call ResolveAddr and wait for EventAddrResolved",
		"resolve one route for an ID; " + anotherID},
	"set paths": {stageResolved, stageResolved, "call ResolveAddr and wait for EventAddrResolved",
		"set the paths once, in place of ResolveRoute; " + anotherID},
	"listen": {stageNew, stageBound, "", "listen once, with an ID that does not connect; " + anotherID},
	"connect": {stageRouted, stageRouted, "call ResolveRoute and wait for EventRouteResolved",
		"connect an ID once; " + anotherID},
	"accept": {stageRequested, stageRequested, "accept with the ID of an EventConnectRequest",
		"accept a request once, with the ID of its EventConnectRequest"},
	"reject": {stageRequested, stageOver, "reject with the ID of an EventConnectRequest",
		"reject with the ID of an EventConnectRequest, before Accept"},
	"establish": {stageConnecting, stageOver, "call Connect and wait for EventConnectResponse",
		"establish with the ID of an EventConnectResponse"},
	"disconnect": {stageConnecting, stageOver, "connect the ID, or accept with it",
		"disconnect the ID of a connection"},
}

// explain returns a *StateError for a call that the kernel refused because of its place, otherwise err.
func (s stage) explain(op string, err error) error {
	o, known := orders[op]
	var own *StateError
	if !known || !errors.Is(err, syscall.EINVAL) || errors.As(err, &own) || s >= o.from && s <= o.to {
		return err
	}
	e := &StateError{Op: op, Need: o.early, Late: s > o.to}
	if e.Late {
		e.Need = o.late
	}
	e.Need = fmt.Sprintf("the ID %s; %s", stageTexts[s], e.Need)
	return e
}

// progress is the stage of an ID.
type progress struct{ at atomic.Uint32 }

func (p *progress) load() stage { return stage(p.at.Load()) }

// advance is for calls that succeeded. The event that ends what a call began may have been read before.
func (p *progress) advance(to stage) {
	for {
		old := p.at.Load()
		if stage(old) >= to || p.at.CompareAndSwap(old, uint32(to)) {
			return
		}
	}
}

// event is for events, which may also end an attempt that can be repeated.
func (p *progress) event(t EventType) {
	switch t {
	case EventAddrResolved:
		p.advance(stageResolved)
	case EventAddrError:
		p.at.Store(uint32(stageBound))
	case EventRouteResolved:
		p.advance(stageRouted)
	case EventRouteError:
		p.at.Store(uint32(stageResolved))
	case EventRejected, EventUnreachable, EventConnectError, EventDisconnected:
		p.advance(stageOver)
	}
}
