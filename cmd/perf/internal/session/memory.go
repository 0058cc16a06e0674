package session

import (
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
	open := s.newMemory
	if s.shelf != nil && len(s.mrs) == 0 {
		open = s.shelved
	}
	m, err := open(room{size, access, node})
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

// access has the operations that the peer may do to the memory. Not every device has atomics.
func (s *Session) access() ibv.AccessFlags {
	if s.plan.Verb == wire.Atomic {
		return ibv.LocalWrite | ibv.RemoteWrite | ibv.RemoteRead | ibv.RemoteAtomic
	}
	return ibv.LocalWrite | ibv.RemoteWrite | ibv.RemoteRead
}

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
