package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
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
	run := func(f func() (*plan.Plan, *engine.Result), change func(*plan.Plan, []measure.Size)) []*Saved {
		c, res := f()
		res.Started = time.Unix(1800000000, 0)
		change(c, res.Sizes)
		return []*Saved{saved(t, c, res)}
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
		{"the same", bandwidth, none, 0,
			"     65536  BW [Gb/s]                7                      7            +0.0%", ""},
		{"within the tolerance", bandwidth, func(_ *plan.Plan, s []measure.Size) {
			s[1].BW.BitsPerSecond *= 0.975
		}, 0, "-2.5%  (p=0.5000 n=1+1)  within the tolerance\n", ""},
		{"less bandwidth", bandwidth, func(_ *plan.Plan, s []measure.Size) {
			s[1].BW.BitsPerSecond *= 0.96
		}, 1, "-4.0%  (p=0.5000 n=1+1)  worse\n", ""},
		{"more bandwidth", bandwidth, func(_ *plan.Plan, s []measure.Size) {
			s[1].BW.BitsPerSecond *= 2
		}, 0, "+100.0%", ""},
		{"a figure is gone", bandwidth, func(_ *plan.Plan, s []measure.Size) {
			s[0].BW = &measure.Bandwidth{}
		}, 1, "-100.0%  (p=1.0000 n=1+0)  worse\n", ""},
		{"higher latency", latency, func(_ *plan.Plan, s []measure.Size) {
			s[0].Lat.P50, s[0].Lat.P99 = 2*s[0].Lat.P50, 1.09*s[0].Lat.P99
		}, 1, "+100.0%  (p=0.5000 n=1+1)  worse\n", ""},
		{"higher tail", latency, func(_ *plan.Plan, s []measure.Size) { s[0].Lat.P99 *= 1.11 }, 1, "+11.0%", ""},
		{"lower latency", latency, func(_ *plan.Plan, s []measure.Size) { s[0].Lat.P50 /= 2 }, 0, "-50.0%", ""},
		{"another test", bandwidth, func(p *plan.Plan, _ []measure.Size) { p.Queues.QPs = 7 }, 0, "",
			"the number of queue pairs was 2, and is 7"},
		{"no size in common", bandwidth, func(_ *plan.Plan, s []measure.Size) { s[0].Bytes, s[1].Bytes = 4, 8 }, 0, "",
			"no size or pair of hosts in common"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tol := Tolerance{Usual: 0.03, Tail: 0.1, Alone: true}
			c, err := Compare(run(tc.test, none), run(tc.test, tc.change), tol)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := c.Print(&b); err != nil || c.Worse != tc.worse || !strings.Contains(b.String(), tc.shows) ||
				!strings.Contains(b.String(), "# the tolerance alone decides: a test takes 6 runs a side") {
				t.Errorf("%d worse, want %d, and %q in\n%s", c.Worse, tc.worse, tc.shows, b.String())
			}
			// Without a tolerance of its own, one run a side tells nothing that is still there.
			tol.Alone = false
			if c, err = Compare(run(tc.test, none), run(tc.test, tc.change), tol); err != nil ||
				c.TooFew+c.Worse != len(c.Figures) || c.Needs != 6 || c.Alone {
				t.Errorf("%+v, %v; want too few runs", c, err)
			}
		})
	}
}

// Files of one test are one series: a mesh by all pairs and by the hosts, a stream by what carried it.
func TestCompareSeries(t *testing.T) {
	read := func(text string) *Saved {
		t.Helper()
		s, err := Read(strings.NewReader(text))
		if err == nil {
			err = s.Whole()
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	mesh := func(b2 float64) *Saved { // what host b receives
		var pairs []string
		for _, from := range []string{"a", "b", "c", "d"} {
			for i, to := range []string{"a", "b", "c", "d"} {
				gbits := 100 + float64(i)
				if to == "b" {
					gbits *= b2
				}
				if from != to {
					pairs = append(pairs, fmt.Sprintf(`{"from":%q,"to":%q,"bandwidth_bits_per_second":%ve9,`+
						`"latency_p50_ns":1500}`, from, to, gbits))
				}
			}
		}
		return read(`{"schema":"pureverbs.perf.mesh","version":1,"test":{"verb":"write"},"hosts":["a","b","c","d"],` +
			`"pairs":[` + strings.Join(pairs, ",") + `]}`)
	}
	stream := func(tcp float64) *Saved {
		results := ""
		for i := range 8 {
			results += fmt.Sprintf(`{"over":"stream","bytes":8,"latency":{"samples":999,"latency_p50_ns":%d}},`+
				`{"over":"tcp","bytes":8,"latency":{"samples":999,"latency_p50_ns":%v}},`, 1000+i, tcp+float64(i))
		}
		return read(`{"schema":"pureverbs.perf","version":1,"test":{"verb":"stream","metric":"lat"},"peer":"h:1",` +
			`"results":[` + strings.TrimSuffix(results, ",") + `]}`)
	}
	of := func(n int, s *Saved) (all []*Saved) {
		for range n {
			all = append(all, s)
		}
		return all
	}
	for _, tc := range []struct {
		name     string
		old, cur []*Saved
		want     string // the figures that are worse
	}{
		{"the same meshes", of(9, mesh(1)), of(9, mesh(1)), ""},
		{"one host of a mesh", of(9, mesh(1)), of(9, mesh(0.9)), "b receives"},
		{"what carries it", of(8, stream(9000)), of(8, stream(9900)), "tcp 8"},
	} {
		c, err := Compare(tc.old, tc.cur, Tolerance{Usual: 0.03, Tail: 0.1})
		if err != nil {
			t.Fatal(err)
		}
		var bad []string
		for _, f := range c.Figures {
			if f.Verdict == worse {
				bad = append(bad, f.label())
			}
		}
		if got := strings.Join(bad, ", "); got != tc.want || c.TooFew > 0 {
			t.Errorf("%s: worse is %q, want %q; %+v", tc.name, got, tc.want, c)
		}
	}
	if _, err := Compare(of(1, mesh(1)), of(1, process([]float64{1})), Tolerance{}); err == nil ||
		!strings.Contains(err.Error(), "the schema was") {
		t.Errorf("a mesh and a run: %v", err)
	}
}

// The object has the figures that the table has.
func TestCompareJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	runs := func(times float64) []*Saved {
		return side(8, func() *Saved {
			c, res := latency()
			v := times * math.Exp(0.01*rng.NormFloat64())
			res.Sizes[0].Lat.P50 = measure.Percentile(v * 1000)
			return saved(t, c, res)
		})
	}
	c, err := Compare(runs(1), runs(2), Tolerance{Usual: 0.03})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var d struct {
		Schema  string
		Worse   int
		Figures []struct {
			Bytes   int
			Figure  string
			Verdict string
			Change  float64
			P       float64
			Old     struct {
				Median, Low, High float64
				Runs              int
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	f := d.Figures[0]
	if d.Schema != "pureverbs.perf.compare" || d.Worse != 1 || f.Figure != "latency_p50_ns" || f.Verdict != "worse" ||
		f.Bytes != 2 || f.Change < 0.9 || f.P > 0.001 || f.Old.Runs != 8 || !(f.Old.Low < f.Old.Median) ||
		!(f.Old.High > f.Old.Median) || d.Figures[1].Verdict != "same" {
		t.Errorf("%s", b.String())
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
		`{"schema":"pureverbs.perf","version":3}`: "schema version 3",
		`{"schema":"pureverbs.perf","version":2}`: "no results",
		`{"schema":"pureverbs.perf","version":1}`: "no results",
		failed.String():                                                     "the run failed: it broke",
		strings.Repeat(" ", mostSaved+1):                                    "longer than",
		`{"schema":"pureverbs.perf.mesh","version":2}`:                      "schema version 2",
		`{"schema":"pureverbs.perf.mesh","version":1,"hosts":["a"]}`:        "1 hosts",
		`{"schema":"pureverbs.perf.mesh","version":1,"hosts":["a","b"]}`:    "no results",
		`{"schema":"pureverbs.perf.mesh","version":1,"hosts":["a",{}]}`:     "not a JSON object of rdmaperf mesh",
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
