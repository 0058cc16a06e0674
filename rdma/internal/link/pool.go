package link

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// poolHost is an engine as its pool sees it.
type poolHost Engine

// newPool returns the pool of an engine whose options are complete.
func newPool(e *Engine) *pool.Pool {
	return pool.New((*poolHost)(e), pool.Options{Memory: e.Options.Memory, Slab: SlabSize, Budget: e.Budget,
		Huge: e.Options.MemOptions.HugePages != ibv.HugeNone})
}

func (h *poolHost) Alloc(n int) (nic.Memory, error) {
	return h.NIC.Alloc(n, (*Engine)(h).bufferAccess(), &h.Options.MemOptions)
}

func (h *poolHost) Register(mem []byte) (nic.Memory, error) {
	return h.NIC.Register(mem, (*Engine)(h).bufferAccess())
}

func (h *poolHost) Trim(wait bool) bool { return (*Engine)(h).Trim(wait) }
func (h *poolHost) Hurry()              { (*Engine)(h).hurry() }
func (h *poolHost) Name() string        { return (*Engine)(h).Name() }

func (h *poolHost) Wait(b turn.Bound, ch <-chan struct{}) error {
	return h.Shards[0].Progress.Wait(b, ch)
}

func (h *poolHost) Kept() (n int64) {
	for _, s := range h.Shards {
		n += int64(s.keep()) * s.slabBytes
	}
	return n
}

// bufferAccess are the rights of the memory of buffers.
func (e *Engine) bufferAccess() ibv.AccessFlags {
	if e.Windows != nil {
		return ibv.LocalWrite | ibv.MWBind
	}
	return ibv.LocalWrite
}
