package loop

import (
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/ibv"
)

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
