package report

import (
	"fmt"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plot"
)

// stalled is a host that stood still, or a pair with a message that took long.
type stalled struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	FromNIC string  `json:"from_nic"`
	ToNIC   string  `json:"to_nic"`
	Host    string  `json:"host"`
	Seconds float64 `json:"seconds"`
	At      float64 `json:"at_seconds"`
	Times   int     `json:"silences"`
	Pairs   int     `json:"pairs"`
}

// says describes it. Figures that no mesh can have are left out.
func (s *stalled) says() string {
	seconds := func(before string, x float64) string {
		if !plot.Log.Fits(x) {
			return ""
		}
		return fmt.Sprintf("%s%.1f s", before, x)
	}
	if s.Host == "" {
		from, to := slowPart{Host: s.From, NIC: s.FromNIC}, slowPart{Host: s.To, NIC: s.ToNIC}
		return from.name() + " to " + to.name() + ": a message took" + seconds(" ", s.Seconds)
	}
	if s.Times == 0 {
		return "messages of " + plural(s.Pairs, "pair", "pairs") + " took" + seconds(" up to ", s.Seconds)
	}
	said := "stood still" + seconds(" for ", s.Seconds)
	if s.Times > 1 {
		said = fmt.Sprintf("stood still %d times", s.Times) + seconds(", for up to ", s.Seconds)
	}
	return said + seconds(", after ", s.At)
}

// stalls has a verdict for each host and pair that stood still.
func (v *view) stalls() {
	for _, kind := range []struct {
		list      []stalled
		one, many string
	}{{v.m.StalledHosts, "host stalled", "hosts stalled"}, {v.m.StalledPairs, "pair stalled", "pairs stalled"}} {
		v.part(len(kind.list), kind.one, kind.many)
		some(v, "stalled", kind.list, mostVerdicts, "more, in the JSON file", func(s stalled) (host, why string) {
			if s.Host != "" {
				host = name(s.Host)
			}
			return host, s.says()
		})
	}
}
