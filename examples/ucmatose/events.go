package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// resolving is how long an address or a route may take.
const resolving = 2 * time.Second

// matose is one side: all its connections, and the channel of their events. It is not safe for concurrent use.
type matose struct {
	o            *options
	ch           *rdmacm.EventChannel
	listener     *rdmacm.ID // of a server
	ids          []*rdmacm.ID
	established  int
	disconnected int
}

func (m *matose) client(ctx context.Context) error {
	to, err := resolve(ctx, m.o.server, m.o.port)
	if err != nil {
		return err
	}
	var from netip.AddrPort
	if m.o.bind != "" {
		if from, err = resolve(ctx, m.o.bind, "0"); err != nil {
			return err
		}
	}
	if m.ch, err = rdmacm.NewEventChannel(); err != nil {
		return err
	}
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
	if err := m.follow(ctx, &m.established); err != nil {
		return err
	}
	for _, id := range m.ids {
		c := of(id)
		if err := c.complete(ctx, 0, m.o.count); err != nil {
			return err
		}
		if err := c.send(); err != nil {
			return err
		}
		if err := c.complete(ctx, m.o.count, m.o.count); err != nil {
			return err
		}
	}
	if err := m.moveIf(); err != nil {
		return err
	}
	return m.follow(ctx, &m.disconnected) // by the server
}

func (m *matose) server(ctx context.Context, out io.Writer) (err error) {
	at, err := resolve(ctx, m.o.bind, m.o.port)
	if err != nil {
		return err
	}
	if m.ch, err = rdmacm.NewEventChannel(); err != nil {
		return err
	}
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
	if err := m.follow(ctx, &m.established); err != nil {
		return err
	}
	for _, id := range m.ids { // all at once
		if err := of(id).send(); err != nil {
			return err
		}
	}
	for _, id := range m.ids {
		if err := of(id).complete(ctx, m.o.count, m.o.count); err != nil {
			return err
		}
	}
	if err := m.moveIf(); err != nil {
		return err
	}
	for _, id := range m.ids {
		if err := id.Disconnect(); err != nil {
			return err
		}
	}
	return m.follow(ctx, &m.disconnected)
}

// add makes id a connection.
func (m *matose) add(id *rdmacm.ID) {
	id.SetValue(&conn{o: m.o, opened: []io.Closer{id}})
	m.ids = append(m.ids, id)
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
		if err := m.prepare(id); err != nil {
			return err
		}
		return id.Connect(&rdmacm.ConnParam{QPN: of(id).qp.Num()})
	case rdmacm.EventConnectRequest: // to the server
		if len(m.ids) == m.o.connections {
			return errors.Join(id.Reject(nil), id.Close())
		}
		m.add(id)
		if err := m.prepare(id); err != nil {
			return err
		}
		if err := id.BringUp(of(id).qp, nil); err != nil {
			return err
		}
		return id.Accept(&rdmacm.ConnParam{QPN: of(id).qp.Num()})
	case rdmacm.EventConnectResponse: // to the client
		if err := id.BringUp(of(id).qp, nil); err != nil {
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

// prepare makes the queue pair of a connection, whose device is known by now.
func (m *matose) prepare(id *rdmacm.ID) error {
	if m.o.ackTimeout >= 0 {
		if err := id.SetAckTimeout(ibv.TimeCode(m.o.ackTimeout)); err != nil {
			return err
		}
	}
	dev, err := id.Verbs()
	if err != nil {
		return err
	}
	if err := of(id).prepare(dev); err != nil {
		return err
	}
	if err := id.InitQP(of(id).qp); err != nil {
		return err
	}
	return of(id).expect()
}

// moveIf moves all IDs to a second channel, if that was asked for. Their unread events go with them.
func (m *matose) moveIf() error {
	if !m.o.migrate {
		return nil
	}
	to, err := rdmacm.NewEventChannel()
	if err != nil {
		return err
	}
	from := m.ch
	m.ch = to
	for _, id := range m.ids {
		if err := id.Migrate(to); err != nil {
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
	for _, id := range m.ids {
		err = errors.Join(err, of(id).close())
	}
	if m.listener != nil {
		err = errors.Join(err, m.listener.Close())
	}
	if m.ch != nil {
		err = errors.Join(err, m.ch.Close())
	}
	return err
}

// resolve looks up a name, or reads an address, and a port. An empty host is any address of this machine.
func resolve(ctx context.Context, host, port string) (netip.AddrPort, error) {
	ip := netip.IPv4Unspecified()
	if host != "" {
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return netip.AddrPort{}, err
		}
		ip = ips[0].Unmap()
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	return netip.AddrPortFrom(ip, uint16(n)), err
}
