package report

import (
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// figureKey is a figure of a test, or of the pairs of a mesh.
type figureKey struct {
	bytes               uint64
	over, hosts, figure string
}

const tailKey = "latency_p99_ns"

// values are those of a figure.
type values struct {
	runs  []float64
	parts []float64 // of the intervals
}

// series has the figures of several runs, in the order of the first.
type series struct {
	order []figureKey
	of    map[figureKey]*values
}

// add adds a value, which is 0 or less if it is not known.
func (s *series) add(k figureKey, v float64) *values {
	if s.of[k] == nil {
		s.of[k] = &values{}
		s.order = append(s.order, k)
	}
	if v > 0 {
		s.of[k].runs = append(s.of[k].runs, v)
	}
	return s.of[k]
}

// seriesOf takes the figures of runs, or of meshes.
func seriesOf(runs []*Saved) series {
	s := series{of: map[figureKey]*values{}}
	for _, r := range runs {
		if r.Mesh != nil {
			s.mesh(r.Mesh)
			continue
		}
		for i := range r.Results {
			s.size(&r.Results[i], r.Test.Metric == wire.Latency.String())
		}
	}
	return s
}

// size takes the figures of a size. The message rate is none of its own.
func (s *series) size(r *savedSize, latency bool) {
	k := figureKey{bytes: r.Bytes, over: r.Over, figure: bandwidthKey}
	if !latency {
		v := s.add(k, known(r.Bits))
		for _, i := range r.Intervals {
			if i.Bits != nil && !i.Margin {
				v.parts = append(v.parts, *i.Bits)
			}
		}
		return
	}
	lat := &r.Summary
	if r.Lat != nil {
		lat = r.Lat
	}
	k.figure = latencyKey
	s.add(k, float64(lat.P50))
	k.figure = tailKey
	s.add(k, float64(lat.P99))
}

const allPairs = "all pairs"

// mesh takes the figures of all pairs, and those of each host.
func (s *series) mesh(m *savedMesh) {
	for i := range m.Pairs {
		p := &m.Pairs[i]
		for _, hosts := range []string{allPairs, p.From + " sends", p.To + " receives"} {
			s.add(figureKey{hosts: hosts, figure: bandwidthKey}, known(p.Bits))
			s.add(figureKey{hosts: hosts, figure: latencyKey}, known(p.P50))
		}
	}
}

// fewest values of a host are enough for a test of more than a hundred hosts.
const fewest = 10

// common returns the figures of s that can be compared with those of o.
func (s *series) common(o series) []figureKey {
	return slices.DeleteFunc(slices.Clone(s.order), func(k figureKey) bool {
		if o.of[k] == nil || len(s.of[k].runs) == 0 {
			return true
		}
		return k.hosts != "" && k.hosts != allPairs && min(len(s.of[k].runs), len(o.of[k].runs)) < fewest
	})
}
