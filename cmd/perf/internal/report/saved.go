package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/layer"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Saved is a JSON object as read from a file: of a run, or of a mesh if Mesh is there.
type Saved struct {
	document
	Results []savedSize  `json:"results"`
	Mesh    *mesh.Result `json:"-"`
}

// savedSize has the possible figures of a size, for all tests.
type savedSize struct {
	bwSize
	measure.Summary
	Histogram []measure.Bucket `json:"histogram"`
	Over      string           `json:"over"`    // of rdmaperf stream and rdmaperf message
	Lat       *measure.Summary `json:"latency"` // the same
}

// Keys of the figures of a pair, as a mesh names them.
const (
	bandwidthKey = mesh.BandwidthKey
	latencyKey   = mesh.LatencyKey
)

// mostSaved bounds a file. The object of a sweep with histograms has less than 16 MiB, that of all pairs of 1,000 hosts
// 180.
const mostSaved = 256 << 20

// oldVersion of the object has percentiles that are the maximum, and figures of one direction, where later ones have
// null.
const oldVersion = 1

// Read reads an object that JSON wrote. That of a run which failed holds what was measured before.
func Read(r io.Reader) (*Saved, error) {
	b, err := io.ReadAll(io.LimitReader(r, mostSaved+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > mostSaved:
		return nil, fmt.Errorf("file longer than %d bytes", mostSaved)
	}
	s := &Saved{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("not a JSON object of rdmaperf: %w", err)
	}
	version := SchemaVersion
	switch s.Schema {
	case Schema:
		if s.Version == oldVersion {
			version = oldVersion
		}
	case mesh.Schema:
		version = mesh.Version
	default:
		return nil, fmt.Errorf("schema %q, not %q; not written by rdmaperf --json", s.Schema, Schema)
	}
	if s.Version != version {
		return nil, fmt.Errorf("schema version %d; this rdmaperf reads version %d", s.Version, version)
	}
	if s.Schema == mesh.Schema {
		s.Mesh = &mesh.Result{}
		if err := json.Unmarshal(b, s.Mesh); err != nil {
			return nil, fmt.Errorf("not a JSON object of rdmaperf mesh: %w", err)
		}
		if n := len(s.Mesh.Hosts); n < 2 || n > mesh.MostHosts {
			return nil, fmt.Errorf("mesh of %d hosts; allowed: 2 to %d", n, mesh.MostHosts)
		}
	}
	return s, nil
}

// UnmarshalJSON reads an object, or the address alone, as rdmaperf stream and rdmaperf message write it.
func (p *peerDoc) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &p.Address) == nil {
		return nil
	}
	type plain peerDoc
	return json.Unmarshal(b, (*plain)(p))
}

// Drawable returns an error if charts would mix up what was measured.
func (s *Saved) Drawable() error {
	if v := layer.Carrier(s.Test.Verb); v == layer.Stream || v == layer.Message {
		return fmt.Errorf("it is of rdmaperf %s, which measures several carriers: rdmaperf report shows verbs and "+
			"meshes", v)
	}
	return nil
}

// Whole returns an error unless these are all results of one run.
func (s *Saved) Whole() error {
	switch {
	case s.Error != "":
		return fmt.Errorf("the run failed: %s", printable.Message(s.Error))
	case s.Mesh == nil && len(s.Results) == 0, s.Mesh != nil && len(s.Mesh.Pairs) == 0:
		return errors.New("no results")
	}
	return nil
}

// known returns a figure, or 0.
func known(v *float64) float64 { return *cmp.Or(v, new(float64)) }
