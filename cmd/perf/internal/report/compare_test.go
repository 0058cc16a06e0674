package report

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
)

// saved is a run as JSON writes and Read reads it.
func saved(t *testing.T, c *plan.Plan, res *engine.Result) *Saved {
	t.Helper()
	var b bytes.Buffer
	if err := (&Outcome{Plan: c, Result: res}).JSON(&b); err != nil {
		t.Fatal(err)
	}
	s, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCompare(t *testing.T) {
	run := func(f func() (*plan.Plan, *engine.Result), change func(*plan.Plan, []measure.Size)) *Saved {
		c, res := f()
		res.Started = time.Unix(1800000000, 0)
		change(c, res.Sizes)
		return saved(t, c, res)
	}
	none := func(*plan.Plan, []measure.Size) {}
	for _, tc := range []struct {
		name   string
		test   func() (*plan.Plan, *engine.Result)
		change func(*plan.Plan, []measure.Size)
		worse  int
		shows  string
		err    string
	}{
		{"the same", bandwidth, none, 0, "     65536  BW [Gb/s]                   7              7     +0.0%\n", ""},
		{"within the tolerance", bandwidth, func(_ *plan.Plan, s []measure.Size) {
			s[1].BW.BitsPerSecond *= 0.975
		}, 0, "-2.5%\n", ""},
		{"less bandwidth", bandwidth, func(_ *plan.Plan, s []measure.Size) {
			s[1].BW.BitsPerSecond *= 0.96
		}, 1, "-4.0%  worse\n", ""},
		{"more bandwidth", bandwidth, func(_ *plan.Plan, s []measure.Size) {
			s[1].BW.BitsPerSecond *= 2
		}, 0, "+100.0%\n", ""},
		{"a figure is gone", bandwidth, func(_ *plan.Plan, s []measure.Size) {
			s[0].BW = &measure.Bandwidth{}
		}, 2, "-100.0%  worse\n", ""},
		{"higher latency", latency, func(_ *plan.Plan, s []measure.Size) {
			s[0].Lat.P50, s[0].Lat.P99 = 2*s[0].Lat.P50, 1.01*s[0].Lat.P99
		}, 1, "+100.0%  worse\n", ""},
		{"lower latency", latency, func(_ *plan.Plan, s []measure.Size) { s[0].Lat.P50 /= 2 }, 0, "-50.0%\n", ""},
		{"another test", bandwidth, func(p *plan.Plan, _ []measure.Size) { p.QPs = 7 }, 0, "",
			"the number of queue pairs was 2, and is 7"},
		{"no size in common", bandwidth, func(_ *plan.Plan, s []measure.Size) { s[0].Bytes, s[1].Bytes = 4, 8 }, 0, "",
			"no size in common"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bytes.Buffer
			worse, err := Compare(&b, run(tc.test, none), run(tc.test, tc.change), 0.03)
			if worse != tc.worse || fmt.Sprint(err) != "<nil>" && tc.err == "" {
				t.Errorf("%d worse, error %v; want %d\n%s", worse, err, tc.worse, b.String())
			}
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if !strings.Contains(b.String(), tc.shows) {
				t.Errorf("%q is not in\n%s", tc.shows, b.String())
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	c, res := bandwidth()
	var failed bytes.Buffer
	o := Outcome{Plan: c, Result: res, Failure: errors.New("it broke")}
	if err := o.JSON(&failed); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":   "not a JSON object",
		"[]": "not a JSON object",
		"{}": `schema ""`,
		`{"schema":"pureverbs.perf","version":2}`: "schema version 2",
		`{"schema":"pureverbs.perf","version":1}`: "no results",
		failed.String():                                                     "the run failed: it broke",
		strings.Repeat(" ", mostSaved+1):                                    "longer than",
		`{"schema":"pureverbs.perf.mesh","version":2}`:                      "schema version 2",
		`{"schema":"pureverbs.perf.mesh","version":1,"hosts":["a"]}`:        "1 hosts",
		`{"schema":"pureverbs.perf.mesh","version":1,"hosts":["a","b"]}`:    "a mesh; perf compare",
		`{"schema":"pureverbs.perf.mesh","version":1,"hosts":["a",{}]}`:     "not a JSON object of perf mesh",
		`{"schema":"pureverbs.perf","version":1,"results":[{"bytes":"a"}]}`: "not a JSON object",
	} {
		s, err := Read(strings.NewReader(text))
		if err == nil {
			err = s.Whole()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}
