package session

import (
	"fmt"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/memory"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/payload"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

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

// region returns the memory that queue pair i has its areas in.
func (s *Session) region(i int) *memory.Memory { return s.mrs[min(i, len(s.mrs)-1)] }

// landing is the address of a receive area.
func (s *Session) landing(i int) uint64 { return s.region(i).Addr() + s.recvOff(i) }
