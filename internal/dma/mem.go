package dma

import (
	"fmt"
	"sync"
	"syscall"
)

// Huge selects whether memory consists of huge pages of 2 MiB.
type Huge uint8

// The use of huge pages.
const (
	HugeNone    Huge = 0 // ordinary pages
	HugeTry     Huge = 1 // huge pages, or if there are too few, ordinary pages, which the kernel may merge
	HugeRequire Huge = 2 // huge pages, or a *HugePageError
)

// String returns the name, as in "require".
func (h Huge) String() string {
	if h > HugeRequire {
		return fmt.Sprintf("Huge(%d)", uint8(h))
	}
	return [...]string{"none", "try", "require"}[h]
}

// Options configures Alloc. The zero value selects ordinary pages on any node.
type Options struct {
	Huge Huge
	Node *int // the NUMA node to prefer, nil for any
}

// Mem is memory for DMA. It belongs to the caller of Alloc. Its methods are safe for concurrent
// use; the caller synchronises access to the bytes with the device. Free it only when no device
// uses it: the kernel keeps registered pages, but their address may then be reused.
type Mem struct {
	huge bool

	mu     sync.Mutex
	data   []byte // nil once freed
	addr   uintptr
	region region // the mapping, including the guards
}

// Alloc maps size zeroed bytes. opt may be nil. Ordinary pages are allocated when they are first
// touched. The error is a *SizeError, a *HugePageError, a *NodeError, or wraps the errno of mmap.
func Alloc(size int, opt *Options) (*Mem, error) {
	if opt == nil {
		opt = &Options{}
	}
	if size < 1 || size > maxSize {
		return nil, &SizeError{Size: size}
	}
	if opt.Huge > HugeRequire {
		return nil, fmt.Errorf("dma: invalid huge page choice %v: want none, try or require", opt.Huge)
	}
	if opt.Node != nil && (*opt.Node < 0 || *opt.Node >= maxNodes) {
		return nil, &NodeError{Node: *opt.Node, Online: onlineNodes(), Err: syscall.EINVAL}
	}
	return alloc(size, opt)
}

// Bytes returns the memory, with the requested length; nil once freed. A slice of it must not be
// used after Free: an access may end the process or corrupt other memory.
func (m *Mem) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data
}

// Addr returns the address of the first byte; 0 once freed.
func (m *Mem) Addr() uintptr {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.addr
}

// Huge reports whether the memory consists of huge pages.
func (m *Mem) Huge() bool { return m.huge }

// Free frees the memory. Later calls do nothing, as a call on a nil Mem does. If it fails, the memory is still mapped
// and Free may be called again.
func (m *Mem) Free() error {
	if m == nil {
		return nil
	}
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
