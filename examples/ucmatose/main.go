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
	"time"

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
	f.Int(&o.Count, "count", "C", 10, 0, 1<<14, "`number` of messages each way, the same on both sides")
	o.Messages.Flags(f, 1<<20)
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
	m := &matose{o: o, ch: program.Must(rdmacm.NewEventChannel())}
	defer func() { err = errors.Join(err, m.ch.Close()) }() // which may be another by then
	defer program.Close(&m.open, &err)
	server := !to.IsValid()
	if server {
		program.Check(m.listen(from, out))
	} else {
		program.Check(m.connect(from, to))
	}
	program.Check(m.follow(ctx, &m.established))
	for _, c := range m.conns {
		if !server { // the server sends first
			program.Check(c.complete(ctx, 0))
		}
		program.Check(c.send())
	}
	for _, c := range m.conns {
		program.Check(c.complete(ctx, o.Count))
	}
	if o.migrate {
		program.Check(m.migrate())
	}
	if server {
		for _, c := range m.conns {
			program.Check(c.id.Disconnect())
		}
	}
	program.Check(m.follow(ctx, &m.disconnected))
	fmt.Fprintf(out, "%d messages sent and as many received%s\n", o.connections*o.Count, program.Checked(o.Verify))
	return nil
}

// conn is a connection. Its memory has a place for each message that comes, and behind them one for each that goes.
type conn struct {
	*program.Endpoint // made when the device is known
	o                 *options
	id                *rdmacm.ID
	sent, received    int
}

// send posts all messages.
func (c *conn) send() error {
	batch := c.QP.Batch()
	for n := range c.o.Count {
		at := (c.o.Count + n) * c.o.Size
		c.o.Fill(c.MR.Bytes()[at:], n)
		batch.Send(0, ibv.Signaled, c.MR.SGE(at, c.o.Size))
	}
	return batch.Post()
}

// complete waits until all messages have been received, and as many as that have been sent.
func (c *conn) complete(ctx context.Context, sent int) error {
	for c.sent < sent || c.received < c.o.Count {
		wc, err := c.o.Next(ctx, c.CQ)
		if err != nil {
			return fmt.Errorf("%d messages received and %d sent of %d: %w", c.received, c.sent, c.o.Count, err)
		}
		if wc.Opcode == ibv.WCSend {
			c.sent++
			continue
		}
		if err := c.o.Check(c.MR.Bytes()[c.received*c.o.Size:][:wc.ByteLen], c.received); err != nil {
			return err
		}
		c.received++
	}
	return nil
}

// resolving is how long an address or a route may take.
const resolving = 2 * time.Second

// matose is one side: all its connections, and the channel of their events. It is not safe for concurrent use.
type matose struct {
	o                         *options
	ch                        *rdmacm.EventChannel
	listener                  *rdmacm.ID // of a server
	conns                     []*conn
	open                      program.Closers
	established, disconnected int
}

// connect begins all connections of a client.
func (m *matose) connect(from, to netip.AddrPort) (err error) {
	defer program.Catch(&err)
	for range m.o.connections {
		id := program.Must(m.ch.CreateID(rdmacm.PortSpaceTCP))
		m.add(id)
		if m.o.tos >= 0 {
			program.Check(id.SetTOS(uint8(m.o.tos)))
		}
		program.Check(id.ResolveAddr(from, to, resolving))
	}
	return nil
}

// listen lets clients connect.
func (m *matose) listen(at netip.AddrPort, out io.Writer) (err error) {
	defer program.Catch(&err)
	m.listener = program.Keep(&m.open, program.Must(m.ch.CreateID(rdmacm.PortSpaceTCP)))
	program.Check(m.listener.Bind(at))
	program.Check(m.listener.Listen(0))
	fmt.Fprintf(out, "listening on %v\n", m.listener.LocalAddr())
	return nil
}

// add makes id a connection.
func (m *matose) add(id *rdmacm.ID) {
	c := &conn{o: m.o, id: program.Keep(&m.open, id)}
	id.SetValue(c)
	m.conns = append(m.conns, c)
}

// of returns the connection of an ID.
func of(id *rdmacm.ID) *conn { return id.Value().(*conn) }

// follow handles events until as many connections as there are to be were counted in n.
func (m *matose) follow(ctx context.Context, n *int) error {
	for *n < m.o.connections {
		ev, err := m.ch.Event(ctx)
		if err != nil {
			return err
		}
		if err := m.handle(ev); err != nil {
			return fmt.Errorf("%v: %w", ev.Type, err)
		}
	}
	return nil
}

// handle takes a connection to its next step.
func (m *matose) handle(ev *rdmacm.Event) (err error) {
	defer program.Catch(&err)
	id := ev.ID
	switch ev.Type {
	case rdmacm.EventAddrResolved:
		return id.ResolveRoute(resolving)
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
		m.established++
		return id.Establish()
	case rdmacm.EventEstablished: // to the server
		m.established++
	case rdmacm.EventDisconnected:
		m.disconnected++
		if m.listener == nil {
			return id.Disconnect() // the reply
		}
	case rdmacm.EventTimewaitExit, rdmacm.EventAddrChange:
	default:
		return ev.Err()
	}
	return nil
}

// prepare makes the queue pair, whose device is known by now, and posts a receive for every message before the peer can
// send.
func (m *matose) prepare(c *conn) (err error) {
	defer program.Catch(&err)
	if m.o.ackTimeout >= 0 {
		program.Check(c.id.SetAckTimeout(ibv.TimeCode(m.o.ackTimeout)))
	}
	dev := program.Must(c.id.Verbs())
	n, size := m.o.Count, m.o.Size
	c.Endpoint = program.Keep(&m.open, program.Must(program.NewEndpoint(dev, ibv.RC, max(1, n), max(1, 2*n*size))))
	program.Check(c.id.InitQP(c.QP))
	return program.PostRecvs(c.QP, c.MR, n, size)
}

// migrate moves all IDs to a second channel. Their unread events go with them.
func (m *matose) migrate() (err error) {
	defer program.Catch(&err)
	from := m.ch
	m.ch = program.Must(rdmacm.NewEventChannel())
	for _, c := range m.conns {
		program.Check(c.id.Migrate(m.ch))
	}
	if m.listener != nil {
		program.Check(m.listener.Migrate(m.ch))
	}
	return from.Close()
}
