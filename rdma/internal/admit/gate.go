// Package admit decides which peers of a listener may begin a handshake, and which have to end one that they do not
// finish.
package admit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrEvicted is the cause with which the context of a handshake ends that has to make room.
var ErrEvicted = errors.New("the handshake took too long while other peers waited")

// Limits bound a Gate.
type Limits struct {
	Handshakes int           // under way at a time
	Backlog    int           // handshakes under way together with connections that are not accepted yet
	Waiting    int           // peers that wait
	Grace      time.Duration // a handshake that is older ends if another peer waits
}

// The Limits of package rdma.
const (
	WaitingMost = 4096
	Grace       = 500 * time.Millisecond
)

// Gate is the queue of a listener. A peer P is in one of these states:
//
//	Add → waiting → under way → ready → gone, by Taken
//	         ↓          ↓
//	      refused     failed
//
// Nobody is refused and no handshake is evicted while there is room. Without it the newest peer is the next to begin,
// because strangers that arrived before must not delay it, and the one that has waited longest is refused when too many
// wait. The oldest handshake is evicted when it has had its Grace.
//
// A Gate is safe for concurrent use.
type Gate[P any] struct {
	ctx    context.Context
	limits Limits
	start  func(context.Context, *Handshake, P)

	mu       sync.Mutex
	waiting  []P          // oldest first
	underWay []*Handshake // oldest first
	evicted  int          // of underWay
	ready    int
	timer    *time.Timer
	closed   bool
	running  sync.WaitGroup // underWay; grows under mu, and not once closed
}

// Handshake is one that is under way.
type Handshake struct {
	began   time.Time
	end     context.CancelCauseFunc
	evicted bool
}

// New returns a gate whose handshakes end with ctx. It calls start on a goroutine for each, and start calls Done at its
// end.
func New[P any](ctx context.Context, l Limits, start func(context.Context, *Handshake, P)) *Gate[P] {
	g := &Gate[P]{ctx: ctx, limits: l, start: start}
	g.timer = time.AfterFunc(time.Hour, g.evict)
	g.timer.Stop()
	return g
}

// Add lets a peer wait for its handshake. If too many wait, over is true, and the caller refuses the peer that it
// returns.
func (g *Gate[P]) Add(p P) (refused P, over bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, p)
	g.fill()
	if len(g.waiting) > g.limits.Waiting || len(g.waiting) > 0 && g.closed {
		refused, over = g.waiting[0], true
		g.waiting = slices.Delete(g.waiting, 0, 1)
	}
	return refused, over
}

// Done ends a handshake. ok reports whether there is a connection now.
func (g *Gate[P]) Done(h *Handshake, ok bool) {
	h.end(nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running.Done()
	i := slices.Index(g.underWay, h)
	g.underWay = slices.Delete(g.underWay, i, i+1)
	if h.evicted {
		g.evicted--
	}
	if ok {
		g.ready++
	}
	g.fill()
}

// Taken takes note that a connection was accepted.
func (g *Gate[P]) Taken() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ready--
	g.fill()
}

// Close lets nobody begin any more, and returns the peers that wait, for the caller to refuse. Handshakes that are
// under way end with New's context.
func (g *Gate[P]) Close() []P {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.timer.Stop()
	list := g.waiting
	g.waiting = nil
	return list
}

// Wait waits until no handshake is under way. Close comes before.
func (g *Gate[P]) Wait() { g.running.Wait() }

// fill begins handshakes while there is room.
// Preconditions: g.mu is held.
func (g *Gate[P]) fill() {
	for n := len(g.waiting); n > 0 && !g.closed && len(g.underWay) < g.limits.Handshakes &&
		len(g.underWay)+g.ready < g.limits.Backlog; n-- {
		p := g.waiting[n-1]
		g.waiting = slices.Delete(g.waiting, n-1, n)
		h := &Handshake{began: time.Now()}
		var ctx context.Context
		ctx, h.end = context.WithCancelCause(g.ctx)
		g.underWay = append(g.underWay, h)
		g.running.Add(1)
		go g.start(ctx, h, p)
	}
	g.arm()
}

// arm sets the timer to the moment when the next handshake may be evicted, if a peer waits for its place.
// Preconditions: g.mu is held.
func (g *Gate[P]) arm() {
	if len(g.waiting) <= g.evicted || g.evicted == len(g.underWay) {
		g.timer.Stop()
		return
	}
	// Those that were evicted are the oldest.
	g.timer.Reset(time.Until(g.underWay[g.evicted].began.Add(g.limits.Grace)))
}

// evict ends the oldest handshakes, one for each peer that waits.
func (g *Gate[P]) evict() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.evicted < len(g.waiting) && g.evicted < len(g.underWay) {
		h := g.underWay[g.evicted]
		if time.Since(h.began) < g.limits.Grace {
			break
		}
		h.evicted = true
		h.end(ErrEvicted)
		g.evicted++
	}
	g.arm()
}
