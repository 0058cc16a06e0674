package report

import (
	"fmt"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plot"
)

// seconds is a time with words before it. One that no mesh can have is left out.
func seconds(before string, x float64) string {
	if !plot.Log.Fits(x) {
		return ""
	}
	return fmt.Sprintf("%s%.1f s", before, x)
}

// stood describes a host that stood still.
func stood(s mesh.StalledHost) string {
	if s.Silences == 0 {
		return "messages of " + plural(s.Pairs, "pair", "pairs") + " took" + seconds(" up to ", s.Seconds)
	}
	said := "stood still" + seconds(" for ", s.Seconds)
	if s.Silences > 1 {
		said = fmt.Sprintf("stood still %d times", s.Silences) + seconds(", for up to ", s.Seconds)
	}
	return said + seconds(", after ", s.At)
}

// stalls has a verdict for each host and pair that stood still.
func (v *view) stalls() {
	const rest = "more, in the JSON file"
	v.part(len(v.m.StalledHosts), "host stalled", "hosts stalled")
	some(v, "stalled", v.m.StalledHosts, mostVerdicts, rest, func(s mesh.StalledHost) (host, why string) {
		return name(s.Host), stood(s)
	})
	v.part(len(v.m.StalledPairs), "pair stalled", "pairs stalled")
	some(v, "stalled", v.m.StalledPairs, mostVerdicts, rest, func(s mesh.StalledPair) (_, why string) {
		return "", end(s.From, s.FromNIC) + " to " + end(s.To, s.ToNIC) + ": a message took" + seconds(" ", s.Seconds)
	})
}
