package measure

import (
	"math"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// TestPeerReport takes any numbers from a peer, and gives none that cannot be printed.
func TestPeerReport(t *testing.T) {
	wild := []float64{0, -1, 1, 5e-324, 1e300, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN()}
	for _, rate := range wild {
		for _, avg := range wild {
			for _, peak := range wild {
				for _, size := range []uint64{0, 2, math.MaxUint64} {
					bw := FromPeer(wire.Report{Size: size, MsgRate: rate, AvgBW: avg, PeakBW: peak}, false)
					for _, v := range []float64{bw.MessagesPerSecond, bw.BitsPerSecond, bw.PeakBitsPerSecond} {
						if v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
							t.Fatalf("size %d, rate %g, average %g, peak %g: %+v", size, rate, avg, peak, bw)
						}
					}
				}
			}
		}
	}
}
