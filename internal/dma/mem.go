package dma

import (
	"fmt"
	"math"
	"sync"
	"syscall"
)

// Huge says whether memory is to be made of huge pages, of 2 MiB.
type Huge uint8

// What to do about huge pages.
const (
	HugeNone    Huge = 0 // ordinary pages
	HugeTry     Huge = 1 // huge pages; where the kernel has too few, ordinary pages, which it may join into huge ones
	HugeRequire Huge = 2 // huge pages, or a *HugePageError
)

// String names the choice.
func (h Huge) String() string {
	switch h {
	case HugeNone:
		return "none"
	case HugeTry:
		return "try"
	case HugeRequire:
		return "require"
	}
	return fmt.Sprintf("Huge(%d)", uint8(h))
}

// Options are the choices of Alloc. The zero value is ordinary pages wherever
// the kernel likes.
type Options struct {
	Huge Huge
	Node *int // the NUMA node to prefer, nil for wherever the kernel likes
}

// Mem is memory for DMA. It belongs to whoever made it. Its methods are safe for
// concurrent use; the bytes are for the caller to synchronise with the device.
// The owner frees it when no device uses it any more: the kernel keeps pages that
// are registered, but at an address that then may be someone else's.
type Mem struct {
	huge bool

	mu     sync.Mutex
	data   []byte // nil once freed
	addr   uintptr
	region region // what was mapped, with the guards
}

const (
	hugePageSize = 2 << 20
	maxSize      = math.MaxInt - 4*hugePageSize // leaves room for guards and rounding
)

// Alloc maps size zeroed bytes. opt may be nil. The memory is reserved, but
// ordinary pages come only as they are touched. Errors are *SizeError,
// *HugePageError, *NodeError, or the errno of mmap, wrapped.
func Alloc(size int, opt *Options) (*Mem, error) {
	if opt == nil {
		opt = &Options{}
	}
	if size < 1 || size > maxSize {
		return nil, &SizeError{Size: size}
	}
	if opt.Huge > HugeRequire {
		return nil, fmt.Errorf("dma: %v is none of none, try, require", opt.Huge)
	}
	if opt.Node != nil && (*opt.Node < 0 || *opt.Node >= maxNodes) {
		return nil, &NodeError{Node: *opt.Node, Online: onlineNodes(), Err: syscall.EINVAL}
	}
	return alloc(size, opt)
}

// Bytes is the memory, as long as was asked for; nil once freed. A slice of it
// must not be used after Free: that is a fault, or worse.
func (m *Mem) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data
}

// Addr is the address of the first byte; 0 once freed.
func (m *Mem) Addr() uintptr {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.addr
}

// Huge tells whether the memory is made of huge pages.
func (m *Mem) Huge() bool { return m.huge }

// Free gives the memory back. Later calls do nothing. When it fails, the memory
// is still there and Free may be called again.
func (m *Mem) Free() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == nil {
		return nil
	}
	if err := m.region.unmap(); err != nil {
		return fmt.Errorf("dma: free %d bytes: %w", len(m.data), err)
	}
	m.data, m.addr = nil, 0
	return nil
}
