package rs

import (
	"context"
	"errors"
	"net/netip"

	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// Socket is an rsocket whose calls wait until they are possible. It is not safe for concurrent use.
type Socket struct {
	*rsocket.Socket
	ctx    context.Context // ends waiting
	o      *Options
	poller *rsocket.Poller
	blocks bool
}

// New makes a socket for an address, with the options set.
func New(ctx context.Context, t rsocket.Type, addr netip.AddrPort, o *Options) (*Socket, error) {
	domain := rsocket.DomainINET
	if addr.Addr().Is6() {
		domain = rsocket.DomainINET6
	}
	p, err := rsocket.NewPoller()
	if err != nil {
		return nil, err
	}
	s, err := rsocket.New(domain, t)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	w := &Socket{Socket: s, ctx: ctx, o: o, poller: p}
	if err := w.options(t); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// options sets options before the socket is connected, when the library makes what they are about.
func (s *Socket) options(t rsocket.Type) error {
	type option struct {
		level rsocket.Level
		name  rsocket.Option
		value int
	}
	var all []option
	if s.o.Buffer > 0 {
		all = append(all, option{rsocket.LevelSocket, rsocket.OptSendBuf, s.o.Buffer},
			option{rsocket.LevelSocket, rsocket.OptRecvBuf, s.o.Buffer})
	}
	if t == rsocket.Stream {
		all = append(all, option{rsocket.LevelSocket, rsocket.OptReuseAddr, 1},
			option{rsocket.LevelTCP, rsocket.OptNoDelay, 1})
	}
	if s.o.IOMaps > 0 {
		all = append(all, option{rsocket.LevelRDMA, rsocket.OptIOMaps, s.o.IOMaps})
	}
	for _, o := range all {
		if err := s.SetIntOption(o.level, o.name, o.value); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the connection after what was sent has arrived.
func (s *Socket) Close() error {
	return errors.Join(s.Socket.Close(), s.poller.Close())
}
