package plot

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func labels(a axis) string {
	var out []string
	for _, t := range a.ticks() {
		out = append(out, t.Label)
	}
	return strings.Join(out, ", ")
}

func TestTicks(t *testing.T) {
	for _, tc := range []struct {
		scale  Scale
		values []float64
		want   string
	}{
		{Linear, []float64{3, 97}, "0, 20, 40, 60, 80, 100"},
		{Linear, []float64{0.0021}, "0, 0.0005, 0.001, 0.0015, 0.002"},
		{Linear, []float64{0}, "0, 0.2, 0.4, 0.6, 0.8, 1"},
		{Log, []float64{0.08, 97}, "0.01, 0.1, 1, 10, 100"},
		{Log, []float64{2, 60}, "1, 2, 5, 10, 20, 50, 100"},
		{Log, []float64{1, 1}, "0.1, 0.2, 0.5, 1, 2, 5, 10"},
		{Binary, []float64{2, 8 << 20}, "2, 8, 32, 128, 512, 2K, 8K, 32K, 128K, 512K, 2M, 8M"},
		{Binary, []float64{4096}, "2K, 4K, 8K"},
		{Quantiles, []float64{1, 20000}, "0 %, 50 %, 90 %, 99 %, 99.9 %, 99.99 %"},
	} {
		if got := labels(newAxis(tc.scale, tc.values, 0, 100)); got != tc.want {
			t.Errorf("%v of scale %d: %s, want %s", tc.values, tc.scale, got, tc.want)
		}
	}
}

// TestExtremes: whatever a file says, a chart has few ticks, and each number in it is one.
func TestExtremes(t *testing.T) {
	for _, values := range [][]float64{
		{1e-17, 9e17}, {9e17}, {1e-17}, {0}, {math.Inf(1), math.NaN(), -1, 1e18, 5}, {1, 1 + 1e-15},
	} {
		for _, scale := range []Scale{Linear, Log, Binary, Quantiles} {
			s := Series{Name: "s", Marks: true}
			for i, v := range values {
				s.Points = append(s.Points, Point{v, values[len(values)-1-i]})
			}
			c := Chart{XScale: scale, YScale: scale, Series: []Series{s}}
			text, err := c.HTML("x")
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range []string{"NaN", "Inf", "e+", "e-"} {
				if strings.Contains(strings.ReplaceAll(string(text), "legend", ""), "=\""+bad) {
					t.Errorf("%v: %s in %s", values, bad, text)
				}
			}
			if d := c.draw("x"); d != nil && (len(d.XTicks) > 70 || len(d.YTicks) > 70) {
				t.Errorf("%v, scale %d: %d ticks", values, scale, len(d.XTicks))
			}
		}
	}
}

// TestThin: what is left of many points covers the same pixels.
func TestThin(t *testing.T) {
	var points []Point
	for i := range 10000 {
		points = append(points, Point{float64(i) / 100, float64(i * 7919 % 1000)})
	}
	points[5050].Y = 1e6
	got := thin(points)
	if len(got) > 400 || len(got) < 300 {
		t.Errorf("%d points are left", len(got))
	}
	peak := 0.0
	for i, p := range got {
		peak = max(peak, p.Y)
		if i > 0 && p.X < got[i-1].X {
			t.Fatalf("%v after %v", p, got[i-1])
		}
	}
	if peak != 1e6 {
		t.Errorf("the peak is %v, want 1e6", peak)
	}
}

func TestChart(t *testing.T) {
	c := Chart{Title: "<b>", XScale: Binary, YScale: Linear, Series: []Series{
		{Name: "none"},
		{Name: `"><script>`, Colour: 9, Dashed: true, Marks: true, Points: []Point{{64, 4}, {2, 1}, {0, 3}}},
	}}
	text, err := c.HTML("c")
	if err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]int{"<polyline": 1, `class="mark"`: 2, "<li>": 1, "series s1 dashed": 2,
		"<script": 0, "<b>": 0, "&lt;script&gt;: 64 bytes, 4": 1} {
		if got := strings.Count(string(text), want); got != n {
			t.Errorf("%d times %s, want %d\n%s", got, want, n, text)
		}
	}
	if text, err := (Chart{Series: c.Series[:1]}).HTML("c"); text != "" || err != nil {
		t.Errorf("a chart of nothing: %s, %v", text, err)
	}
}

func TestMatrix(t *testing.T) {
	for _, n := range []int{2, mostWithText, mostWithText + 1} {
		m := Matrix{Unit: "Gb/s", Names: make([]string, n), Cells: make([][]Cell, n)}
		for i := range n {
			m.Names[i] = fmt.Sprintf("host-with-a-name-that-is-long-%d", i)
			m.Cells[i] = make([]Cell, n)
			for k := range n {
				m.Cells[i][k] = Cell{Value: 10, Title: "t"}
			}
		}
		m.Cells[0][1] = Cell{Value: 5, Marked: true}
		m.Cells[1][0] = Cell{Failed: true}
		b := m.draw("m")
		if len(b.Fields) != n*(n-1) {
			t.Fatalf("%d hosts have %d fields", n, len(b.Fields))
		}
		text := map[bool]string{true: "5"}[n <= mostWithText]
		if f := b.Fields[0]; f.Class != "h4 slow" || f.Text != text {
			t.Errorf("slow: %+v, want %q", f, text)
		}
		if f := b.Fields[n-1]; f.Class != "failed" {
			t.Errorf("failed: %+v", f)
		}
		if f := b.Fields[len(b.Fields)-1]; n > 2 && f.Class != "h8" {
			t.Errorf("the best: %+v", f)
		}
	}
}
