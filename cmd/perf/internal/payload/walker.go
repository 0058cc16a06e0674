package payload

// Walker steps through a buffer in the way that perftest does: small messages are spread over one
// page, message by message; large ones share one place.
type Walker struct{ off, step, end uint64 }

// NewWalker returns a walker over cycle bytes, 0 for always the same place. line is the length of a cache line.
func NewWalker(size, cycle, line uint64) Walker {
	if size > cycle/2 {
		return Walker{end: 1}
	}
	step := RoundUp(max(size, 1), line)
	return Walker{step: step, end: cycle / step * step}
}

// Next returns the offset of the next message.
func (w *Walker) Next() uint64 {
	off := w.off
	w.off += w.step
	if w.off >= w.end {
		w.off = 0
	}
	return off
}

// Places returns how many offsets there are.
func (w *Walker) Places() uint64 {
	if w.step == 0 {
		return 1
	}
	return w.end / w.step
}

// RoundUp returns the first multiple of to that is not below n.
func RoundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }
