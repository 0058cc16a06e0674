package session

import (
	"fmt"
	"net"
	"os"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// Meets reports whether there is an exchange with the peer. Without one the steps with it do nothing.
func (s *Session) Meets() bool { return s.Conn != nil }

func (s *Session) peerName() string {
	if !s.Meets() {
		return net.HardwareAddr(s.plan.Frames.Peer[:]).String()
	}
	return s.Conn.Peer()
}

// cacheLine returns the length of a cache line of this host, if it is known.
func cacheLine() int {
	const usual = 64
	b, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size")
	if err != nil {
		return usual
	}
	var n int
	if _, err := fmt.Sscan(string(b), &n); err != nil || n < 16 || n > 1024 {
		return usual
	}
	return n
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

// queues returns the CQs of queue pair i.
func (s *Session) queues(i int) queues { return s.cqs[s.plan.Thread(i)] }

// connectOptions are those of all queue pairs.
func (s *Session) connectOptions() *ibv.ConnectOptions {
	p := &s.plan
	opt := &ibv.ConnectOptions{
		MTU:             s.mtu,
		PKeyIndex:       p.Link.PKeyIndex,
		AckTimeout:      ibv.TimeCode(p.Link.QPTimeout).Duration(),
		MaxDestRdAtomic: s.setup.OutReads,
		SL:              p.Link.SL,
		TrafficClass:    p.Link.TClass,
	}
	if p.Link.QPTimeout == 0 {
		opt.AckTimeout = ibv.None
	}
	return opt
}

// readsAt is how many reads and atomics may be outstanding at a peer.
func (s *Session) readsAt(d wire.Dest) int {
	return max(1, min(int(d.OutReads), s.attr.MaxQPInitRdAtom, plan.MaxOutReads))
}
