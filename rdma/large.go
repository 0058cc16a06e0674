package rdma

// With EngineOptions.Block left open, streams have larger blocks than messages while memory permits: a frame costs
// the same for many bytes as for few. They belong to a second shard next to each, with its own CQ and poller, which is
// opened for the first stream. Its registered memory counts as buffers do, at most largeShare of the memory, so it
// takes nothing that was promised to peers of the others; and it promises to its own peers only registered memory.

const (
	largeBlock = 256 << 10
	largeSlab  = 8 << 20
	largeEach  = 8        // blocks that are registered for a stream before it begins: a quarter is for sending
	largeShare = 2        // what part of the memory they may take, as a divisor
	largeLeast = 64 << 20 // memory of an engine that has them
)

// A stream keeps at most as many blocks as there are for sending, so those that wait for their peers leave some for the
// others. Few blocks are in turn, for the sake of the caches.
var mostLarge = most{window: 32, stage: largeEach / 4, signal: 2, control: 8}

// hasLarge reports whether streams may have larger blocks.
func (o EngineOptions) hasLarge() bool {
	unset := o.Block == 0
	o = o.withDefaults()
	return unset && !o.Manual && o.Memory/int64(o.Pollers) >= largeLeast
}

// newLarge makes the shard of large blocks that goes with e. Nothing uses it before it is opened.
func (e *shard) newLarge() *shard {
	o := e.opt
	o.Block = largeBlock
	o.Memory = o.Memory / int64(o.Pollers) / largeShare / largeSlab * largeSlab
	o.Pollers = 1
	s := newShard(e.eng, o)
	s.base = e
	s.slabBytes = largeSlab
	s.opt.MaxConns = min(o.MaxConns, (int(o.Memory/largeSlab)*(largeSlab/s.stride)-mostLarge.control)/largeEach)
	s.setMost(mostLarge)
	s.budget = e.budget.Part(largeSlab)
	s.blocks = s.newBlocks()
	return s
}

// admit takes a place for a stream, and reports whether there is one.
// Preconditions: the cqMu of the shard that s goes with is held.
func (s *shard) admit() bool {
	if s == nil || s.unusable || s.places() >= s.opt.MaxConns || !s.registerFor(s.places()+1) {
		return false
	}
	if !s.opened.Load() {
		if err := s.open(); err != nil {
			s.unusable = true // streams do without
			return false
		}
		s.start()
	}
	return s.resume() == nil && s.place() == nil
}

// registerFor has enough blocks for so many streams, and reports whether it could.
func (s *shard) registerFor(streams int) bool {
	ok, err := s.blocks.Reserve(s.most.control + streams*largeEach)
	return ok && err == nil
}
