package memory

import (
	"errors"
	"io"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/ibv"
)

// A place has room for messages. Each kind of memory is one, made by a function that allocates it.
type place interface {
	// register returns the registration, and by which address it names the first byte.
	register(pd *ibv.PD, access ibv.AccessFlags) (*ibv.MR, uint64, error)
	// bytes returns the memory, nil where the processor does not reach it.
	bytes() []byte
	io.ReaderAt
	io.WriterAt
	// free is called when the registration is closed.
	free() error
}

// Memory is registered memory. Its ReadAt and WriteAt copy.
type Memory struct {
	place
	mr   *ibv.MR
	null *ibv.MR // of what this end posts
	addr uint64
}

// Open allocates and registers memory, pages at a NUMA node.
func Open(pd *ibv.PD, size int, access ibv.AccessFlags, opt *plan.Memory, node ibv.NUMA) (*Memory, error) {
	p, err := allocate(pd, size, opt, node)
	if err != nil {
		return nil, err
	}
	if opt.OnDemand {
		access |= ibv.OnDemand
	}
	m := &Memory{place: p}
	if m.mr, m.addr, err = p.register(pd, access); err == nil && opt.Null {
		m.null, err = pd.AllocNullMR()
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func allocate(pd *ibv.PD, size int, opt *plan.Memory, node ibv.NUMA) (place, error) {
	switch opt.Kind {
	case plan.File:
		return mapFile(opt.File, opt.Offset, size)
	case plan.DeviceMemory:
		return allocDevice(pd, size)
	case plan.CUDA:
		return allocCUDA(size, opt)
	}
	p := &pages{size: size, implicit: opt.Implicit, opt: ibv.MemOptions{NUMA: node}}
	if opt.Kind == plan.HugePages {
		p.opt.HugePages = ibv.HugeRequire
	}
	return p, nil
}

// Bytes returns the memory, nil where the processor does not reach it.
func (m *Memory) Bytes() []byte { return m.bytes() }

// Addr returns the address of the first byte, in work requests and for the peer.
func (m *Memory) Addr() uint64 { return m.addr }

// LKey returns the key of what this end posts.
func (m *Memory) LKey() uint32 {
	if m.null != nil {
		return m.null.LKey()
	}
	return m.mr.LKey()
}

// SGE returns an SGE of n bytes from offset off.
func (m *Memory) SGE(off, n int) ibv.SGE {
	return ibv.SGE{Addr: m.addr + uint64(off), Length: uint32(n), LKey: m.LKey()}
}

// RKey returns the peer's key.
func (m *Memory) RKey() uint32 { return m.mr.RKey() }

// Close ends the registration and frees the memory.
func (m *Memory) Close() error {
	for _, mr := range []*ibv.MR{m.null, m.mr} {
		if mr == nil {
			continue
		}
		if err := mr.Close(); err != nil {
			return err // the device may still reach the memory
		}
	}
	return m.free()
}
