package loop

import (
	"context"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/ibv"
)

// The loops see queues through these, so that tests can put their own in place.
type (
	// SendQueue is an *ibv.QP.
	SendQueue interface {
		PostSend([]ibv.SendWR) (int, error)
	}
	// RecvQueue is an *ibv.QP, or an *ibv.SRQ.
	RecvQueue interface {
		PostRecv([]ibv.RecvWR) (int, error)
	}
	// Completions is an *ibv.CQ, or Sleeping.
	Completions interface {
		Poll([]ibv.WC) (int, error)
	}
)

// Few takes fewer completions at once than a loop would.
type Few struct {
	Completions
	N int
}

// Poll returns at most N completions.
func (f Few) Poll(wcs []ibv.WC) (int, error) { return f.Completions.Poll(wcs[:f.N]) }

// Sleeping makes a CQ sleep for completions instead of looking again and again.
type Sleeping struct {
	CQ  *ibv.CQ
	Ctx context.Context
}

// Poll waits for at least one completion.
func (s Sleeping) Poll(wcs []ibv.WC) (int, error) { return s.CQ.Wait(s.Ctx, wcs) }

// Stamped notes when completions came, by the adapter's clock.
type Stamped struct {
	Completions
	Spacing *measure.Spacing
}

// Poll returns completions.
func (s Stamped) Poll(wcs []ibv.WC) (int, error) {
	n, err := s.Completions.Poll(wcs)
	for i := range wcs[:n] {
		s.Spacing.Add(wcs[i].Timestamp)
	}
	return n, err
}
