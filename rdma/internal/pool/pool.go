// Package pool has the registered memory of buffers, and knows which of it is in use.
package pool

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// ErrNoMemory means that the engine's memory, or what the process may lock, does not admit a buffer.
var ErrNoMemory = errors.New("no memory")

// Pool has the buffers of an engine: memory that is registered for longer than a message is under way. It gives them
// out in sizes of powers of two; those beyond 4 MiB are registered one by one. It is safe for concurrent use.
type Pool struct {
	host Host
	opt  Options

	mu      sync.Mutex
	classes [maxClass + 1]class
	out     int           // buffers that were not given back
	waiting atomic.Int32  // goroutines in GetWait; changes under mu
	freed   chan struct{} // closed when memory was given back, for those
	closed  bool
	stuck   []nic.Memory // that could not be closed
	unused  int          // slabs without a buffer in use

	trimming sync.Mutex // before mu

	Closing sync.WaitGroup // what Close waits for, such as buffers with an MR of their own that are being closed
}

// class has the buffers of a size.
type class struct {
	free  []*Buf
	slabs []*slab
}

// slab is memory of some buffers.
type slab struct {
	mr    nic.Memory
	class int
	all   int // buffers
	free  int // of them
}

// New returns a pool without memory.
func New(host Host, opt Options) *Pool {
	return &Pool{host: host, opt: opt, freed: make(chan struct{})}
}

const (
	Smallest  = 256       // bytes of the buffers of class 0
	Largest   = 4 << 20   // one that is longer has memory of its own
	maxClass  = 14        // Smallest << maxClass is Largest
	smallSlab = 256 << 10 // the least that is registered for several buffers
	hugePage  = 2 << 20   // the same, with huge pages
)

// noClass is the class of buffers with memory of their own.
const noClass = maxClass + 1

// sizeClass returns the class of buffers of n bytes, above maxClass if they have memory of their own.
func sizeClass(n int) int { return bits.Len(uint((n - 1) / Smallest)) }

// Get returns a buffer of n bytes with arbitrary content. If the engine's memory is spent, the error matches
// ErrNoMemory.
func (p *Pool) Get(n int) (Handle, error) {
	b, err := p.take(n)
	if err == errSpent {
		p.host.Hurry() // for callers that try again
		err = fmt.Errorf("%w: %w", ErrNoMemory, &ibv.LimitError{What: "bytes of blocks and buffers",
			Asked: uint64(p.opt.Budget.Used()) + uint64(n), Limit: uint64(p.opt.Memory), Where: "EngineOptions.Memory"})
	}
	return b, p.fail("get buffer", err)
}

// GetWait is Get, but while the engine's memory is spent it waits until some is given back.
func (p *Pool) GetWait(ctx context.Context, n int) (Handle, error) {
	w := turn.Bound{Ctx: ctx}
	if err := w.Expired(); err != nil {
		return Handle{}, err
	}
	b, err := p.take(n)
	for err == errSpent {
		freed := p.await()
		p.host.Hurry()
		if b, err = p.take(n); err == errSpent { // else it was given back meanwhile
			if err := p.host.Wait(w, freed); err != nil {
				p.awaited()
				return Handle{}, err
			}
		}
		p.awaited()
	}
	return b, p.fail("get buffer", err)
}

// await returns a channel that is closed when memory is given back.
func (p *Pool) await() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting.Add(1)
	return p.freed
}

// awaited ends await.
func (p *Pool) awaited() {
	p.mu.Lock()
	p.waiting.Add(-1)
	p.mu.Unlock()
}

// Wake wakes the goroutines that wait for memory.
func (p *Pool) Wake() {
	p.mu.Lock()
	p.gotBack()
	p.mu.Unlock()
}

// gotBack is Wake.
// Preconditions: p.mu is held.
func (p *Pool) gotBack() {
	if p.waiting.Load() > 0 {
		close(p.freed)
		p.freed = make(chan struct{})
	}
}

// Register makes a buffer of the caller's memory. It does not count as the engine's memory.
func (p *Pool) Register(mem []byte) (Handle, error) {
	const op = "register buffer"
	if _, err := p.begin(noClass); err != nil {
		return Handle{}, p.fail(op, err)
	}
	mr, err := p.host.Register(mem)
	if err != nil {
		p.end()
		return Handle{}, p.fail(op, err)
	}
	b := &Buf{Pool: p, MR: mr, LKey: mr.LKey(), Mem: mem, Addr: mr.Addr()}
	return b.handOut(len(mem)), nil
}

// Name returns the name of the device that the pool is of.
func (p *Pool) Name() string { return p.host.Name() }

// Wanted reports whether goroutines wait for memory.
func (p *Pool) Wanted() bool { return p.waiting.Load() > 0 }

// Charge counts n bytes as the engine's memory, and reports whether there is room for them.
func (p *Pool) Charge(n int64) bool { return n == 0 || p.opt.Budget.AddBuffers(n) }

// Uncharge undoes Charge.
func (p *Pool) Uncharge(n int64) {
	if n > 0 {
		p.Spare(n)
	}
}

// begin counts a buffer that is about to be given out, so that the engine stays open. It returns a free one of the
// class, or nil.
func (p *Pool) begin(class int) (*Buf, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ibv.ErrClosed
	}
	p.out++
	if class > maxClass {
		return nil, nil
	}
	return p.pop(class), nil
}

// end undoes begin.
func (p *Pool) end() {
	p.mu.Lock()
	p.out--
	p.mu.Unlock()
}

func (p *Pool) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &ibv.OpError{Op: op, Object: "engine of " + p.host.Name(), Err: err}
}

// errSpent means that the memory of the engine is used up.
var errSpent = errors.New("spent")

func (p *Pool) take(n int) (Handle, error) {
	if n < 0 {
		return Handle{}, &ibv.ArgError{Arg: "n", Got: fmt.Sprint(n), Want: "0 bytes or more"}
	}
	if int64(n) > p.opt.Memory-blocks.Headroom {
		return Handle{}, fmt.Errorf("%w: %w", ErrNoMemory, &ibv.LimitError{What: "bytes of a buffer", Asked: uint64(n),
			Limit: uint64(p.opt.Memory - blocks.Headroom), Where: "EngineOptions.Memory"})
	}
	b, err := p.begin(sizeClass(n))
	if err != nil {
		return Handle{}, err
	}
	if b == nil {
		if n > Largest {
			b, err = p.alone(n)
		} else {
			b, err = p.addSlab(sizeClass(n))
		}
		if err != nil {
			p.end()
			return Handle{}, err
		}
	}
	return b.handOut(n), nil
}

// pop returns a free buffer of a class, or nil.
// Preconditions: p.mu is held.
func (p *Pool) pop(class int) *Buf {
	c := &p.classes[class]
	last := len(c.free) - 1
	if last < 0 {
		return nil
	}
	b := c.free[last]
	c.free[last], c.free = nil, c.free[:last]
	if b.slab.free == b.slab.all {
		p.unused--
	}
	b.slab.free--
	return b
}

// addSlab registers memory for more buffers of a class, and returns one. The lock is not held meanwhile: others go on.
func (p *Pool) addSlab(class int) (*Buf, error) {
	stride, least := Smallest<<class+blocks.Headroom, smallSlab
	if p.opt.Huge {
		least = hugePage
	}
	s := &slab{class: class, all: max(min(max(32*stride, least), p.opt.Slab)/stride, 1)}
	mr, err := p.alloc(s.all * stride)
	if err != nil && s.all > 1 { // at least a single one
		s.all = 1
		mr, err = p.alloc(stride)
	}
	if err != nil {
		return nil, err
	}
	s.mr, s.free = mr, s.all
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.classes[class]
	c.slabs = append(c.slabs, s)
	p.unused++
	buffers := make([]Buf, s.all)
	for i := range buffers {
		at := i * stride
		b := &buffers[i]
		b.Pool, b.MR, b.LKey, b.slab, b.Mem = p, mr, mr.LKey(), s, mr.Bytes()[at:at+stride:at+stride]
		b.start, b.Addr = blocks.Headroom, mr.Addr()+uint64(at+blocks.Headroom)
		c.free = append(c.free, b)
	}
	return p.pop(class), nil
}

// alone returns a buffer with its own MR.
func (p *Pool) alone(n int) (*Buf, error) {
	mr, err := p.alloc(n + blocks.Headroom)
	if err != nil {
		return nil, err
	}
	return &Buf{Pool: p, MR: mr, LKey: mr.LKey(), Mem: mr.Bytes(), start: blocks.Headroom,
		Addr: mr.Addr() + blocks.Headroom}, nil
}

// alloc registers n bytes. If the engine's memory is used up, it first frees memory that other sizes do not use.
func (p *Pool) alloc(n int) (nic.Memory, error) {
	if !p.opt.Budget.AddBuffers(int64(n)) {
		p.host.Trim(true)
		if !p.opt.Budget.AddBuffers(int64(n)) {
			return nil, p.spent(int64(n))
		}
	}
	mr, err := p.host.Alloc(n)
	if err != nil && p.host.Trim(true) { // the process may not lock more
		mr, err = p.host.Alloc(n)
	}
	if err != nil {
		p.Spare(int64(n))
		return nil, fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	return mr, nil
}

// spent is the error of n bytes that there is no room for: errSpent if there can be, and waiting helps.
func (p *Pool) spent(n int64) error {
	if most := p.opt.Memory - p.host.Kept(); n > most {
		return fmt.Errorf("%w: %w", ErrNoMemory, &ibv.LimitError{What: "bytes of a buffer", Asked: uint64(n),
			Limit: uint64(max(most, 0)), Where: "EngineOptions.Memory, less the blocks that connections begin with"})
	}
	return errSpent
}

// Trim frees the slabs without a buffer in use, and reports whether there were some. With wait it returns after others
// that trim.
func (p *Pool) Trim(wait bool) bool {
	if wait {
		p.trimming.Lock()
	} else if !p.trimming.TryLock() {
		return false
	}
	defer p.trimming.Unlock()
	p.mu.Lock()
	if p.unused == 0 {
		p.mu.Unlock()
		return false
	}
	var mrs []nic.Memory
	for i := range p.classes {
		c := &p.classes[i]
		c.free = slices.DeleteFunc(c.free, func(b *Buf) bool { return b.slab.free == b.slab.all })
		c.slabs = slices.DeleteFunc(c.slabs, func(s *slab) bool {
			if s.free < s.all {
				return false
			}
			mrs = append(mrs, s.mr)
			return true
		})
	}
	p.unused = 0
	p.mu.Unlock()
	for _, mr := range mrs {
		p.Drop(mr, int64(mr.Len()))
	}
	return true
}

// Drop closes an MR; n of its bytes are the engine's memory.
func (p *Pool) Drop(mr nic.Memory, n int64) {
	if err := mr.Close(); err != nil { // it is tried again when the engine is closed
		p.mu.Lock()
		p.stuck = append(p.stuck, mr)
		p.mu.Unlock()
		return
	}
	p.Spare(n)
}

// Spare gives n bytes of the engine's memory up.
func (p *Pool) Spare(n int64) {
	p.opt.Budget.DropBuffers(n)
	p.Wake()
}

// put takes back a buffer that is no longer used.
func (p *Pool) put(b *Buf) {
	if b.slab == nil {
		n := int64(b.MR.Len())
		if b.start == 0 {
			n = 0 // the caller's
		}
		p.Drop(b.MR, n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := b.slab; s != nil {
		if s.free++; s.free == s.all {
			p.unused++
		}
		c := &p.classes[s.class]
		c.free = append(c.free, b)
	}
	p.out--
	p.gotBack()
}

// InUse returns how many buffers were not given back.
func (p *Pool) InUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out
}

// Close ends the pool, unless buffers are in use: it returns how many.
func (p *Pool) Close() (busy int) {
	p.Closing.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = p.out == 0
	return p.out
}

// Release closes the MRs.
// Preconditions: p.closed.
func (p *Pool) Release() error {
	errs := []error{}
	for i := range p.classes {
		for _, s := range p.classes[i].slabs {
			errs = append(errs, s.mr.Close())
		}
	}
	for _, mr := range p.stuck {
		errs = append(errs, mr.Close())
	}
	return errors.Join(errs...)
}
