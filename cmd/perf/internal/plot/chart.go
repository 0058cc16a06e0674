package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
)

// Point is one figure.
type Point struct{ X, Y float64 }

// Span is the range of several figures.
type Span struct{ X, Low, High float64 }

// Series is a line of a chart.
type Series struct {
	Name   string
	Colour int  // counts from 0; they repeat after Colours
	Dashed bool // a second line of the same colour
	Marks  bool // a mark at each point
	Points []Point
	Band   []Span // an area, where points are the middle of several figures
}

// Colours is the number of colours, Marks that of the shapes of marks.
const (
	Colours = 8
	Marks   = 4
)

// Chart is a diagram of lines.
type Chart struct {
	Title  string
	Desc   string // for readers who cannot see it
	X, Y   string // what the axes show
	XScale Scale
	YScale Scale
	Series []Series
	Rules  []Line // horizontal lines, as the rate of the link; those far above all points are left out
}

// The size of a drawing, and the room for its labels.
const (
	width, height      = 820, 400
	left, right        = 84, 24
	top, bottom        = 14, 54
	plotWide, plotHigh = width - left - right, height - top - bottom
)

// mostAbove is how far above all points a rule may be on a linear axis, so that points are not pressed down.
const mostAbove = 3

// Spread returns Log if the figures are so far apart that small ones would not be seen, else Linear.
func Spread(series []Series, ratio float64) Scale {
	low, high := math.Inf(1), 0.0
	for _, s := range series {
		for _, p := range s.Points {
			if Log.Fits(p.Y) {
				low, high = min(low, p.Y), max(high, p.Y)
			}
		}
	}
	if high > ratio*low {
		return Log
	}
	return Linear
}

type mark struct {
	At    string // a translation
	Path  string
	Title string
}

type line struct {
	Name   string
	Class  string
	Shape  string // the mark of the legend
	Points string
	Band   string // a path
	Marks  []mark
}

// frame is a drawing with two axes.
type frame struct {
	ID                       string
	Width, Height            int
	Left, Right, Top, Bottom int // edges of the plane
	MidX, MidY               int
	XTicks, YTicks           []tick
}

func newFrame(id string, top, height int) frame {
	return frame{ID: id, Width: width, Height: height, Left: left, Right: width - right, Top: top,
		Bottom: height - bottom, MidX: left + plotWide/2, MidY: (top + height - bottom) / 2}
}

// drawing is a chart with pixels for figures.
type drawing struct {
	Chart
	frame
	Rules []tick
	Lines []line
}

// shapes of marks, around 0,0.
var shapes = [Marks]string{
	"M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0z", "M-3,-3h6v6h-6z", "M0,-4.2L4,3H-4z", "M0,-4.4L4.4,0L0,4.4L-4.4,0z",
}

// draw lays a chart out, or returns nil if it has no point.
func (c Chart) draw(id string) *drawing {
	d := &drawing{Chart: c, frame: newFrame(id, top, height)}
	var xs, ys []float64
	kept := slices.Clone(c.Series)
	for s := range lists.Each(kept) {
		s.Points = slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool {
			return !c.XScale.Fits(p.X) || !c.YScale.Fits(p.Y)
		})
		s.Band = slices.DeleteFunc(slices.Clone(s.Band), func(b Span) bool {
			return !c.XScale.Fits(b.X) || !c.YScale.Fits(b.Low) || !c.YScale.Fits(b.High)
		})
		slices.SortStableFunc(s.Points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
		slices.SortStableFunc(s.Band, func(a, b Span) int { return cmp.Compare(a.X, b.X) })
		for _, p := range s.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
		for _, b := range s.Band {
			ys = append(ys, b.Low, b.High)
		}
	}
	if len(xs) == 0 {
		return nil
	}
	top := slices.Max(ys)
	for _, r := range c.Rules {
		if c.YScale.Fits(r.Value) && (r.Value < mostAbove*top || c.YScale == Log) {
			ys = append(ys, r.Value)
		}
	}
	x, y := newAxis(c.XScale, xs, left, plotWide), newAxis(c.YScale, ys, height-bottom, -plotHigh)
	d.XTicks, d.YTicks = x.ticks(), y.ticks()
	for _, r := range c.Rules {
		if c.YScale.Fits(r.Value) && y.f(r.Value) <= y.high {
			d.Rules = append(d.Rules, tick{y.at(r.Value), r.Name})
		}
	}
	for _, s := range kept {
		if len(s.Points) == 0 {
			continue
		}
		n := s.Colour % Colours
		l := line{Name: s.Name, Class: fmt.Sprintf("s%d", n) + lists.When(s.Dashed, " dashed"),
			Shape: shapes[(s.Colour+s.Colour/Colours)%Marks]}
		pixels := make([]Point, len(s.Points))
		for k, p := range s.Points {
			pixels[k] = Point{x.at(p.X), y.at(p.Y)}
			if s.Marks {
				l.Marks = append(l.Marks, mark{fmt.Sprintf("translate(%g,%g)", pixels[k].X, pixels[k].Y), l.Shape,
					fmt.Sprintf("%s: %s, %s", s.Name, value(c.XScale, p.X), Number(p.Y))})
			}
		}
		if !s.Marks {
			l.Shape = ""
		}
		var b strings.Builder
		for _, p := range thin(pixels) {
			fmt.Fprintf(&b, "%g,%g ", p.X, p.Y)
		}
		l.Points = strings.TrimSuffix(b.String(), " ")
		l.Band = outline(s.Band, x, y)
		d.Lines = append(d.Lines, l)
	}
	return d
}

// outline goes along the upper ends of a band, and back along the lower ones. Of a single span it is a line.
func outline(band []Span, x, y axis) string {
	if len(band) == 0 {
		return ""
	}
	var there, back string
	for _, s := range band {
		there += fmt.Sprintf(" %g,%g", x.at(s.X), y.at(s.High))
		back = fmt.Sprintf(" %g,%g", x.at(s.X), y.at(s.Low)) + back
	}
	return "M" + there[1:] + back + "z"
}

func value(s Scale, v float64) string {
	if s == Binary {
		return Bytes(v) + " bytes"
	}
	return Number(v)
}

// thin leaves of the points in a column of pixels the first, the lowest, the highest and the last: the drawing is
// the same. Points come in the order of X.
func thin(points []Point) []Point {
	var out []Point
	for len(points) > 0 {
		n := 1
		for n < len(points) && math.Floor(points[n].X) == math.Floor(points[0].X) {
			n++
		}
		column := points[:n]
		points = points[n:]
		if n <= 4 {
			out = append(out, column...)
			continue
		}
		low, high := 0, 0
		for i, p := range column {
			if p.Y < column[low].Y {
				low = i
			}
			if p.Y > column[high].Y {
				high = i
			}
		}
		keep := []int{0, min(low, high), max(low, high), n - 1}
		for _, i := range slices.Compact(keep) {
			out = append(out, column[i])
		}
	}
	return out
}
