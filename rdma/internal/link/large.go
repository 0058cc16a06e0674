package link

// With EngineOptions.Block left open, streams have larger blocks than messages while memory permits: a frame costs
// the same for many bytes as for few. They belong to a second shard next to each, with its own CQ and poller, which is
// opened for the first stream. Its registered memory counts as buffers do, at most largeShare of the memory, so it
// takes nothing that was promised to peers of the others; and it promises to its own peers only registered memory.

// hasLarge reports whether streams may have larger blocks.
func (o *EngineOptions) hasLarge() bool {
	return o.Block == 0 && !o.Manual && o.Memory/int64(o.Pollers) >= LargeLeast
}

// newLarge makes the shard of large blocks that goes with e. Nothing uses it before it is opened.
func (e *Shard) newLarge() *Shard {
	o := e.Options
	o.Block = LargeBlock
	o.Memory = o.Memory / int64(o.Pollers) / LargeShare / LargeSlab * LargeSlab
	o.Pollers = 1
	s := newShard(e.Engine, o)
	s.base = e
	s.slabBytes = LargeSlab
	s.Options.MaxConns = min(o.MaxConns, (int(o.Memory/LargeSlab)*(LargeSlab/s.Stride)-MostLarge.Control)/LargeEach)
	s.setMost(MostLarge)
	s.budget = e.budget.Part(LargeSlab)
	s.Blocks = s.newBlocks()
	return s
}

// admit takes a place for a stream, and reports whether there is one.
// Preconditions: the cqMu of the shard that s goes with is held.
func (s *Shard) admit() bool {
	if s == nil || s.unusable || s.Places() >= s.Options.MaxConns || !s.registerFor(s.Places()+1) {
		return false
	}
	if !s.Opened.Load() {
		if err := s.open(); err != nil {
			s.unusable = true // streams do without
			return false
		}
		s.start()
	}
	return s.resume() == nil && s.place() == nil
}

// registerFor has enough blocks for so many streams, and reports whether it could.
func (s *Shard) registerFor(streams int) bool {
	ok, err := s.Blocks.Reserve(s.Most.Control + streams*LargeEach)
	return ok && err == nil
}
