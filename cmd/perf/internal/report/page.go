package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plot"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/printable"
)

//go:embed page.tmpl
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"clean":   printable.Message,
	"name":    name,
	"grouped": grouped,
	"number":  plot.Number,
	"micros":  func(ns float64) string { return strings.TrimSpace(micros(ns)) },
	"gbits":   func(v *float64) string { return orDash(known(v) / 1e9) },
	"mpps":    func(v *float64) string { return orDash(known(v) / 1e6) },
	"rate":    func(v float64) string { return plot.Number(v / 1e9) },
	"at":      func(p measure.Percentile) string { return strings.Replace(percentile(p), "-", "–", 1) },
	"usec":    func(v *float64) string { return orDash(known(v) / 1e3) },
}).Parse(pageText))

func orDash(v float64) string {
	if v <= 0 {
		return "–"
	}
	return plot.Number(v)
}

// MostRuns is how many files a page shows: with more, lines cannot be distinguished.
const MostRuns = plot.Colours * plot.Marks

// Named is an object with the name that its page gives it.
type Named struct {
	Name string
	*Saved

	differ string // what other runs of the page have not
}

// Latency reports whether a run measured latencies.
func (n Named) Latency() bool { return n.Test.Metric == wire.Latency.String() }

// Line is the command line, to be read.
func (n Named) Line() string {
	words := slices.Clone(n.Command)
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\"'\\") {
			words[i] = fmt.Sprintf("%q", w)
		}
	}
	return "rdmaperf " + strings.Join(words, " ")
}

// Software reports whether a run was on a device of software.
func (n Named) Software() bool { return n.Local != nil && n.Local.Software }

// charts collects what is drawn.
type charts struct {
	list []template.HTML
	ids  int
	err  error
}

func (c *charts) add(html template.HTML, err error) {
	c.count(err)
	if html != "" {
		c.list = append(c.list, html)
	}
}

// count keeps the first error.
func (c *charts) count(err error) {
	c.err = cmp.Or(c.err, err)
}

// id returns the next name of a drawing.
func (c *charts) id() string {
	c.ids++
	return fmt.Sprintf("chart%d", c.ids)
}

// HTML writes a page that shows runs and meshes, and needs no other file.
func HTML(w io.Writer, runs []Named, program string, now time.Time) error {
	var c charts
	var meshes []*view
	runs = slices.Clone(runs)
	nameRuns(runs)
	for _, r := range runs {
		if r.Mesh != nil {
			meshes = append(meshes, newView(r, &c))
		}
	}
	c.overSize(runs)
	c.percentiles(runs)
	c.overTime(runs)
	if c.err != nil {
		return c.err
	}
	return page.Execute(w, struct {
		Runs    []Named
		Meshes  []*view
		Charts  []template.HTML
		Policy  string
		Style   template.CSS
		Script  template.JS
		Program string
		Written string
	}{runs, meshes, c.list, policy(), plot.Style(), scriptText(), program, now.UTC().Format(time.RFC3339)})
}

// Figures that differ by more than this factor are drawn on a logarithmic axis.
const (
	steepRates     = 30
	steepLatencies = 8
)

// overSize draws what depends on the size of messages.
func (c *charts) overSize(runs []Named) {
	for _, f := range []struct {
		title, y string
		line     bool // with the line rate
		steep    float64
		lines    []string // next to the run's name
		figures  func(*savedSize) []float64
	}{
		{"Bandwidth over message size", "bandwidth [Gb/s]", true, steepRates, []string{""},
			func(s *savedSize) []float64 { return []float64{known(s.Bits) / 1e9} }},
		{"Message rate over message size", "message rate [million/s]", false, steepRates, []string{""},
			func(s *savedSize) []float64 { return []float64{known(s.Rate) / 1e6} }},
		{"Latency over message size", "latency [µs]", false, steepLatencies, []string{", median", ", 99th percentile"},
			func(s *savedSize) []float64 { return []float64{float64(s.P50) / 1e3, float64(s.P99) / 1e3} }},
	} {
		chart := plot.Chart{Title: f.title, X: "message size [bytes]", Y: f.y, XScale: plot.Binary,
			Rules: lists.When(f.line, lineRates(runs))}
		for i, r := range runs {
			for k, name := range f.lines {
				s := plot.Series{Name: r.Label() + name + r.inRounds(), Colour: i, Dashed: k > 0, Marks: true}
				for _, rounds := range r.sizes() {
					var ys []float64
					for _, size := range rounds {
						if y := f.figures(size)[k]; y > 0 {
							ys = append(ys, y)
						}
					}
					across(&s, float64(rounds[0].Bytes), ys)
				}
				chart.Series = append(chart.Series, s)
			}
		}
		c.chart(chart, f.steep)
	}
}

// sizes returns the results of each size, in the order of the first round.
func (n Named) sizes() [][]*savedSize {
	return lists.Groups(slices.Collect(lists.Each(n.Results)), func(s *savedSize) uint64 { return s.Bytes })
}

// inRounds says what a line of a run with rounds is.
func (n Named) inRounds() string {
	most := 0
	for _, rounds := range n.sizes() {
		most = max(most, len(rounds))
	}
	if most < 2 {
		return ""
	}
	return fmt.Sprintf(", median of %d rounds, in a band from the lowest to the highest", most)
}

// across adds the median of rounds to a line, and their range to its band.
func across(s *plot.Series, x float64, rounds []float64) {
	if len(rounds) == 0 {
		return
	}
	y, _, _ := median(rounds)
	s.Points = append(s.Points, plot.Point{X: x, Y: y})
	if len(rounds) > 1 {
		s.Band = append(s.Band, plot.Span{X: x, Low: slices.Min(rounds), High: slices.Max(rounds)})
	}
}

// chart draws a chart whose axis and description are left to set.
func (c *charts) chart(chart plot.Chart, steep float64) {
	chart.YScale = plot.Spread(chart.Series, steep)
	lines := lists.Count(chart.Series, func(s *plot.Series) bool { return len(s.Points) > 0 })
	chart.Desc = fmt.Sprintf("%s, %s against %s, %d lines. The figures are in the tables below.", chart.Title, chart.Y,
		chart.X, lines)
	c.add(chart.HTML(c.id()))
}

// percentiles draws the distributions of latencies: in one chart, or in one a size if there are too many.
func (c *charts) percentiles(runs []Named) {
	chart := plot.Chart{X: "percentile", Y: "latency [µs]", XScale: plot.Quantiles}
	var all []plot.Series
	bySize := map[uint64][]plot.Series{}
	for i, r := range runs {
		for _, rounds := range r.sizes() {
			points := distribution(rounds)
			if len(points) == 0 {
				continue
			}
			name, bytes := r.ofSize(rounds), rounds[0].Bytes
			all = append(all, plot.Series{Name: name, Colour: len(all), Points: points})
			bySize[bytes] = append(bySize[bytes], plot.Series{Name: name, Colour: i, Points: points})
		}
	}
	if len(all) <= plot.Colours {
		chart.Title, chart.Series = "Percentiles of latency", all
		c.chart(chart, steepLatencies)
		return
	}
	for _, n := range slices.Sorted(maps.Keys(bySize)) {
		chart.Title = fmt.Sprintf("Percentiles of latency, %s bytes", plot.Bytes(float64(n)))
		chart.Series = bySize[n]
		c.chart(chart, steepLatencies)
	}
}

// ofSize names a size of a run.
func (n Named) ofSize(rounds []*savedSize) string {
	return fmt.Sprintf("%s, %s bytes", n.Label(), plot.Bytes(float64(rounds[0].Bytes)))
}

// distribution is the histogram of all rounds as a curve: up to which latency there are how many of all samples.
func distribution(rounds []*savedSize) []plot.Point {
	var buckets []measure.Bucket
	var all, sum float64
	for _, s := range rounds {
		for _, b := range s.Histogram {
			if b.Count > 0 {
				buckets = append(buckets, b)
				all += float64(b.Count)
			}
		}
	}
	slices.SortStableFunc(buckets, func(a, b measure.Bucket) int { return cmp.Compare(a.ToNs, b.ToNs) })
	var points []plot.Point
	for _, b := range buckets {
		if sum == 0 {
			points = append(points, plot.Point{X: 1, Y: b.FromNs / 1e3})
		}
		sum += float64(b.Count)
		// The last sample counts half, because its percentile is not 100.
		points = append(points, plot.Point{X: all / max(all-sum, 0.5), Y: b.ToNs / 1e3})
	}
	return points
}

// overTime draws intervals.
func (c *charts) overTime(runs []Named) {
	bw := plot.Chart{Title: "Bandwidth over time", X: "time [s]", Y: "bandwidth [Gb/s]", Rules: lineRates(runs)}
	rate := plot.Chart{Title: "Message rate over time", X: "time [s]", Y: "message rate [million/s]"}
	add := func(name string, colour int, rounds [][]partDoc) {
		b, m := plot.Series{Name: name, Colour: colour}, plot.Series{Name: name, Colour: colour}
		most := 0
		for _, list := range rounds {
			most = max(most, len(list))
		}
		b.Marks = most <= 100
		m.Marks = b.Marks
		at := make([]float64, len(rounds))
		for k := range most {
			var ends, bits, rates []float64
			for r, list := range rounds {
				if k >= len(list) {
					continue
				}
				i := &list[k]
				at[r] += i.Seconds
				ends = append(ends, at[r])
				if i.Bits != nil {
					bits = append(bits, *i.Bits/1e9)
				}
				if i.Rate != nil {
					rates = append(rates, *i.Rate/1e6)
				}
			}
			end, _, _ := median(ends)
			across(&b, end, bits)
			across(&m, end, rates)
		}
		bw.Series, rate.Series = append(bw.Series, b), append(rate.Series, m)
	}
	for i, r := range runs {
		add(r.Label(), i, [][]partDoc{r.Parts})
		for _, rounds := range r.sizes() {
			intervals := lists.Map(rounds, func(s *savedSize) []partDoc { return s.Parts })
			add(r.ofSize(rounds)+r.inRounds(), i, intervals)
		}
	}
	for _, chart := range []plot.Chart{bw, rate} {
		chart.Desc = chart.Title + ", from the intervals that the runs reported."
		c.add(chart.HTML(c.id()))
	}
}
