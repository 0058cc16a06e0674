package pool

import (
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
)

// What follows is for the tests of packages above this one.

// Fake returns a pool that has one buffer, of 64 bytes, and no host.
func Fake() *Pool {
	p := &Pool{freed: make(chan struct{})}
	p.classes[0].free = []*Buf{FakeBuf(p)}
	return p
}

// FakeBuf returns a buffer of 64 bytes that is not registered.
func FakeBuf(p *Pool) *Buf { return &Buf{Pool: p, slab: &slab{all: 1, free: 1}, Mem: make([]byte, 64)} }

// TakeFake returns the buffer of a Fake.
func (p *Pool) TakeFake() Handle {
	b, _ := p.begin(0)
	return b.handOut(64)
}

// Pins returns how many uses the buffer has.
func (b *Buf) Pins() int { return int(b.pins.Load()) }

// SetPins sets how many uses the buffer has.
func (b *Buf) SetPins(n int) { b.pins.Store(int32(n)) }

// Wrap has the memory of a buffer be what f returns for it.
func (b *Buf) Wrap(f func(nic.Memory) nic.Memory) { b.slab.mr = f(b.slab.mr) }
