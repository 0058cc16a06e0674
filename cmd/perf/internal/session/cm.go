package session

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// meet meets the peer by rdma_cm and opens the device that its address leads to.
func (s *rdmaCM) meet(waiting func(port int)) (err error) {
	p, opt := &s.plan, s.options()
	opt.TOS, opt.Datagrams = p.Link.TClass, p.Transport == wire.UD
	if p.Link.QPTimeout != plan.DefaultQPTimeout {
		opt.AckTimeout = p.Link.QPTimeout
	}
	if p.Connects() {
		if err = s.openNamed(); err != nil {
			return err
		}
		if p.Link.Device != "" && opt.Local == nil {
			opt.Local = s.addressFor
		}
		s.Conn, err = s.connect(opt)
	} else {
		s.Conn, err = s.listen(opt, s.openNamed, func(device string, port uint8) error {
			if s.dev == nil { // what is no client may lead to another one
				return nil
			}
			return s.useDevice(device, port)
		}, waiting)
	}
	if err != nil {
		return err
	}
	conn := s.cm.Conn()
	if err := s.useDevice(conn.PD().Device().Name(), conn.ID().Port()); err != nil {
		return err
	}
	if !s.dev.Info().Transport.SendsAcked() {
		s.Conn.Unacked()
	}
	return nil
}

// openNamed opens the device that was asked for, if one was.
func (s *rdmaCM) openNamed() error {
	if s.plan.Link.Device == "" {
		return nil
	}
	return s.openPlanned()
}

// useDevice opens the device of the connection, unless it is open: then it has to be the same.
func (s *rdmaCM) useDevice(device string, port uint8) error {
	if s.dev == nil {
		return s.openDevice(device, port)
	}
	if device != s.dev.Name() || port != s.plan.Link.IBPort {
		return fmt.Errorf("the address leads to %s port %d, not to %s port %d (-d, -i); give the address of that one "+
			"to the client, or leave -d out", device, port, s.dev.Name(), s.plan.Link.IBPort)
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
		if e.Port != s.plan.Link.IBPort || e.GID.IsLinkLocal() || a.Is4() != server.Is4() || a.IsUnspecified() {
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
	if _, err := s.Conn.Keys("meeting before the queue pairs", wire.Dest{}); err != nil {
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
			return &wire.ExchangeError{Peer: s.Conn.Peer(), Step: step, Err: err}
		}
		s.conns, s.qps = append(s.conns, conn), append(s.qps, conn.QP())
		if p.Transport == wire.UD {
			r, err := s.address(conn)
			if err != nil {
				return &wire.ExchangeError{Peer: s.Conn.Peer(), Step: step, Err: err}
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
	_, err = s.Conn.Keys("meeting after the queue pairs", s.own[0])
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
		return &wire.ExchangeError{Peer: s.Conn.Peer(), Step: fmt.Sprintf("queue pair %d of %d", i+1, len(s.qps)),
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
