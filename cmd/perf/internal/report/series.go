package report

import (
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// figureKey is a figure of a test, or of the pairs of a mesh.
type figureKey struct {
	bytes               uint64
	over, hosts, figure string
}

const tailKey = "latency_p99_ns"

// series has the figures of several runs, in the order of the first.
type series struct {
	runs  int
	order []figureKey
	of    map[figureKey][][]float64 // for each run the values that are known: of its rounds, or of the pairs of a mesh
}

// seriesOf takes the figures of runs, or of meshes.
func seriesOf(runs []*Saved) series {
	s := series{of: map[figureKey][][]float64{}}
	for _, r := range runs {
		if r.Mesh != nil {
			s.mesh(r.Mesh)
		}
		for i := range r.Results {
			s.size(&r.Results[i], r.Test.Metric == wire.Latency.String())
		}
		s.runs++
	}
	return s
}

// add adds a value of a run, which is 0 or less if it is not known.
func (s *series) add(k figureKey, v float64) {
	if s.of[k] == nil {
		s.order = append(s.order, k)
	}
	for len(s.of[k]) <= s.runs {
		s.of[k] = append(s.of[k], nil)
	}
	if v > 0 {
		s.of[k][s.runs] = append(s.of[k][s.runs], v)
	}
}

// values returns those of each run.
func (s *series) values(k figureKey) [][]float64 {
	return append(slices.Clone(s.of[k]), make([][]float64, s.runs-len(s.of[k]))...)
}

// size takes the figures of a size. The message rate is none of its own.
func (s *series) size(r *savedSize, latency bool) {
	k := figureKey{bytes: r.Bytes, over: r.Over, figure: bandwidthKey}
	if !latency {
		s.add(k, known(r.Bits))
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

// mesh takes the figures of all pairs, and those of each host.
func (s *series) mesh(m *mesh.Result) {
	for p := range lists.Each(m.Pairs) {
		for _, hosts := range []string{"all pairs", p.From + " sends", p.To + " receives"} {
			s.add(figureKey{hosts: hosts, figure: bandwidthKey}, p.Bits)
			s.add(figureKey{hosts: hosts, figure: latencyKey}, p.P50)
		}
	}
}

// common returns the figures of s that can be compared with those of o.
func (s *series) common(o series) []figureKey {
	return slices.DeleteFunc(slices.Clone(s.order), func(k figureKey) bool {
		return o.of[k] == nil || len(slices.Concat(s.of[k]...)) == 0
	})
}
