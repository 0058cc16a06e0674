package session

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// Setup returns what is agreed on so far.
func (s *Session) Setup() Setup { return s.setup }

func (s *Session) describe() {
	path, _ := s.cqs[0].send.DataPath()
	control, _ := s.dev.ControlPath()
	s.setup = Setup{
		Local: Side{
			Device: s.dev.Name(), Firmware: s.attr.FirmwareVersion, Port: s.plan.Link.IBPort,
			LinkLayer: s.port.LinkLayer.String(), RateGbps: s.port.RateGbps(), DataPath: path.String(),
			Native: control == ibv.ControlNative,
			LID:    s.own[0].LID, GIDIndex: -1, MTU: s.mtu.Bytes(), ActiveMTU: s.port.ActiveMTU.Bytes(),
			Inline: s.setup.Local.Inline, IWARP: s.dev.Info().Transport == ibv.TransportIWARP,
		},
		Place:       s.place,
		OutReads:    s.setup.OutReads,
		PeerAddress: s.peerName(),
		PeerVersion: s.terms.PeerVersion,
		PeerOurs:    s.terms.Ours,
		PeerLID:     s.peer[0].LID,
		UsesGID:     s.useGID(),
		Own:         s.own,
		Theirs:      s.peer,
		RDMACM:      s.plan.Peer.RDMACM,
		QPs:         s.plan.Queues.QPs,
		Infinite:    s.plan.Load.Infinite,
	}
	if s.shelf == nil { // what a mesh does not read, and what takes long
		s.setup.Local.Software = software(sysfs.DefaultRoot(), s.dev.Name(), s.attr.VendorID)
	}
	s.way.describe()
}

// gidIndex finds out which index was chosen.
func (s *Session) gidIndex() int {
	best := -1
	table, err := s.dev.GIDTable()
	if err != nil {
		return best
	}
	for _, e := range table {
		if e.Port == s.plan.Link.IBPort && e.GID == s.localGID() && (best < 0 || e.Type == ibv.GIDTypeRoCEv2) {
			best = e.Index
		}
	}
	return best
}
