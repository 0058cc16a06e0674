package session

import (
	"net/netip"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/cm"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// meeting is where the exchange goes: over TCP, or over a connection of rdma_cm.
type meeting interface {
	dial() (*wire.Conn, error)
	// accept waits for a client. waiting gets the port.
	accept(waiting func(port int)) (*wire.Conn, error)
	// closeListener ends the refusal of further clients.
	closeListener() error
}

// tcpMeeting is a meeting over TCP.
type tcpMeeting struct {
	*Session
	listener *wire.Listener // of a server
}

func (m *tcpMeeting) network() string {
	if m.plan.Peer.IPv6 {
		return wire.TCP6
	}
	return wire.TCP
}

func (m *tcpMeeting) dial() (*wire.Conn, error) {
	p := &m.plan
	return wire.Dial(m.ctx, m.network(), p.Peer.Bind, p.Peer.Host, p.Peer.Port, p.Peer.Timeout, p.Peer.Patience)
}

func (m *tcpMeeting) accept(waiting func(port int)) (*wire.Conn, error) {
	p := &m.plan
	var err error
	switch {
	case p.Peer.ListenFD != 0:
		m.listener, err = wire.ListenFD(m.ctx, p.Peer.ListenFD, p.Peer.Timeout)
	case p.Peer.Port == 0:
		m.listener, err = wire.ListenAmong(m.ctx, m.network(), p.Peer.Bind, p.Peer.Ports, p.Peer.Timeout)
	default:
		m.listener, err = wire.Listen(m.ctx, m.network(), p.Peer.Bind, p.Peer.Port, p.Peer.Timeout)
	}
	if err != nil {
		return nil, err
	}
	waiting(m.listener.Port())
	return m.listener.Accept(m.ctx, m.strange)
}

func (m *tcpMeeting) closeListener() error { return closeEach(m.listener) }

// cmMeeting is a meeting over a connection of rdma_cm.
type cmMeeting struct {
	*Session
	listener *cm.Listener // of a server
	cm       *cm.Peer     // the connection of the exchange
}

func (m *cmMeeting) options() cm.Options {
	p := &m.plan
	o := cm.Options{Timeout: p.Peer.Timeout, Patience: p.Peer.Patience, IPv6: p.Peer.IPv6, Secret: wire.SecretOf(m.ctx)}
	if a, err := netip.ParseAddr(p.Peer.Bind); err == nil {
		o.Local = func(netip.Addr) netip.Addr { return a }
	}
	return o
}

func (m *cmMeeting) dial() (*wire.Conn, error) { return m.connect(m.options()) }

func (m *cmMeeting) connect(o cm.Options) (_ *wire.Conn, err error) {
	if m.cm, err = cm.Dial(m.ctx, m.plan.Peer.Host, m.plan.Peer.Port, o); err != nil {
		return nil, err
	}
	return m.over(wire.Client), nil
}

// accept waits for a client, by a device that need not be that of the test.
func (m *cmMeeting) accept(waiting func(port int)) (*wire.Conn, error) {
	c, err := m.listen(m.options(), func() error { return nil }, func(string, uint8) error { return nil }, waiting)
	if err == nil {
		m.cm.Ready()
	}
	return c, err
}

// listen waits for a client by a device that check admits, once begin has found nothing wrong.
func (m *cmMeeting) listen(o cm.Options, begin func() error, check func(device string, port uint8) error,
	waiting func(port int)) (_ *wire.Conn, err error) {
	if m.listener, err = cm.Listen(m.ctx, m.plan.Peer.Bind, m.plan.Peer.Port, o); err != nil {
		return nil, err
	}
	if err = begin(); err != nil {
		return nil, err
	}
	waiting(m.listener.Port())
	if m.cm, err = m.listener.Accept(m.ctx, check, m.strange); err != nil {
		return nil, err
	}
	return m.over(wire.Server), nil
}

// over returns the exchange over the connection.
func (m *cmMeeting) over(role wire.Role) *wire.Conn {
	c := wire.NewConn(m.ctx, m.cm, role, m.plan.Peer.Timeout)
	c.UseStructs()
	return c
}

func (m *cmMeeting) closeListener() error { return closeEach(m.listener) }
