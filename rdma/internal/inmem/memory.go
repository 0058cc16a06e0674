package inmem

import (
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
)

// Adapter has memory, and what both ends of its connections share. It is safe for concurrent use.
type Adapter struct {
	// Granted are the sizes of each queue pair, which must not be more than New has set, nor be changed later.
	Granted ibv.QPCap

	iwarp    bool
	mu       sync.Mutex
	regions  map[uint32]*Memory // by key
	lastKey  uint32
	lastAddr uint64
	lastQPN  uint32
}

// Most that a work request has.
const (
	maxInline = 64
	maxSGE    = 2
)

// New returns an adapter.
func New() *Adapter {
	return &Adapter{regions: make(map[uint32]*Memory), lastKey: 0x100, lastAddr: 1 << 32, lastQPN: 0x10,
		Granted: ibv.QPCap{MaxSendWR: 1 << 15, MaxRecvWR: 1 << 15, MaxSendSGE: maxSGE, MaxRecvSGE: 1,
			MaxInline: maxInline}}
}

// NewIWARP returns an adapter with the rules of iWARP, and enforces more of them than siw does: a SEND that finds no
// receive ends the connection, the side that accepts is mute until a SEND has come, and memory that a READ fills needs
// RemoteWrite. It has no atomics.
func NewIWARP() *Adapter {
	a := New()
	a.iwarp = true
	return a
}

// Transport returns the protocol family whose rules hold.
func (a *Adapter) Transport() ibv.TransportType {
	if a.iwarp {
		return ibv.TransportIWARP
	}
	return ibv.TransportIB
}

// Memory is registered memory. Its addresses are not those of the process.
type Memory struct {
	a      *Adapter
	mem    []byte
	addr   uint64
	key    uint32
	access ibv.AccessFlags
}

// pageLen separates the addresses of registered memory.
const pageLen = 4096

// Register lets the adapter access mem, and the peer as access says.
func (a *Adapter) Register(mem []byte, access ibv.AccessFlags) *Memory {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastKey++
	m := &Memory{a: a, mem: mem, addr: a.lastAddr, key: a.lastKey, access: access}
	a.lastAddr += (uint64(len(mem)) + 2*pageLen) &^ (pageLen - 1)
	a.regions[m.key] = m
	return m
}

// Bytes returns the memory.
func (m *Memory) Bytes() []byte { return m.mem }

// Addr returns the address of the first byte.
func (m *Memory) Addr() uint64 { return m.addr }

// Len returns the number of bytes.
func (m *Memory) Len() int { return len(m.mem) }

// LKey returns the key, which is also the rkey.
func (m *Memory) LKey() uint32 { return m.key }

// Remote returns the address, key and length for the peer.
func (m *Memory) Remote() ibv.RemoteMemory {
	return ibv.RemoteMemory{Addr: m.addr, RKey: m.key, Length: uint64(len(m.mem))}
}

// Close takes the memory from the adapter. Nothing reads or writes it after that.
func (m *Memory) Close() error {
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	delete(m.a.regions, m.key)
	return nil
}

// at returns n bytes of registered memory, and reports whether the key permits the access to them.
// Preconditions: a.mu is held.
func (a *Adapter) at(key uint32, addr uint64, n int, access ibv.AccessFlags) ([]byte, bool) {
	m := a.regions[key]
	if m == nil || m.access&access != access || addr < m.addr {
		return nil, false
	}
	off, size := addr-m.addr, uint64(len(m.mem))
	if off > size || uint64(n) > size-off {
		return nil, false
	}
	return m.mem[off : off+uint64(n) : off+uint64(n)], true
}
