//go:build linux

package random

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pureverbs/pureverbs/ibv"
)

// stalled returns the states of the QPs that wait for completions, and the device's counters that are not 0.
func (s *station) stalled() string {
	var b strings.Builder
	for i, q := range s.qps {
		if q.fate == nil || !s.lacks(q) {
			continue
		}
		fmt.Fprintf(&b, "  link %d, QP %#x to %#x:", i, q.qp.Num(), q.peer.Endpoint.QPN)
		a, err := q.qp.Query(ibv.MaskState | ibv.MaskSQPSN | ibv.MaskRQPSN)
		if err != nil {
			fmt.Fprintf(&b, " %v\n", err)
			continue
		}
		fmt.Fprintf(&b, " %v, sends from PSN %#x, expects PSN %#x, %d sends and %d receives outstanding\n", a.State,
			a.SQPSN, a.RQPSN, len(q.left), len(q.rq))
	}
	files, _ := filepath.Glob(fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/hw_counters/*", s.rxe.Dev[s.e],
		s.rxe.Port))
	for _, f := range files {
		if n, err := os.ReadFile(f); err == nil && strings.TrimSpace(string(n)) != "0" {
			fmt.Fprintf(&b, "  %s %s", filepath.Base(f), n)
		}
	}
	return b.String()
}
