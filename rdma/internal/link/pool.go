package link

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// Alloc implements pool.Host, as the next methods, Trim and Name do.
func (e *Engine) Alloc(n int) (nic.Memory, error) {
	return e.NIC.Alloc(n, e.bufferAccess(), &e.Options.MemOptions)
}

func (e *Engine) Register(mem []byte) (nic.Memory, error) {
	return e.NIC.Register(mem, e.bufferAccess())
}

// Hurry asks for the completions of all sends from buffers.
func (e *Engine) Hurry() {
	for _, l := range e.all() {
		l.collect(sendq.Buffers)
	}
}

func (e *Engine) Wait(b turn.Bound, ch <-chan struct{}) error {
	return e.Shards[0].Progress.Wait(b, ch)
}

func (e *Engine) Kept() (n int64) {
	for _, s := range e.Shards {
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
