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
	established, disconnected int
}

// connect begins all connections of a client.
func (m *matose) connect(from, to netip.AddrPort) error {
	for range m.o.connections {
		id, err := m.ch.CreateID(rdmacm.PortSpaceTCP)
		if err != nil {
			return err
		}
		m.add(id)
		if m.o.tos >= 0 {
			if err := id.SetTOS(uint8(m.o.tos)); err != nil {
				return err
			}
		}
		if err := id.ResolveAddr(from, to, resolving); err != nil {
			return err
		}
	}
	return nil
}

// listen lets clients connect.
func (m *matose) listen(at netip.AddrPort, out io.Writer) (err error) {
	if m.listener, err = m.ch.CreateID(rdmacm.PortSpaceTCP); err != nil {
		return err
	}
	if err := m.listener.Bind(at); err != nil {
		return err
	}
	if err := m.listener.Listen(0); err != nil {
		return err
	}
	fmt.Fprintf(out, "listening on %v\n", m.listener.LocalAddr())
	return nil
}

// add makes id a connection.
func (m *matose) add(id *rdmacm.ID) {
	c := &conn{o: m.o, id: id}
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
func (m *matose) handle(ev *rdmacm.Event) error {
	id := ev.ID
	switch ev.Type {
	case rdmacm.EventAddrResolved:
		return id.ResolveRoute(resolving)
	case rdmacm.EventRouteResolved:
		if err := of(id).prepare(); err != nil {
			return err
		}
		return id.Connect(&rdmacm.ConnParam{QPN: of(id).QP.Num()})
	case rdmacm.EventConnectRequest: // to the server
		if len(m.conns) == m.o.connections {
			return errors.Join(id.Reject(nil), id.Close())
		}
		m.add(id)
		if err := of(id).prepare(); err != nil {
			return err
		}
		if err := id.BringUp(of(id).QP, nil); err != nil {
			return err
		}
		return id.Accept(&rdmacm.ConnParam{QPN: of(id).QP.Num()})
	case rdmacm.EventConnectResponse: // to the client
		if err := id.BringUp(of(id).QP, nil); err != nil {
			return err
		}
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
func (c *conn) prepare() error {
	if c.o.ackTimeout >= 0 {
		if err := c.id.SetAckTimeout(ibv.TimeCode(c.o.ackTimeout)); err != nil {
			return err
		}
	}
	dev, err := c.id.Verbs()
	if err != nil {
		return err
	}
	c.Endpoint, err = program.NewEndpoint(dev, ibv.RC, max(1, c.o.Count), max(1, 2*c.o.Count*c.o.Size))
	if err != nil {
		return err
	}
	if err := c.id.InitQP(c.QP); err != nil {
		return err
	}
	return program.PostRecvs(c.QP, c.MR, c.o.Count, c.o.Size)
}

// migrate moves all IDs to a second channel. Their unread events go with them.
func (m *matose) migrate() error {
	to, err := rdmacm.NewEventChannel()
	if err != nil {
		return err
	}
	from := m.ch
	m.ch = to
	for _, c := range m.conns {
		if err := c.id.Migrate(to); err != nil {
			return err
		}
	}
	if m.listener != nil {
		if err := m.listener.Migrate(to); err != nil {
			return err
		}
	}
	return from.Close()
}

// close closes what was opened, children before parents.
func (m *matose) close() (err error) {
	for _, c := range m.conns {
		if c.Endpoint != nil {
			err = errors.Join(err, c.Endpoint.Close())
		}
		err = errors.Join(err, c.id.Close())
	}
	if m.listener != nil {
		err = errors.Join(err, m.listener.Close())
	}
	return errors.Join(err, m.ch.Close())
}
