package measure

import "sync"

// Window is the part of a run by time that several loops share: their samples begin at one moment and end at one, at
// which the messages of all of them are counted.
type Window struct {
	mu             sync.Mutex // locked by each loop three times in a run
	members        []*Sampler
	from, to, last int64
	begun, ended   int64
}

// Add makes a sampler, which has not started, one of those that share the window.
func (w *Window) Add(s *Sampler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.window = w
	w.members = append(w.members, s)
}

// start begins the run of all with that of the first one.
func (w *Window) start(s *Sampler, now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.from == 0 {
		w.from, w.to, w.last = now+s.margin, now+s.length-s.margin, now+s.length
	}
	s.from, s.to, s.last = w.from, w.to, w.last
}

// begin begins the sample of all, if it has not begun.
func (w *Window) begin(s *Sampler, now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun == 0 {
		w.begun = now
		late := now - w.from
		w.to += late
		w.last += late
		for _, m := range w.members {
			m.countFrom = m.count.Load()
		}
	}
	s.begun, s.to, s.last = w.begun, w.to, w.last
}

// end ends the sample of all, if it has not ended.
func (w *Window) end(s *Sampler, now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == 0 {
		w.close(now)
	}
	s.ended = w.ended
}

// close ends the sample at a moment.
// Preconditions: w.mu is held.
func (w *Window) close(at int64) {
	w.ended = at
	for _, m := range w.members {
		m.countTo = m.count.Load()
	}
}

// cut is Sampler.Cut: the first loop that finds the peer at its end ends the sample of all.
func (w *Window) cut(s *Sampler, over, moved int64, count Count) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.count.Store(count)
	if w.begun != 0 && (w.ended == 0 || over < w.ended) {
		w.close(moved)
	}
	s.ended = w.ended
	return w.begun != 0 && w.ended > w.begun
}
