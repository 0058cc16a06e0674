package session

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/cm"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// DeviceError is an address that leads to another device, or port, than the one that was asked for.
type DeviceError struct {
	Device   string // that the address leads to
	Port     uint8
	Want     string // as asked for
	WantPort uint8
}

// Error returns one line.
func (e *DeviceError) Error() string {
	return fmt.Sprintf("the address leads to %s port %d, not to %s port %d (-d, -i); "+
		"give the address of that one to the client, or leave -d out", e.Device, e.Port, e.Want, e.WantPort)
}

// meet meets the peer by rdma_cm and opens the device that its address leads to.
func (s *rdmaCM) meet(waiting func(port int)) error {
	p := &s.plan
	opt := cm.Options{Timeout: p.Peer.Timeout, Patience: p.Peer.Patience, TOS: p.Link.TClass,
		Datagrams: p.Transport == wire.UD,
		IPv6:      p.Peer.IPv6, Secret: wire.SecretOf(s.ctx)}
	if p.Link.QPTimeout != plan.DefaultQPTimeout {
		opt.AckTimeout = p.Link.QPTimeout
	}
	role, meet := wire.Server, s.accept
	if p.Connects() {
		role, meet = wire.Client, s.dial
	}
	if err := meet(opt, waiting); err != nil {
		return err
	}
	s.conn = wire.NewConn(s.ctx, s.cm, role, p.Peer.Timeout)
	s.conn.UseStructs()
	if !s.dev.Info().Transport.SendsAcked() {
		s.conn.Unacked()
	}
	return nil
}

func (s *rdmaCM) dial(opt cm.Options, _ func(port int)) error {
	p := &s.plan
	if p.Link.Device != "" {
		if err := s.openDevice(p.Link.Device, p.Link.IBPort); err != nil {
			return err
		}
		if p.Queues.Inline > 0 {
			if err := s.rehearse(); err != nil {
				return err
			}
		}
		opt.Local = s.addressFor
	}
	if a, err := netip.ParseAddr(p.Peer.Bind); err == nil {
		opt.Local = func(netip.Addr) netip.Addr { return a }
	}
	var err error
	if s.cm, err = cm.Dial(s.ctx, p.Peer.Host, p.Peer.Port, opt); err != nil {
		return err
	}
	conn := s.cm.Conn()
	return s.useDevice(conn.PD().Device().Name(), conn.ID().Port())
}

func (s *rdmaCM) accept(opt cm.Options, waiting func(port int)) error {
	p := &s.plan
	var err error
	if s.listener, err = cm.Listen(s.ctx, p.Peer.Bind, p.Peer.Port, opt); err != nil {
		return err
	}
	if p.Link.Device != "" {
		if err := s.openDevice(p.Link.Device, p.Link.IBPort); err != nil {
			return err
		}
		if err := s.rehearse(); err != nil {
			return err
		}
	}
	waiting(s.listener.Port())
	// What is no client may lead to another device.
	check := func(device string, port uint8) error {
		if s.dev == nil {
			return nil
		}
		return s.useDevice(device, port)
	}
	if s.cm, err = s.listener.Accept(s.ctx, check, s.strange); err != nil {
		return err
	}
	conn := s.cm.Conn()
	return s.useDevice(conn.PD().Device().Name(), conn.ID().Port())
}

// useDevice opens the device of the connection, unless it is open: then it has to be the same.
func (s *rdmaCM) useDevice(device string, port uint8) error {
	if s.dev == nil {
		return s.openDevice(device, port)
	}
	if device != s.dev.Name() || port != s.ibPort {
		return &DeviceError{Device: device, Port: port, Want: s.dev.Name(), WantPort: s.ibPort}
	}
	return nil
}

// addressFor returns the address of the device, or of the GID, that was asked for, in the family of
// the server's. None lets the kernel choose.
func (s *rdmaCM) addressFor(server netip.Addr) netip.Addr {
	table, err := s.dev.GIDTable()
	if err != nil {
		return netip.Addr{}
	}
	want, view := s.plan.Link.GIDIndex, newHere(table)
	for _, e := range table {
		a := e.GID.Addr().Unmap()
		if e.Port != s.ibPort || e.GID.IsLinkLocal() || a.Is4() != server.Is4() || a.IsUnspecified() {
			continue
		}
		here := want == e.Index || want == plan.Auto && !view.foreign(e.Port, e.Index)
		if s.port.LinkLayer == ibv.LinkEthernet && here {
			return a
		}
	}
	return netip.Addr{}
}

// makeQPs connects the queue pairs, between two meetings with the peer.
func (s *rdmaCM) makeQPs(qo ibv.QPOptions) error {
	p := &s.plan
	qp, err := s.newQP(0, &qo)
	if err == nil {
		err = qp.Close()
	}
	if err != nil {
		return err
	}
	if _, err := s.conn.Keys("meeting before the queue pairs", wire.Dest{}); err != nil {
		return err
	}
	opt := rdmacm.Options{PD: s.pd, QP: qo, Prepare: s.expectGreeting}
	if opt.RetryCount = p.Peer.RetryCount; p.Peer.RetryCount == 0 {
		opt.RetryCount = ibv.None
	}
	if p.Verb.Fetches() {
		opt.ResponderResources = s.setup.OutReads
	}
	for i := range p.Queues.QPs {
		step := fmt.Sprintf("connection of queue pair %d of %d", i+1, p.Queues.QPs)
		opt.SendCQ, opt.RecvCQ = s.queues(i).send, s.queues(i).recv
		conn, err := s.cm.QP(s.ctx, i, opt)
		if err != nil {
			return &wire.ExchangeError{Peer: s.conn.Peer(), Step: step, Err: err}
		}
		s.conns, s.qps = append(s.conns, conn), append(s.qps, conn.QP())
		if p.Transport == wire.UD {
			r, err := s.address(conn)
			if err != nil {
				return &wire.ExchangeError{Peer: s.conn.Peer(), Step: step, Err: err}
			}
			s.reaches = append(s.reaches, r)
		}
		gid, _ := conn.ID().GIDs()
		key, addr := s.exposed(i)
		s.own = append(s.own, wire.Dest{
			LID: s.port.LID, OutReads: uint16(s.setup.OutReads), QPN: conn.QP().Num(),
			RKey: key, VAddr: addr, GID: gid,
		})
	}
	s.setup.Local.Inline = qo.MaxInline
	s.cm.Ready()
	_, err = s.conn.Keys("meeting after the queue pairs", s.own[0])
	return err
}

// toward returns where the datagrams of a queue pair go.
func (s *rdmaCM) toward(i int) *reach {
	if s.reaches == nil {
		return nil
	}
	return &s.reaches[i]
}

// bringUp checks what rdma_cm connected when the queue pairs were made: they have to be those that the peer has
// announced. A request of another stock client might have come between them.
func (s *rdmaCM) bringUp() error {
	if s.plan.Transport == wire.UD || s.dev.Info().Transport == ibv.TransportIWARP {
		return nil // datagrams have no peer, and iWARP no numbers
	}
	var numbers []uint32
	for _, qp := range s.qps {
		a, err := qp.Query(ibv.MaskDestQPN)
		if err != nil {
			return err
		}
		numbers = append(numbers, a.DestQPN)
	}
	if i := unannounced(numbers, s.peer); i >= 0 {
		return &wire.ExchangeError{Peer: s.conn.Peer(), Step: fmt.Sprintf("queue pair %d of %d", i+1, len(s.qps)),
			Err: fmt.Errorf("%w: it is connected to queue pair %#06x, which the peer did not announce; another client "+
				"may have connected at the same time, give each its own port (-p)", wire.ErrStranger, numbers[i])}
	}
	return nil
}

// unannounced returns which of some queue pair numbers is first not among those that the peer has announced, each once,
// or -1. The order may be another.
func unannounced(numbers []uint32, announced []wire.Dest) int {
	left := slices.Clone(announced)
	for i, n := range numbers {
		at := slices.IndexFunc(left, func(d wire.Dest) bool { return d.QPN == n })
		if at < 0 {
			return i
		}
		left = slices.Delete(left, at, at+1)
	}
	return -1
}

// describe adds what rdma_cm chose.
func (s *rdmaCM) describe() {
	_, peer := s.conns[0].ID().GIDs()
	if a, err := s.qps[0].Query(ibv.MaskPathMTU); err == nil && a.PathMTU != 0 {
		s.setup.Local.MTU = a.PathMTU.Bytes()
	}
	s.setup.Local.GID = ibv.GID(s.own[0].GID).String()
	s.setup.Local.GIDIndex = s.gidIndex()
	s.setup.PeerGID = peer.String()
}

func (s *rdmaCM) lost() (int, error) {
	for i, conn := range s.conns {
		if why := conn.Err(); why != nil {
			return i, why
		}
	}
	return 0, nil
}

func (s *rdmaCM) closeQPs() error { return errors.Join(closeEach(s.cm), closeEach(s.conns...)) }

func (s *rdmaCM) closeListener() error { return closeEach(s.listener) }
