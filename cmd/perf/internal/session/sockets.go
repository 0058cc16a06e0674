package session

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// sockets is the way of perftest without -R: each end sends the numbers of its queue pairs and connects its own.
type sockets struct {
	*Session
	meeting
}

func (s *sockets) meet(waiting func(port int)) error {
	err := s.openPlanned()
	switch {
	case err != nil:
	case s.plan.Connects():
		s.Conn, err = s.dial()
	default:
		s.Conn, err = s.accept(waiting)
	}
	return err
}

func (s *sockets) makeQPs(qo ibv.QPOptions) error { return s.makeConnected(qo) }

func (s *sockets) bringUp() error {
	if err := s.checkPeer(); err != nil {
		return err
	}
	switch s.plan.Transport {
	case wire.UD, wire.SRD:
		return s.connectDatagrams()
	case wire.DC:
		return s.connectDC()
	}
	return s.connectPairs()
}

// checkPeer refuses pairs of addresses that no packet can travel between.
func (s *sockets) checkPeer() error {
	if !s.useGID() || s.plan.Multicast {
		return nil
	}
	own, peer := ibv.GID(s.own[0].GID), ibv.GID(s.peer[0].GID)
	if peer.IsZero() && s.port.GRHRequired() {
		return errors.New("the peer sent no GID; if it uses rdma_cm (-R), give -R to both ends")
	}
	if own.IsIPv4Mapped() != peer.IsIPv4Mapped() {
		return fmt.Errorf("the GID here is %v, that of the peer %v: one is IPv4, the other is not; "+
			"choose a matching pair with -x (show_gids lists them), or give --ipv6 to both or to none", own, peer)
	}
	return nil
}

func (s *sockets) describe() {
	if !s.useGID() {
		return
	}
	s.setup.Local.GID = s.localGID().String()
	s.setup.Local.GIDIndex = s.plan.Link.GIDIndex
	if s.plan.Link.GIDIndex == plan.Auto && s.shelf == nil {
		s.setup.Local.GIDIndex = s.gidIndex()
	}
	s.setup.PeerGID = ibv.GID(s.peer[0].GID).String()
}

func (s *sockets) closeQPs() error { return errors.Join(s.leave(), closeEach(s.qps...)) }
