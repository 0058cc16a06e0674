package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
)

// Distribution is a histogram of figures, with those that are bad in the bad colour.
type Distribution struct {
	Title, Desc string
	X           string // what the axis shows
	Values      []float64
	Bad         []float64 // which of them are; not in Values
	Lines       []Line
}

// Line is a value of its own in a drawing.
type Line struct {
	Value float64
	Name  string
}

type column struct {
	X, Y, W, H float64
	Class      string
	Title      string
}

type rule struct {
	X, Y1, Y2, TextY float64
	Anchor           string
	Name             string
}

type histogram struct {
	Distribution
	frame
	Columns []column
	Rules   []rule
}

const (
	lowHeight = 190 // of the drawing
	highLines = 34  // room above for the names of lines
	mostBins  = 60
)

// draw lays a histogram out, or returns nil if it has no value. The number of figures has a logarithmic axis: one bad
// pair among 40,000 must be seen.
func (d Distribution) draw(id string) *histogram {
	none := func(v float64) bool { return !Log.Fits(v) }
	all := slices.DeleteFunc(slices.Concat(d.Values, d.Bad), none)
	if len(all) == 0 {
		return nil
	}
	scale := lists.When(slices.Max(all) > 8*slices.Min(all), Log) // else Linear
	g := &histogram{Distribution: d, frame: newFrame(id, highLines, lowHeight+highLines)}
	shown := slices.Clone(all)
	for _, l := range d.Lines {
		if scale.Fits(l.Value) && l.Value < 2*slices.Max(all) && l.Value > slices.Min(all)/2 {
			shown = append(shown, l.Value)
		}
	}
	x := newAxis(scale, shown, left, plotWide)
	bin := func(v float64) int {
		return min(max(int(float64(mostBins)*(x.f(v)-x.low)/(x.high-x.low)), 0), mostBins-1)
	}
	var counts, bad [mostBins]int
	for i, list := range [][]float64{d.Values, d.Bad} {
		for _, v := range list {
			if Log.Fits(v) {
				counts[bin(v)]++
				bad[bin(v)] += i
			}
		}
	}
	most := slices.Max(counts[:])
	high := math.Log10(1 + float64(most))
	up := func(n int) float64 { return float64(g.Bottom-g.Top) * math.Log10(1+float64(n)) / high }
	g.XTicks = x.ticks()
	for n := 1; n <= most; n *= 10 {
		g.YTicks = append(g.YTicks, tick{round(float64(g.Bottom) - up(n)), fmt.Sprint(n)})
	}
	back := func(i int) float64 { // the value where a bin begins
		f := x.low + float64(i)*(x.high-x.low)/mostBins
		if scale == Log {
			return math.Pow(10, f)
		}
		return f
	}
	wide := float64(plotWide) / mostBins
	for i, n := range counts {
		if n == 0 {
			continue
		}
		title := fmt.Sprintf("%s to %s: %d", Number(back(i)), Number(back(i+1)), n) +
			lists.When(bad[i] > 0, fmt.Sprintf(", %d of them slow", bad[i]))
		add := func(class string, h float64) {
			g.Columns = append(g.Columns, column{X: round(left + float64(i)*wide + 0.5), W: round(wide - 1),
				Y: round(float64(g.Bottom) - h), H: round(h), Class: class, Title: title})
		}
		if bad[i] < n {
			add("usual", up(n))
		}
		if bad[i] > 0 {
			add("slow", up(n)*(float64(bad[i])/float64(n)))
		}
	}
	for i, l := range d.Lines {
		if !scale.Fits(l.Value) || x.f(l.Value) < x.low || x.f(l.Value) > x.high {
			continue
		}
		at, y := x.at(l.Value), float64(10+14*(i%2))
		g.Rules = append(g.Rules, rule{X: at, Y1: y, Y2: float64(g.Bottom), TextY: y + 3, Name: l.Name,
			Anchor: cmp.Or(lists.When(at > left+plotWide/2, "end"), "start")})
	}
	return g
}
