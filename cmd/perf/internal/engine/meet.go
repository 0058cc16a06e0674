package engine

import (
	"context"
	"fmt"
	"time"
)

// meet waits until all rails are there, for so long at most.
func (g *rails) meet(ctx context.Context, limit time.Duration) error {
	g.mu.Lock()
	g.waiting++
	round := g.round
	g.release()
	g.mu.Unlock()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-round:
		return nil
	case <-ctx.Done():
	case <-late.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.round != round {
		return nil
	}
	g.waiting--
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return fmt.Errorf("the other rails were not ready within %v: check that the peer of each is running", limit)
}

// settled notes that a rail is connected, or will not be.
func (g *rails) settled(r Rail) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ready = append(g.ready, r)
	if g.open--; g.open == 0 && g.tell != nil {
		g.tell(g.ready)
	}
}

// leave takes a rail away that has ended.
func (g *rails) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members--
	g.release()
}

// release lets all go if all wait.
func (g *rails) release() {
	if g.waiting == 0 || g.waiting < g.members {
		return
	}
	g.waiting = 0
	close(g.round)
	g.round = make(chan struct{})
}
