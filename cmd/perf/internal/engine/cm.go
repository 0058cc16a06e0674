package engine

import (
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/cm"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// DeviceError is an address that leads to another device, or port, than the one
// that was asked for.
type DeviceError struct {
	Device   string // that the address leads to
	Port     uint8
	Want     string // as asked for
	WantPort uint8
}

// Error returns one line.
func (e *DeviceError) Error() string {
	return fmt.Sprintf("the address leads to %s port %d, not to %s port %d (-d, -i); give the address of that one to the client, or leave -d out", e.Device, e.Port, e.Want, e.WantPort)
}

// meetCM meets the peer by rdma_cm and opens the device that its address leads to.
// The listener, if there is one, has to be closed in any case.
func (s *session) meetCM(waiting func(port int)) (ln io.Closer, err error) {
	c := s.cfg
	opt := cm.Options{Timeout: c.Timeout, Patience: c.Patience, TOS: c.TClass}
	if c.QPTimeout != defaultQPTimeout {
		opt.AckTimeout = c.QPTimeout
	}
	role := wire.Client
	if c.Client() {
		if c.Device != "" {
			if err := s.openDevice(); err != nil {
				return nil, err
			}
			opt.Local = s.addressFor
		}
		if s.cm, err = cm.Dial(s.ctx, c.Host, c.Port, opt); err != nil {
			return nil, err
		}
		conn := s.cm.Conn()
		if err := s.useDevice(conn.PD().Device().Name(), conn.ID().Port()); err != nil {
			return nil, err
		}
	} else {
		role = wire.Server
		l, err := cm.Listen(s.ctx, c.Bind, c.Port, opt)
		if err != nil {
			return nil, err
		}
		ln = l
		if c.Device != "" {
			if err := s.openDevice(); err != nil {
				return ln, err
			}
		}
		if waiting != nil {
			waiting(l.Port())
		}
		if s.cm, err = l.Accept(s.ctx, s.useDevice); err != nil {
			return ln, err
		}
	}
	s.conn = wire.NewConn(s.ctx, s.cm, role, c.Timeout)
	s.conn.UseStructs()
	return ln, nil
}

// useDevice opens the device of the connection, unless it is open: then it has to
// be the same.
func (s *session) useDevice(device string, port uint8) error {
	c := s.cfg
	if s.dev != nil {
		if device != s.dev.Name() || port != c.IBPort {
			return &DeviceError{Device: device, Port: port, Want: s.dev.Name(), WantPort: c.IBPort}
		}
		return nil
	}
	c.Device, c.IBPort = device, port
	return s.openDevice()
}

// addressFor is the address of the device, or of the GID, that was asked for, in
// the family of the server's. None lets the kernel choose.
func (s *session) addressFor(server netip.Addr) netip.Addr {
	table, err := s.dev.GIDTable()
	if err != nil {
		return netip.Addr{}
	}
	for _, e := range table {
		a := e.GID.Addr().Unmap()
		if e.Port != s.cfg.IBPort || e.GID.IsLinkLocal() || a.Is4() != server.Is4() || a.IsUnspecified() {
			continue
		}
		if s.port.LinkLayer == ibv.LinkEthernet && (s.cfg.GIDIndex == Auto || s.cfg.GIDIndex == e.Index) {
			return a
		}
	}
	return netip.Addr{}
}

// connectCM connects the queue pairs, between two meetings with the peer.
func (s *session) connectCM(qo ibv.QPOptions) error {
	c := s.cfg
	if c.Inline == Auto {
		if qp, err := s.pd.CreateQP(s.scq, s.rcq, &qo); err != nil {
			qo.MaxInline = 0
		} else if err := qp.Close(); err != nil {
			return err
		}
	}
	if _, err := s.conn.Keys("meeting before the queue pairs", wire.Dest{}); err != nil {
		return err
	}
	opt := rdmacm.Options{PD: s.pd, SendCQ: s.scq, RecvCQ: s.rcq, QP: qo}
	if c.Verb == wire.Read {
		opt.ResponderResources = uint8(c.OutReads)
	}
	for i := range c.QPs {
		step := fmt.Sprintf("connection of queue pair %d of %d", i+1, c.QPs)
		conn, err := s.cm.QP(s.ctx, i, opt)
		if err != nil {
			return &wire.ExchangeError{Peer: s.conn.Peer(), Step: step, Err: err}
		}
		s.conns, s.qps = append(s.conns, conn), append(s.qps, conn.QP())
		gid, _ := conn.ID().GIDs()
		s.own = append(s.own, wire.Dest{
			LID: s.port.LID, OutReads: uint16(c.OutReads), QPN: conn.QP().Num(),
			RKey: s.mr.RKey(), VAddr: s.mr.Addr() + s.recvOff(i), GID: gid,
		})
	}
	c.Inline = qo.MaxInline
	s.cm.Ready()
	_, err := s.conn.Keys("meeting after the queue pairs", s.own[0])
	return err
}

// disconnected explains a failure of a queue pair whose connection the peer has
// ended: rdma_cm moves it to the error state then.
func (s *session) disconnected(err error) error {
	if err == nil || errors.Is(err, wire.ErrClosed) {
		return err
	}
	for i, conn := range s.conns {
		if why := conn.Err(); why != nil {
			return &wire.ExchangeError{Peer: s.conn.Peer(), Step: fmt.Sprintf("queue pair %d of %d", i+1, len(s.conns)),
				Err: fmt.Errorf("%w in the middle of the run: %w; %w", wire.ErrClosed, why, err)}
		}
	}
	return err
}

// describeCM tells what rdma_cm chose.
func (s *session) describeCM() {
	_, peer := s.conns[0].ID().GIDs()
	if a, err := s.qps[0].Query(ibv.MaskPathMTU); err == nil && a.PathMTU != 0 {
		s.setup.Local.MTU = a.PathMTU.Bytes()
	}
	s.setup.Local.GID = ibv.GID(s.own[0].GID).String()
	s.setup.Local.GIDIndex = s.gidIndex()
	s.setup.PeerGID = peer.String()
}
