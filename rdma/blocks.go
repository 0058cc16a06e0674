package rdma

import (
	"errors"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
)

// block is a registered piece of memory for one frame: headroom, then the payload. It belongs to
// the free list, to the SRQ, to a connection's queue of frames, or to the device that sends it.
type block struct {
	mem []byte
	sge ibv.SGE // header and payload, at full length
	id  uint64  // recvID|index

	holders atomic.Int32 // of a frame that several messages share: they, and the reader while there are more
}

func (b *block) header() []byte  { return b.mem[headerAt:headroom] }
func (b *block) payload() []byte { return b.mem[headroom:] }

// recvID marks the IDs of receives; those of sends are numbers of work requests.
const recvID = 1 << 63

const slabSize = 4 << 20

// addSlab registers another slab, unless the budget is spent.
// Preconditions: e.mu is held.
func (e *shard) addSlab() error {
	if !e.maySlab() {
		return errNoBlock
	}
	if !e.budget.addBlocks(e.slabBytes) && (!e.eng.pool.trim() || !e.budget.addBlocks(e.slabBytes)) {
		return errNoBlock
	}
	mem := e.opt.Mem
	if mem.HugePages == ibv.HugeNone {
		mem.HugePages = ibv.HugeTry // a slab is used as a whole, from its beginning
	}
	mr, err := e.eng.pd.AllocMR(int(e.slabBytes), ibv.LocalWrite, &mem)
	if err != nil {
		e.budget.dropBlocks(e.slabBytes)
		return err
	}
	e.slabs = append(e.slabs, mr)
	all := e.blocks.Load()
	var list []*block
	if all != nil {
		list = *all
	}
	list = append(make([]*block, 0, len(list)+e.perSlab), list...)
	fresh := make([]block, e.perSlab)
	for i := range fresh {
		at := i * e.stride
		b := &fresh[i]
		b.mem, b.sge = mr.Bytes()[at:at+e.stride:at+e.stride], mr.SGE(at+headerAt, e.stride-headerAt)
		b.id = recvID | uint64(len(list))
		list = append(list, b)
		e.free = append(e.free, b)
	}
	e.blocks.Store(&list)
	return nil
}

// errNoBlock means that the engine's memory is used up. Callers wait for a block.
var errNoBlock = errors.New("no free block")

// take returns a free block.
// Preconditions: e.mu is held.
func (e *shard) take() (*block, error) {
	if len(e.free) == 0 {
		if err := e.addSlab(); err != nil {
			return nil, err
		}
	}
	b := e.free[len(e.free)-1]
	e.free = e.free[:len(e.free)-1]
	return b, nil
}

// sendBlock returns a block to send from. Without one it returns nil, and l is woken when there may be one.
func (e *shard) sendBlock(l *link) (*block, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, err := e.take()
	if err == errNoBlock {
		if !l.starving {
			l.starving = true
			e.starving.push(l)
		}
		e.scarce.Store(true)
		wake(e.eng.short)
		return nil, nil
	}
	l.starving = false
	return b, err
}

// feed wakes the connection that has waited for a block for longest: one for each block that is returned.
// Preconditions: e.mu is held.
func (e *shard) feed() {
	for e.starving.len() > 0 {
		if l := e.starving.pop(); l.starving {
			l.starving = false
			l.wakeWriter()
			return
		}
	}
}

// passOn is called when l no longer needs a block. If it was woken for one, another connection is.
func (e *shard) passOn(l *link) {
	e.mu.Lock()
	l.starving = false
	if len(e.free) > 0 {
		e.feed()
	}
	e.mu.Unlock()
}

// put returns a block that was sent or not used.
func (e *shard) put(b *block) {
	e.mu.Lock()
	e.give(b)
	e.mu.Unlock()
}

// give is put. b may be nil.
// Preconditions: e.mu is held.
func (e *shard) give(b *block) {
	if b == nil {
		return
	}
	e.free = append(e.free, b)
	e.feed()
}

// consumed returns a block that was received.
func (e *shard) consumed(b *block) {
	e.mu.Lock()
	e.have--
	e.give(b)
	if e.want-e.have >= e.most.control/2 {
		e.refill()
	}
	e.mu.Unlock()
}

const (
	// controlBlocks are posted in addition to those that are granted: for frames that take no credit. When half of them
	// are missing, other goroutines than the poller also post them.
	controlBlocks = 16
	// refillMost is the most that are posted at a time.
	refillMost = 64
)

// refill posts receives until as many are there as were granted.
// Preconditions: e.mu is held.
func (e *shard) refill() {
	for {
		n := min(e.want-e.have, refillMost, e.recvMost()-e.have)
		wrs := e.recvs[:0]
		for range n {
			b, err := e.take()
			if err != nil {
				break // the sender tries again until there is one
			}
			e.sges[len(wrs)] = b.sge
			wrs = append(wrs, ibv.RecvWR{ID: b.id, SGEs: e.sges[len(wrs) : len(wrs)+1 : len(wrs)+1]})
		}
		if len(wrs) == 0 {
			return
		}
		posted, err := e.srq.PostRecv(wrs)
		e.have += posted
		e.posted += uint64(posted)
		for _, wr := range wrs[posted:] {
			e.free = append(e.free, e.block(wr.ID))
		}
		if err != nil {
			return // the device is gone: the poller is notified
		}
	}
}

// block returns the block of a receive's ID.
func (e *shard) block(id uint64) *block { return (*e.blocks.Load())[id&^recvID] }

// recvMost is how many blocks may be posted or held.
func (e *shard) recvMost() int {
	return min(int(e.budget.receivable(e.opt.Pollers)/int64(e.stride)), e.srqDepth)
}

// grant makes room for n more frames of a connection, and reports whether there is.
func (e *shard) grant(n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.want+n > e.recvMost() && e.budget.from != nil && e.addSlab() == nil {
	}
	if e.want+n > e.recvMost() || !e.budget.offer(int64(n)*int64(e.stride)) {
		e.crowded.Store(true)
		return false
	}
	e.want += n
	return true
}

// promise makes room for n more frames, whether there is or not; for fewer if n is below 0.
// Preconditions: e.mu is held.
func (e *shard) promise(n int) {
	e.want += n
	e.budget.promise(int64(n) * int64(e.stride))
}

// ungrant undoes grant.
func (e *shard) ungrant(n int) {
	e.mu.Lock()
	e.promise(-n)
	e.mu.Unlock()
}
