package program

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/rdmacm"
)

// Resolving is how long an address or a route may take.
const Resolving = 2 * time.Second

// Listen listens, and says so.
func Listen(r *Run, host, port string) *rdmacm.Listener {
	l := Keep(r, Must(rdmacm.Listen(r, net.JoinHostPort(host, port), nil)))
	fmt.Fprintf(r, "listening on %v\n", l.Addr())
	return l
}

// Serve serves the clients of l side by side. It ends when it is interrupted, as intended. It prints what fails.
func Serve(r *Run, l *rdmacm.Listener, serve func(*Run, *rdmacm.Request)) {
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, cancel := context.WithCancel(r)
	defer cancel()
	r.Serves = true
	for {
		request := Must(l.Next(ctx))
		clients.Go(func() {
			err := Do(ctx, r, func(r *Run) { serve(r, request) })
			if err != nil && ctx.Err() == nil {
				fmt.Fprintf(r, "%v: %v\n", request.RemoteAddr(), err)
			}
		})
	}
}

// Events are those of one channel.
type Events struct {
	*rdmacm.EventChannel
	handle func(*rdmacm.Event)
	seen   map[rdmacm.EventType]int
}

// NewEvents makes a channel. handle gets its events, those that report an error also.
func NewEvents(r *Run, handle func(*rdmacm.Event)) *Events {
	return Keep(r, &Events{Must(rdmacm.NewEventChannel()), handle, map[rdmacm.EventType]int{}})
}

// Until waits until n events of a type have come since the beginning. It returns the last one that has.
func (e *Events) Until(ctx context.Context, n int, last rdmacm.EventType) (ev *rdmacm.Event) {
	next := func() {
		ev = Must(e.Event(ctx))
		defer Doing("%v", ev.Type)
		if ev.Type != rdmacm.EventTimewaitExit && ev.Type != rdmacm.EventAddrChange {
			e.handle(ev)
		}
		e.seen[ev.Type]++
	}
	for e.seen[last] < n {
		next()
	}
	return ev
}

// Connections are all those of one side. One goroutine takes them through their steps, by the events of one channel.
// They are not safe for concurrent use.
type Connections struct {
	Ends
	*Messages
	Number    int
	PortSpace rdmacm.PortSpace
	Prepare   func(*rdmacm.ID, *Exchange) // gets each when its device is known, and before the peer can send
	IDs       []*rdmacm.ID                // a server's first one listens

	*Events
	run *Run
	all []*Exchange
}

// NewFlags returns -s, -b, -p, -c, -C, -S, -V and --timeout. things names the connections for the help.
func (c *Connections) NewFlags(command, port, things string, leastCount, mostSize int) *Flags {
	f := c.Ends.NewFlags(command, port)
	f.Int(&c.Number, "connections", "c", 1, 1, 1<<16, "`number` of "+things+", the same on both sides")
	c.Messages.Flags(f, leastCount, mostSize)
	return f
}

// Connect opens all. A server of datagrams gets no event after the request.
func (c *Connections) Connect(r *Run) {
	c.run, c.Events = r, NewEvents(r, c.step)
	from, to := c.Resolve()
	last := rdmacm.EventEstablished
	if c.Server != "" {
		for range c.Number {
			Check(c.id(Must(c.CreateID(c.PortSpace))).ResolveAddr(from, to, Resolving))
		}
	} else {
		l := c.id(Must(c.CreateID(c.PortSpace)))
		Check(l.Bind(from))
		Check(l.Listen(0))
		fmt.Fprintf(r, "listening on %v\n", l.LocalAddr())
		if c.PortSpace == rdmacm.PortSpaceUDP {
			last = rdmacm.EventConnectRequest
		}
	}
	c.Until(r, c.Number, last)
}

// id adds an ID, which is closed at the end.
func (c *Connections) id(id *rdmacm.ID) *rdmacm.ID {
	c.IDs = append(c.IDs, Keep(c.run, id))
	return id
}

// step takes a connection to its next step.
func (c *Connections) step(ev *rdmacm.Event) {
	id := ev.ID
	switch ev.Type {
	case rdmacm.EventAddrResolved:
		c.queuePair(id)
		Check(id.ResolveRoute(Resolving))
	case rdmacm.EventRouteResolved:
		Check(id.Connect(nil))
	case rdmacm.EventConnectRequest: // to the server
		if len(c.all) == c.Number {
			Check(id.Close()) // which rejects it
			return
		}
		c.queuePair(c.id(id))
		Check(id.Accept(nil))
	case rdmacm.EventEstablished:
		if ev.UD != nil { // where a client's datagrams go
			x := id.Value().(*Exchange)
			x.AH, x.QPN, x.QKey = Keep(c.run, Must(x.QP.PD().CreateAH(&ev.UD.AH))), ev.UD.QPN, ev.UD.QKey
		}
	case rdmacm.EventDisconnected:
		if c.Server != "" {
			Check(id.Disconnect()) // the reply
		}
	default:
		Check(ev.Err())
	}
}

// queuePair makes the queue pair of a connection, of the type of the port space, and posts a receive for every message.
func (c *Connections) queuePair(id *rdmacm.ID) {
	x := c.Exchange(c.run, NewQP(c.run, Must(id.Verbs()), id.CreateQP, 0, max(1, c.Count)))
	id.SetValue(x)
	c.all = append(c.all, x)
	c.Prepare(id, x)
}

// SendAndReceive has all send their messages and receive as many, on the one side first, and reports that.
func (c *Connections) SendAndReceive(first bool) {
	for _, x := range c.all {
		if !first {
			x.Finish(c.run, 0, c.Count)
		}
		x.Send()
	}
	for _, x := range c.all {
		x.Finish(c.run, c.Count, c.Count)
	}
	fmt.Fprintf(c.run, "%d %ss sent and as many received%s\n", len(c.all)*c.Count, c.Kind, Checked(c.Verify))
}
