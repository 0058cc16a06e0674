package link

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
)

// scratchMem is memory of a connection for what has no other: see sendq.PutScratch.
type scratchMem struct {
	mem []byte
	at  ibv.SGE
}

// scratches has the scratch memory that no connection uses. Several are registered at a time, and kept until the engine
// is closed. They do not count as EngineOptions.Memory: blocks may have all of that.
type scratches struct {
	mu    sync.Mutex
	free  []scratchMem
	slabs []nic.Memory
}

const scratchSlab = 32 * sendq.ScratchLen

// get returns scratch memory.
func (s *scratches) get(nic nic.Adapter) (scratchMem, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		mr, err := nic.Alloc(scratchSlab, ibv.LocalWrite, nil)
		if err != nil {
			return scratchMem{}, fmt.Errorf("%w: %w", pool.ErrNoMemory, err)
		}
		s.slabs = append(s.slabs, mr)
		for at := 0; at < scratchSlab; at += sendq.ScratchLen {
			s.free = append(s.free, scratchMem{mr.Bytes()[at:][:sendq.ScratchLen:sendq.ScratchLen],
				ibv.SGE{Addr: mr.Addr() + uint64(at), LKey: mr.LKey()}})
		}
	}
	last := len(s.free) - 1
	got := s.free[last]
	s.free = s.free[:last]
	return got, nil
}

func (s *scratches) put(c scratchMem) {
	s.mu.Lock()
	s.free = append(s.free, c)
	s.mu.Unlock()
}

// release closes the memory.
func (s *scratches) release() error {
	var errs []error
	for _, mr := range slices.Backward(s.slabs) {
		errs = append(errs, mr.Close())
	}
	return errors.Join(errs...)
}
