package session

import (
	"fmt"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/memory"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/payload"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// allocate makes the memory: a send area and a receive area for each queue pair.
func (s *Session) allocate() error {
	slot, total, err := areasWith(s.terms, &s.plan, s.alone)
	if err != nil {
		return &wire.ExchangeError{Peer: s.peerName(), Step: "memory", Err: err}
	}
	s.slot = slot
	if s.pd, err = s.allocPD(); err != nil {
		return err
	}
	n := 1
	if s.plan.Queues.MRPerQP {
		n = s.plan.Queues.QPs
	}
	for range n {
		if err := s.openMemory(total / uint64(n)); err != nil {
			return err
		}
	}
	return nil
}

// openMemory makes memory of the kind that was asked for.
func (s *Session) openMemory(size uint64) error {
	access := s.access()
	if s.plan.Relaxed() {
		access |= ibv.RelaxedOrdering
	}
	node := ibv.NUMADevice
	switch {
	case s.plan.Place.NoPin:
		node = ibv.NUMAAny
	case s.plan.Place.Node != plan.Auto:
		node = ibv.NUMANode(s.plan.Place.Node)
	}
	if s.shelf != nil && len(s.mrs) == 0 {
		m, err := s.shelved(room{size, access, node})
		if err == nil {
			s.mrs = append(s.mrs, m)
		}
		return err
	}
	m, err := memory.Open(s.pd, int(size), access, &s.plan.Memory, node)
	if err == nil {
		s.mrs = append(s.mrs, m)
	}
	return err
}

// checkPaging refuses memory on demand that the device does not have for this test.
func (s *Session) checkPaging() error {
	p := &s.plan
	if !p.Memory.OnDemand {
		return nil
	}
	var ops ibv.ODPOps
	switch p.Verb {
	case wire.Write:
		ops = ibv.ODPWrite
	case wire.WriteImm:
		ops = ibv.ODPWrite // its receives have no memory
	case wire.Read:
		ops = ibv.ODPRead
	case wire.Atomic:
		ops = ibv.ODPAtomic
	default:
		if p.Sends() {
			ops |= ibv.ODPSend
		}
		if p.Shares() {
			ops |= ibv.ODPSRQRecv
		} else if p.Receives() {
			ops |= ibv.ODPRecv
		}
	}
	return memory.CheckPaging(s.dev.Name(), s.attr, p.QPType(), ops, p.Memory.Implicit)
}

// region returns the memory that queue pair i has its areas in.
func (s *Session) region(i int) *memory.Memory { return s.mrs[min(i, len(s.mrs)-1)] }

// landing is the address of a receive area.
func (s *Session) landing(i int) uint64 { return s.region(i).Addr() + s.recvOff(i) }

// access has the operations that the peer may do to the memory. Not every device has atomics.
func (s *Session) access() ibv.AccessFlags {
	if s.plan.Verb == wire.Atomic {
		return ibv.LocalWrite | ibv.RemoteWrite | ibv.RemoteRead | ibv.RemoteAtomic
	}
	return ibv.LocalWrite | ibv.RemoteWrite | ibv.RemoteRead
}

// mostForPeer is how much more memory than without it a peer may make this end allocate.
const mostForPeer = 256 << 20

// A PeerMemoryError is a peer that would make this end allocate too much: by its pages, or by the queue pairs and sizes
// that this end takes from it.
type PeerMemoryError struct {
	PageSize int // of the peer
	QPs      int
	Size     uint64
	Bytes    uint64 // that the test would take
	Own      uint64 // that it would take as this end was started, with the pages of this machine
}

// Error returns one line.
func (e *PeerMemoryError) Error() string {
	return fmt.Sprintf("%d queue pairs (-q) of %d bytes (-s) and the peer's pages of %d bytes take %d bytes of "+
		"memory, %d more than this end alone; allowed: %d more; give this end the same -q and -s, or use fewer queue "+
		"pairs (-q)",
		e.QPs, e.Size, e.PageSize, e.Bytes, e.Bytes-e.Own, mostForPeer)
}

// areas returns how many bytes one send or receive area takes, and all of them, with pages and cache lines of these
// lengths.
func areas(p *plan.Plan, page, line int) (slot, total uint64, err error) {
	const most = 1 << 40
	n := 2 * uint64(p.Queues.QPs)
	if p.Load.Size > most/n {
		return 0, 0, fmt.Errorf("%d queue pairs (-q) of %d bytes (-s) take more than %d bytes of memory", p.Queues.QPs,
			p.Load.Size,
			uint64(most))
	}
	slot = payload.RoundUp(p.Arrives(p.Load.Size), uint64(line))
	if p.Transport == wire.RawEth {
		slot *= uint64(p.Frames.Kinds())
	}
	slot = payload.RoundUp(max(slot, uint64(page)), uint64(line))
	total = slot * n
	if total > most {
		return 0, 0, fmt.Errorf("%d queue pairs of %d bytes need %d bytes of memory", p.Queues.QPs, p.Load.Size, total)
	}
	return slot, total, nil
}

// areasWith is areas with a peer, whose pages and wishes are bounded. own has the bytes of this end alone.
func areasWith(terms wire.Agreed, p *plan.Plan, own uint64) (slot, total uint64, err error) {
	slot, total, err = areas(p, terms.PageSize, terms.CacheLine)
	if err == nil && total > own+mostForPeer {
		return 0, 0, &PeerMemoryError{terms.PageSize, p.Queues.QPs, p.Load.Size, total, own}
	}
	return slot, total, err
}

// sendOff and recvOff are where the areas of queue pair i are in its region.
func (s *Session) sendOff(i int) uint64 {
	if s.plan.Queues.MRPerQP {
		return 0
	}
	return 2 * uint64(i) * s.slot
}

func (s *Session) recvOff(i int) uint64 { return s.sendOff(i) + s.slot }

// SendArea returns the memory that queue pair i sends from, or reads to. The processor has to reach it.
func (s *Session) SendArea(i int) []byte { return s.region(i).Bytes()[s.sendOff(i):][:s.slot] }

// RecvArea returns the memory of queue pair i for the peer's messages, or for its reads. The processor has to reach it.
func (s *Session) RecvArea(i int) []byte { return s.region(i).Bytes()[s.recvOff(i):][:s.slot] }

// Payload returns what is repeated in the memory that queue pair i sends from.
func (s *Session) Payload(i int) []byte {
	if p := s.plan.Payload; p != nil {
		return p[:min(uint64(len(p)), s.plan.Load.Size)] // as perftest
	}
	return payload.Pattern(i)
}

// fill puts the payload where the verb takes it from.
func (s *Session) fill() error {
	area, at := s.sendOff, s.SendArea
	if s.plan.Verb.Fetches() {
		area, at = s.recvOff, s.RecvArea
	}
	for i := range s.plan.Queues.QPs {
		if !s.plan.Memory.OutOfReach() {
			payload.Fill(at(i), s.Payload(i))
			continue
		}
		b := make([]byte, s.slot)
		payload.Fill(b, s.Payload(i))
		if _, err := s.region(i).WriteAt(b, int64(area(i))); err != nil {
			return err
		}
	}
	return nil
}

// Landed returns what the peer's payload has left here.
func (s *Session) Landed(i int) ([]byte, error) {
	area, at := s.recvOff, s.RecvArea
	if s.plan.Verb.Fetches() {
		area, at = s.sendOff, s.SendArea
	}
	if !s.plan.Memory.OutOfReach() {
		return at(i), nil
	}
	b := make([]byte, s.slot)
	_, err := s.region(i).ReadAt(b, int64(area(i)))
	return b, err
}

// Pair is one queue pair with the addresses that its messages have.
type Pair struct {
	QP      *ibv.QP
	AH      *ibv.AH // UD, DC: the peer's address
	DCKey   uint64  // DC
	QKey    uint32  // UD, SRD
	PeerQPN uint32
	SRQ     *ibv.SRQ // of its receives, if they are shared
	SRQN    uint32   // XRC: the peer's

	Local   uint64 // what is sent, or read to
	Landing uint64 // where the peer's messages arrive
	LKey    uint32
	Remote  uint64 // the peer's Landing
	RKey    uint32
	Credit  *Credit // nil: messages need none
}

// Pairs lists the queue pairs.
func (s *Session) Pairs() []Pair {
	out := make([]Pair, s.plan.Queues.QPs)
	for i := range out {
		peer := &s.peer[s.plan.Partner(i)]
		out[i] = Pair{
			QP: s.qps[i], PeerQPN: peer.QPN, QKey: ibv.DefaultQKey, SRQ: s.srq, SRQN: peer.SRQN,
			Local: s.region(i).Addr() + s.sendOff(i), Landing: s.landing(i), LKey: s.region(i).LKey(),
			Remote: peer.VAddr, RKey: peer.RKey, Credit: s.credit(i),
		}
		if r := s.way.toward(i); r != nil {
			out[i].AH, out[i].PeerQPN, out[i].QKey = r.ah, r.qpn, r.qkey
		} else if s.ahs != nil {
			out[i].AH = s.ahs[i]
		}
		if s.plan.Transport == wire.DC {
			out[i].DCKey = dcKey
		}
	}
	return out
}
