package rdma

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
)

// Pool has the buffers of an engine: memory that is registered for longer than a message is under
// way. It gives them out in sizes of powers of two; those beyond 4 MiB are registered one by one.
// EngineOptions.Memory bounds them together with the blocks.
//
// It belongs to its Engine and is safe for concurrent use.
type Pool struct {
	e *Engine

	mu      sync.Mutex
	classes [maxClass + 1]class
	out     int           // buffers that were not given back
	waiting atomic.Int32  // goroutines in GetWait; changes under mu
	freed   chan struct{} // closed when memory was given back, for those
	closed  bool
	stuck   []nic.Memory // that could not be closed
	unused  int          // slabs without a buffer in use

	trimming sync.Mutex // before mu

	closing sync.WaitGroup // buffers with an MR of their own that are being closed
}

// class has the buffers of a size.
type class struct {
	free  []*bufMem
	slabs []*slab
}

// slab is memory of some buffers.
type slab struct {
	mr    nic.Memory
	class int
	all   int // buffers
	free  int // of them
}

const (
	smallestBuffer = 256 // bytes of the buffers of class 0
	largestBuffer  = 4 << 20
	maxClass       = 14 // smallestBuffer << maxClass is largestBuffer
	smallSlab      = 256 << 10
	hugePage       = 2 << 20
)

// sizeClass returns the class of buffers of n bytes, 1 to largestBuffer.
func sizeClass(n int) int { return bits.Len(uint((n - 1) / smallestBuffer)) }

// Pool returns the engine's buffers.
func (e *Engine) Pool() *Pool { return e.pool }

func newPool(e *Engine) *Pool { return &Pool{e: e, freed: make(chan struct{})} }

// Get returns a buffer of n bytes with arbitrary content. If the engine's memory is spent, the error matches
// ErrNoMemory.
func (p *Pool) Get(n int) (*Buffer, error) {
	b, err := p.getNow(n)
	if err != nil {
		return nil, err
	}
	return &b, nil
}

func (p *Pool) getNow(n int) (Buffer, error) {
	b, err := p.get(n)
	if err == errSpent {
		p.e.hurry() // for callers that try again
		err = fmt.Errorf("%w: %w", ErrNoMemory, p.tooMuch(n))
	}
	return b, p.fail("get buffer", err)
}

// GetWait is Get, but while the engine's memory is spent it waits until some is given back. It does not wait for memory
// that the device does not register, or for more than buffers can ever have: that error matches ErrNoMemory.
func (p *Pool) GetWait(ctx context.Context, n int) (*Buffer, error) {
	b, err := p.getWait(ctx, n)
	if err != nil {
		return nil, err
	}
	return &b, nil
}

func (p *Pool) getWait(ctx context.Context, n int) (Buffer, error) {
	w := bound{Ctx: ctx}
	if err := w.Expired(); err != nil {
		return Buffer{}, err
	}
	b, err := p.get(n)
	for err == errSpent {
		freed := p.await()
		p.e.hurry()
		if b, err = p.get(n); err == errSpent { // else it was given back meanwhile
			if err := p.e.shards[0].wait(w, freed); err != nil {
				p.awaited()
				return Buffer{}, err
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

// wake wakes the goroutines that wait for memory.
func (p *Pool) wake() {
	p.mu.Lock()
	p.gotBack()
	p.mu.Unlock()
}

// gotBack is wake.
// Preconditions: p.mu is held.
func (p *Pool) gotBack() {
	if p.waiting.Load() > 0 {
		close(p.freed)
		p.freed = make(chan struct{})
	}
}

// Register makes a buffer of the caller's memory, which stays pinned until the device has no use of the buffer any
// more. It does not count as the engine's memory. The program may read and write the memory, also while it is lent (see
// Lease), except while the device uses it: it must not write what SendBuffer or Region.Write sends, nor touch what
// Region.Read fills, before that has completed. Do not register for each message: that costs more than copying it (1
// MiB, emulated adapter: 62 and 46 µs).
func (p *Pool) Register(mem []byte) (*Buffer, error) {
	const op = "register buffer"
	if err := p.begin(); err != nil {
		return nil, p.fail(op, err)
	}
	mr, err := p.e.nic.Register(mem, p.e.bufferAccess())
	if err != nil {
		p.end()
		return nil, p.fail(op, err)
	}
	b := &bufMem{p: p, mr: mr, lkey: mr.LKey(), mem: mem, addr: mr.Addr()}
	h := b.handOut(len(mem))
	return &h, nil
}

// begin counts a buffer that is about to be given out, so that the engine stays open.
func (p *Pool) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	p.out++
	return nil
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
	return &ibv.OpError{Op: op, Object: "engine of " + p.e.name(), Err: err}
}

func (p *Pool) tooMuch(n int) error {
	return &ibv.LimitError{What: "bytes of blocks and buffers", Asked: uint64(p.e.budget.Used()) + uint64(n),
		Limit: uint64(p.e.opt.Memory), Where: "EngineOptions.Memory"}
}

// errSpent means that the memory of the engine is used up.
var errSpent = errors.New("spent")

func (p *Pool) get(n int) (Buffer, error) {
	if n < 0 {
		return Buffer{}, &ibv.ArgError{Arg: "n", Got: fmt.Sprint(n), Want: "0 bytes or more"}
	}
	if int64(n) > p.e.opt.Memory-headroom {
		return Buffer{}, fmt.Errorf("%w: %w", ErrNoMemory, &ibv.LimitError{What: "bytes of a buffer", Asked: uint64(n),
			Limit: uint64(p.e.opt.Memory - headroom), Where: "EngineOptions.Memory"})
	}
	if err := p.begin(); err != nil {
		return Buffer{}, err
	}
	b, err := p.find(n)
	if err != nil {
		p.end()
		return Buffer{}, err
	}
	return b.handOut(n), nil
}

// find returns a buffer for n bytes.
func (p *Pool) find(n int) (*bufMem, error) {
	if n > largestBuffer {
		return p.alone(n)
	}
	class := sizeClass(n)
	for {
		if b := p.pop(class); b != nil {
			return b, nil
		}
		if err := p.addSlab(class); err != nil {
			return nil, err
		}
	}
}

// pop returns a free buffer of a class, or nil.
func (p *Pool) pop(class int) *bufMem {
	p.mu.Lock()
	defer p.mu.Unlock()
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

// addSlab registers memory for more buffers of a class. The lock is not held meanwhile: others go on.
func (p *Pool) addSlab(class int) error {
	stride := smallestBuffer<<class + headroom
	s := &slab{class: class, all: max(min(max(32*stride, p.leastSlab()), slabSize)/stride, 1)}
	mr, err := p.alloc(s.all * stride)
	if err != nil && s.all > 1 { // at least a single one
		s.all = 1
		mr, err = p.alloc(stride)
	}
	if err != nil {
		return err
	}
	s.mr, s.free = mr, s.all
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.classes[class]
	c.slabs = append(c.slabs, s)
	p.unused++
	buffers := make([]bufMem, s.all)
	for i := range buffers {
		at := i * stride
		b := &buffers[i]
		b.p, b.mr, b.lkey, b.slab, b.mem = p, mr, mr.LKey(), s, mr.Bytes()[at:at+stride:at+stride]
		b.start, b.addr = headroom, mr.Addr()+uint64(at+headroom)
		c.free = append(c.free, b)
	}
	return nil
}

// leastSlab is the least that is registered for several buffers.
func (p *Pool) leastSlab() int {
	if p.e.opt.MemOptions.HugePages != ibv.HugeNone {
		return hugePage
	}
	return smallSlab
}

// alone returns a buffer with its own MR.
func (p *Pool) alone(n int) (*bufMem, error) {
	mr, err := p.alloc(n + headroom)
	if err != nil {
		return nil, err
	}
	return &bufMem{p: p, mr: mr, lkey: mr.LKey(), mem: mr.Bytes(), start: headroom, addr: mr.Addr() + headroom}, nil
}

// alloc registers n bytes. If the engine's memory is used up, it first frees memory that other sizes do not use.
func (p *Pool) alloc(n int) (nic.Memory, error) {
	e := p.e
	if !e.budget.AddBuffers(int64(n)) {
		e.trim(true)
		if !e.budget.AddBuffers(int64(n)) {
			return nil, p.spent(int64(n))
		}
	}
	mr, err := e.nic.Alloc(n, e.bufferAccess(), &e.opt.MemOptions)
	if err != nil && e.trim(true) { // the process may not lock more
		mr, err = e.nic.Alloc(n, e.bufferAccess(), &e.opt.MemOptions)
	}
	if err != nil {
		p.spare(int64(n))
		return nil, fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	return mr, nil
}

// spent is the error of n bytes that there is no room for: errSpent if there can be, and waiting helps.
func (p *Pool) spent(n int64) error {
	most := p.e.opt.Memory
	for _, s := range p.e.shards {
		most -= int64(s.keep()) * s.slabBytes
	}
	if n > most {
		return fmt.Errorf("%w: %w", ErrNoMemory, &ibv.LimitError{What: "bytes of a buffer", Asked: uint64(n),
			Limit: uint64(most), Where: "EngineOptions.Memory, less the blocks that connections begin with"})
	}
	return errSpent
}

// trim frees the slabs without a buffer in use, and reports whether there were some. With wait it returns after others
// that trim.
func (p *Pool) trim(wait bool) bool {
	if !tryLock(&p.trimming, wait) {
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
		c.free = slices.DeleteFunc(c.free, func(b *bufMem) bool { return b.slab.free == b.slab.all })
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
		p.drop(mr, int64(mr.Len()))
	}
	return true
}

// drop closes an MR; n of its bytes are the engine's memory.
func (p *Pool) drop(mr nic.Memory, n int64) {
	if err := mr.Close(); err != nil { // it is tried again when the engine is closed
		p.mu.Lock()
		p.stuck = append(p.stuck, mr)
		p.mu.Unlock()
		return
	}
	p.spare(n)
}

// spare gives n bytes of the engine's memory up.
func (p *Pool) spare(n int64) {
	p.e.budget.DropBuffers(n)
	p.wake()
}

// put takes back a buffer that is no longer used.
func (p *Pool) put(b *bufMem) {
	if b.slab == nil {
		n := int64(b.mr.Len())
		if b.start == 0 {
			n = 0 // the caller's
		}
		p.drop(b.mr, n)
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

// inUse is how many buffers were not given back.
func (p *Pool) inUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out
}

// close ends the pool, unless buffers are in use: it returns how many.
func (p *Pool) close() (busy int) {
	p.closing.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = p.out == 0
	return p.out
}

// release closes the MRs.
// Preconditions: p.closed.
func (p *Pool) release() error {
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

// charge counts n bytes as the engine's memory, and reports whether there is room for them.
func (e *Engine) charge(n int64) bool { return n == 0 || e.budget.AddBuffers(n) }

// uncharge undoes charge.
func (e *Engine) uncharge(n int64) {
	if n > 0 {
		e.pool.spare(n)
	}
}
