// Ucmatose opens many connections, sends messages both ways over each of them, and closes them, with itself or
// with the stock ucmatose, as server or as client.
//
//	ucmatose -c 10              # on one host: waits for ten connections
//	ucmatose -c 10 -s HOST      # on the other
//
// One goroutine takes all connections through their steps, by the events of one channel, on either side.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { program.Main("ucmatose", os.Args[1:], parse, run) }

type options struct {
	program.Ends
	program.Messages
	connections     int
	tos, ackTimeout int
	migrate         bool
}

func parse(args []string) (*options, error) {
	o := &options{Messages: program.Messages{Kind: "message"}}
	f := program.NewFlags("ucmatose [options]\nucmatose -s HOST [options]\n")
	o.Ends.Flags(f, "7471")
	f.Int(&o.connections, "connections", "c", 1, 1, 1<<16, "`number` of connections, the same on both sides")
	o.Messages.Flags(f, 0, 1<<20)
	f.Int(&o.tos, "tos", "t", -1, -1, math.MaxUint8,
		"type of service of a client's packets, a `byte` (default the system's)")
	f.Int(&o.ackTimeout, "ack-timeout", "a", -1, -1, 31,
		"4.096 µs times two to the power of `n` is the time to wait for an acknowledgement (default the path's)")
	f.BoolVarP(&o.migrate, "migrate", "m", false, "move the connections to a second event channel")
	err := f.Parse(args, 0)
	return o, errors.Join(err, program.Within("-C times -S", o.Count*o.Size, 0, 1<<30))
}

func run(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	from, to, err := o.Resolve(ctx)
	program.Check(err)
	m := &matose{o: o}
	m.events = program.Must(program.NewEvents(m.handle))
	defer program.Close(m.events, &err)
	defer program.Close(&m.open, &err)
	server := !to.IsValid()
	if server {
		program.Check(m.listen(from, out))
		program.Must(m.events.Until(ctx, o.connections, rdmacm.EventEstablished))
	} else {
		program.Check(m.connect(from, to))
		program.Must(m.events.Until(ctx, o.connections, rdmacm.EventConnectResponse))
	}
	for _, c := range m.conns {
		if !server { // the server sends first
			program.Check(c.Finish(ctx, 0, o.Count, nil))
		}
		program.Check(c.Send(func(b *ibv.Batch, message ibv.SGE) { b.Send(0, ibv.Signaled, message) }))
	}
	for _, c := range m.conns {
		program.Check(c.Finish(ctx, o.Count, o.Count, nil))
	}
	if o.migrate {
		program.Check(m.migrate())
	}
	if server {
		for _, c := range m.conns {
			program.Check(c.id.Disconnect())
		}
	}
	program.Must(m.events.Until(ctx, o.connections, rdmacm.EventDisconnected))
	fmt.Fprint(out, o.Report(o.connections))
	return nil
}

// conn is a connection.
type conn struct {
	*program.Exchange // made when the device is known
	id                *rdmacm.ID
}

// matose is one side: all its connections, and the channel of their events. It is not safe for concurrent use.
type matose struct {
	o        *options
	events   *program.Events
	listener *rdmacm.ID // of a server
	conns    []*conn
	open     program.Closers
}

// connect begins all connections of a client.
func (m *matose) connect(from, to netip.AddrPort) (err error) {
	defer program.Catch(&err)
	for range m.o.connections {
		id := program.Must(m.events.CreateID(rdmacm.PortSpaceTCP))
		m.add(id)
		if m.o.tos >= 0 {
			program.Check(id.SetTOS(uint8(m.o.tos)))
		}
		program.Check(id.ResolveAddr(from, to, program.Resolving))
	}
	return nil
}

// listen lets clients connect.
func (m *matose) listen(at netip.AddrPort, out io.Writer) (err error) {
	defer program.Catch(&err)
	m.listener = program.Keep(&m.open, program.Must(m.events.CreateID(rdmacm.PortSpaceTCP)))
	program.Check(m.listener.Bind(at))
	program.Check(m.listener.Listen(0))
	fmt.Fprintf(out, "listening on %v\n", m.listener.LocalAddr())
	return nil
}

// add makes id a connection.
func (m *matose) add(id *rdmacm.ID) {
	c := &conn{id: program.Keep(&m.open, id)}
	id.SetValue(c)
	m.conns = append(m.conns, c)
}

// of returns the connection of an ID.
func of(id *rdmacm.ID) *conn { return id.Value().(*conn) }

// handle takes a connection to its next step.
func (m *matose) handle(ev *rdmacm.Event) (err error) {
	defer program.Catch(&err)
	id := ev.ID
	switch ev.Type {
	case rdmacm.EventAddrResolved:
		return id.ResolveRoute(program.Resolving)
	case rdmacm.EventRouteResolved:
		program.Check(m.prepare(of(id)))
		return id.Connect(&rdmacm.ConnParam{QPN: of(id).QP.Num()})
	case rdmacm.EventConnectRequest: // to the server
		if len(m.conns) == m.o.connections {
			return errors.Join(id.Reject(nil), id.Close())
		}
		m.add(id)
		program.Check(m.prepare(of(id)))
		program.Check(id.BringUp(of(id).QP, nil))
		return id.Accept(&rdmacm.ConnParam{QPN: of(id).QP.Num()})
	case rdmacm.EventConnectResponse: // to the client
		program.Check(id.BringUp(of(id).QP, nil))
		return id.Establish()
	case rdmacm.EventDisconnected:
		if m.listener == nil {
			return id.Disconnect() // the reply
		}
		return nil
	}
	return ev.Err()
}

// prepare makes the queue pair, whose device is known by now, and posts a receive for every message before the peer can
// send.
func (m *matose) prepare(c *conn) (err error) {
	defer program.Catch(&err)
	if m.o.ackTimeout >= 0 {
		program.Check(c.id.SetAckTimeout(ibv.TimeCode(m.o.ackTimeout)))
	}
	dev := program.Must(c.id.Verbs())
	e := program.Must(program.NewEndpoint(dev, ibv.RC, max(1, m.o.Count), max(1, m.o.Memory(0))))
	c.Exchange = program.Keep(&m.open, e).Exchange(&m.o.Messages, 0)
	program.Check(c.id.InitQP(c.QP))
	return c.Expect()
}

// migrate moves all IDs to a second channel. Their unread events go with them.
func (m *matose) migrate() (err error) {
	defer program.Catch(&err)
	from := m.events.EventChannel
	m.events.EventChannel = program.Must(rdmacm.NewEventChannel())
	for _, c := range m.conns {
		program.Check(c.id.Migrate(m.events.EventChannel))
	}
	if m.listener != nil {
		program.Check(m.listener.Migrate(m.events.EventChannel))
	}
	return from.Close()
}
