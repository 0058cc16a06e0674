package lease

import "github.com/pureverbs/pureverbs/rdma/internal/fifo"

// RequestsMost is how many requests of a side may have no reply.
const RequestsMost = 16

// Desk has the peer's requests that have no reply. One goroutine at a time handles them.
type Desk[R any] struct {
	queue   fifo.Queue[R]
	Open    int  // without a reply: those of the queue, and those that are handled
	handled bool // there is a goroutine
}

// Come adds a request, and reports whether there may be so many.
func (d *Desk[R]) Come(r R) bool {
	if d.Open == RequestsMost {
		return false
	}
	d.Open++
	d.queue.Push(r)
	return true
}

// Start reports whether the caller is to start the goroutine, which calls Next until that returns false.
func (d *Desk[R]) Start() bool {
	if d.handled || d.queue.Len() == 0 {
		return false
	}
	d.handled = true
	return true
}

// Next returns the next request, if goOn is true and there is one. Otherwise the goroutine ends.
func (d *Desk[R]) Next(goOn bool) (r R, ok bool) {
	if !goOn || d.queue.Len() == 0 {
		d.handled = false
		return r, false
	}
	return d.queue.Pop(), true
}

// Reply frees the place of a request. It comes before the reply is sent, because the peer may then send another at
// once.
func (d *Desk[R]) Reply() { d.Open-- }

// Asks has the requests of this side that have no reply. There are at most RequestsMost, which the caller ensures.
type Asks[A any] struct {
	last uint16
	open map[uint16]A
}

// Add adds a request, and returns its number, which is never 0.
func (s *Asks[A]) Add(a A) uint16 {
	if s.open == nil {
		s.open = make(map[uint16]A)
	}
	for {
		if s.last++; s.last != 0 {
			if _, taken := s.open[s.last]; !taken {
				s.open[s.last] = a
				return s.last
			}
		}
	}
}

// Has reports whether there is a request with this number.
func (s *Asks[A]) Has(number uint32) bool {
	_, ok := s.open[uint16(number)]
	return ok && number == uint32(uint16(number))
}

// Take removes a request, which there is.
func (s *Asks[A]) Take(number uint16) A {
	a := s.open[number]
	delete(s.open, number)
	return a
}

// Clear removes all requests, and calls f with each.
func (s *Asks[A]) Clear(f func(A)) {
	for _, a := range s.open {
		f(a)
	}
	clear(s.open)
}
