package session

import (
	"github.com/pureverbs/pureverbs/cmd/perf/internal/place"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// Side describes one end of a test.
type Side struct {
	Device    string // empty for the peer, and before the queue pairs are connected
	Firmware  string
	Port      uint8
	LinkLayer string
	RateGbps  float64 // 0: not known
	DataPath  string
	Native    bool // the control path uses no C library
	LID       uint16
	GIDIndex  int // -1: none
	GID       string
	MTU       int    // bytes, of the path
	ActiveMTU int    // of the port
	Inline    int    // bytes; plan.Auto before the queue pairs are made
	Software  string // the note about a device that is none, "" for a NIC
	IWARP     bool
}

// Setup has the values that the two ends and their devices agreed on.
type Setup struct {
	Local       Side
	Place       place.Place
	OutReads    int // outstanding reads
	PeerAddress string
	PeerVersion string
	PeerOurs    bool
	PeerGID     string
	PeerLID     uint16
	UsesGID     bool        // the ends address each other by GIDs
	Own, Theirs []wire.Dest // the queue pairs of this end and of the peer
	RDMACM      bool
	QPs         int  // as this end's plan has them, or as its peer asked
	Infinite    bool // the same
}

// Setup returns what is agreed on so far.
func (s *Session) Setup() Setup { return s.setup }

func (s *Session) describe() {
	path, _ := s.cqs[0].send.DataPath()
	control, _ := s.dev.ControlPath()
	s.setup = Setup{
		Local: Side{
			Device: s.dev.Name(), Firmware: s.attr.FirmwareVersion, Port: s.ibPort,
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

// useGID reports whether the ends address each other by GIDs.
func (s *Session) useGID() bool {
	return s.port.GRHRequired() || s.plan.Link.GIDIndex != plan.Auto
}

// peerAt is the peer's queue pair as it has announced it.
func (s *Session) peerAt(d wire.Dest) ibv.Endpoint {
	e := ibv.Endpoint{QPN: d.QPN, PSN: d.PSN, LID: d.LID, GID: d.GID, MTU: s.mtu}
	e.GRH = s.useGID() && !e.GID.IsZero()
	return e
}

// gidIndex finds out which index was chosen.
func (s *Session) gidIndex() int {
	best := -1
	table, err := s.dev.GIDTable()
	if err != nil {
		return best
	}
	for _, e := range table {
		if e.Port == s.ibPort && e.GID == s.localGID() && (best < 0 || e.Type == ibv.GIDTypeRoCEv2) {
			best = e.Index
		}
	}
	return best
}
