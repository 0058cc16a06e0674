package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

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
