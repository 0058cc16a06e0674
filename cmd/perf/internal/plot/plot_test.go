package plot

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image/color"
	"image/png"
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

// TestBand: a band is in the plane, which shows all of it, below its line. Of one place it is a line upright.
func TestBand(t *testing.T) {
	s := Series{Name: "s", Marks: true, Points: []Point{{2, 100}, {4, 50}}, Band: []Span{{4, 10, 400}, {2, 90, 110},
		{math.NaN(), 1, 2}, {8, math.Inf(1), 2}}}
	d := Chart{XScale: Binary, Series: []Series{s}}.draw("c")
	var x1, y1, x2, y2, x3, y3, x4, y4 float64
	_, err := fmt.Sscanf(d.Lines[0].Band, "M%g,%g %g,%g %g,%g %g,%gz", &x1, &y1, &x2, &y2, &x3, &y3, &x4, &y4)
	if err != nil {
		t.Fatalf("%v in %s", err, d.Lines[0].Band)
	}
	if x1 != x4 || x2 != x3 || x1 >= x2 || y2 < top || y2 > y1 || y1 >= y4 || y4 >= y3 || y3 > height-bottom {
		t.Errorf("%s", d.Lines[0].Band)
	}
	s.Points, s.Band = s.Points[1:], s.Band[:1]
	c := Chart{XScale: Binary, Series: []Series{s}}
	text, err := c.HTML("c")
	if err != nil || strings.Count(string(text), `class="band"`) != 1 {
		t.Errorf("%v, %s", err, text)
	}
	if _, err := fmt.Sscanf(c.draw("c").Lines[0].Band, "M%g,%g %g,%gz", &x1, &y1, &x2, &y2); err != nil || x1 != x2 ||
		y2-y1 < 100 {
		t.Errorf("%v, %s", err, c.draw("c").Lines[0].Band)
	}
	s.Band = nil
	if text, _ := (Chart{Series: []Series{s}}).HTML("c"); strings.Contains(string(text), "band") {
		t.Errorf("a band without a range: %s", text)
	}
}

// TestLevels: what is worse has a higher level, and a level of its own.
func TestLevels(t *testing.T) {
	want := map[float64]Level{0: Missing, 0.5: Better2, 0.9: Better1, 1: Usual, 1.04: Usual, 1.06: Worse1, 1.2: Worse2,
		1.9: Worse3,
		2:   Worse4, 1000: Worse4, math.NaN(): Missing, math.Inf(1): Missing}
	for worse, want := range want {
		if got := LevelOf(worse); got != want {
			t.Errorf("%v times worse: level %d, want %d", worse, got, want)
		}
	}
	grey := func(l Level) float64 { // on white paper
		c := colours[l]
		over := func(v uint8) float64 { return 255 - (255-float64(v))*float64(c.A)/255 }
		return 0.2126*over(c.R) + 0.7152*over(c.G) + 0.0722*over(c.B)
	}
	for l := Usual; l < Slow; l++ {
		if grey(l) < grey(l+1)+5 {
			t.Errorf("level %d is %.0f without colours, the next %.0f", l, grey(l), grey(l+1))
		}
	}
	if colours[Slow] != colours[Failed] || colours[Slow].A != 255 {
		t.Errorf("bad has the colours %v and %v", colours[Slow], colours[Failed])
	}
}

// matrixOf has n hosts. Of the first two one direction is slow and one failed; the last is lost.
func matrixOf(n int) Matrix {
	m := Matrix{Unit: "Gb/s", Marks: make([]string, n)}
	m.Marks[n-1] = "lost"
	for i := range n {
		m.Names = append(m.Names, fmt.Sprintf("host-with-a-name-that-is-long-%d", i))
	}
	for i := range n - 1 {
		for k := range n - 1 {
			p := Pair{From: i, To: k, Value: 10, Level: Usual, Title: "t"}
			switch {
			case i == k:
				continue
			case i == 0 && k == 1:
				p.Value, p.Level = 5, Slow
			case i == 1 && k == 0:
				p.Value, p.Level = 0, Failed
			}
			m.Pairs = append(m.Pairs, p)
		}
	}
	return m
}

// TestMatrix_Fields: each pair of a small map is an element with its figure.
func TestMatrix_Fields(t *testing.T) {
	for _, n := range []int{3, MostWithText} {
		b, err := matrixOf(n).draw("m")
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Fields) != n*(n-1) || b.Picture != "" {
			t.Fatalf("%d hosts have %d fields, a picture of %d bytes", n, len(b.Fields), len(b.Picture))
		}
		if f := b.Fields[0]; f.Level != Slow || f.Text != "5" {
			t.Errorf("slow: %+v", f)
		}
		if f := b.Fields[n-1]; f.Level != Failed || f.Text != "×" {
			t.Errorf("failed: %+v", f)
		}
		if f := b.Fields[len(b.Fields)-1]; f.Level != Missing || f.Text != "" || !strings.Contains(f.Title,
			"not measured") {
			t.Errorf("not measured: %+v", f)
		}
		if len(b.Bars) != 2 || !b.Rows[0].Bad || b.Rows[0].Text != "host-with-a-name-that… (lost)" || len(b.Rows) != n {
			t.Errorf("%d bars, %d rows, the first is %+v", len(b.Bars), len(b.Rows), b.Rows[0])
		}
	}
}

// TestMatrix_Picture looks at the pixels of larger maps: of pairs, and of groups of them.
func TestMatrix_Picture(t *testing.T) {
	for _, n := range []int{MostWithText + 1, 200, 513, 1000, 2500} {
		m := matrixOf(20)
		if n < 20 {
			m = matrixOf(n)
		}
		for i := len(m.Names); i < n; i++ {
			m.Names, m.Marks = append(m.Names, "more"), append(m.Marks, "")
		}
		b, err := m.draw("m")
		if err != nil {
			t.Fatal(err)
		}
		const prefix = "data:image/png;base64,"
		packed, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(b.Picture), prefix))
		if err != nil || len(b.Fields) > 0 {
			t.Fatalf("%d fields, picture %.40s: %v", len(b.Fields), b.Picture, err)
		}
		img, err := png.Decode(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if size := img.Bounds().Size(); size.X != b.W || size.Y != b.H || b.W > 1000 || len(packed) > 100_000 {
			t.Errorf("%d hosts: %v pixels in %d bytes, drawn at %d × %d", n, size, len(packed), b.W, b.H)
		}
		pixel := func(from, to int) color.Color {
			return color.NRGBAModel.Convert(img.At(to/b.Step*b.Side+b.Side/2, from/b.Step*b.Side+b.Side/3))
		}
		for _, tc := range []struct {
			from, to int
			want     color.Color
		}{{0, 1, colours[Slow]}, {1, 0, colours[Failed]}, {5, 12, colours[Usual]}, {n - 2, n - 1, color.NRGBA{}}} {
			if n > mostFields && tc.want == colours[Failed] {
				continue // the same field
			}
			if got := pixel(tc.from, tc.to); got != tc.want {
				t.Errorf("%d hosts: %d to %d is %v, want %v", n, tc.from, tc.to, got, tc.want)
			}
		}
		for d := range 3 { // a bad pair is not smaller than this
			x := 1/b.Step*b.Side + b.Side/2 - 1 + d
			if got := color.NRGBAModel.Convert(img.At(x, 0)); n <= mostFields && got != colours[Slow] {
				t.Errorf("%d hosts: the pixel %d of a slow pair is %v", n, d, got)
			}
		}
		if has := b.Values != ""; has != (n <= mostValues) {
			t.Errorf("%d hosts have figures for the script: %v", n, has)
		}
		if len(b.Rows) > 80 || len(b.Rows) < 2 {
			t.Errorf("%d hosts have %d names", n, len(b.Rows))
		}
	}
}

// TestSpread: each bad host is named, as far as there is room, and no name hides another.
func TestSpread(t *testing.T) {
	for _, tc := range []struct {
		fields, wide int
		bad          []int
		want         int // bad ones with a name
	}{
		{200, 4, nil, 0}, {200, 4, []int{3, 4, 5, 199}, 4}, {1000, 1, []int{10, 11, 12, 13, 500}, 5}, {16, 64, []int{1,
			2}, 2},
		{100, 1, []int{98, 99}, 1},
	} {
		bad := make([]bool, tc.fields)
		for _, i := range tc.bad {
			bad[i] = true
		}
		labels := spread(bad, lineHigh, tc.wide)
		named := 0
		for i, l := range labels {
			if bad[l.field] {
				named++
			}
			for _, o := range labels[:i] {
				if l.at-o.at < lineHigh && o.at-l.at < lineHigh {
					t.Errorf("%+v: names at %d and %d", tc, o.at, l.at)
				}
			}
		}
		if named != tc.want || len(labels) < min(tc.fields, 4) {
			t.Errorf("%+v: %d bad ones have a name, %d in all", tc, named, len(labels))
		}
	}
}

// TestMatrix_Values: the page's script gets each figure to four digits.
func TestMatrix_Values(t *testing.T) {
	m := matrixOf(30)
	for i := range m.Pairs {
		if m.Pairs[i].Level != Failed {
			m.Pairs[i].Value = 0.001 * math.Pow(1.013, float64(i))
		}
	}
	b, err := m.draw("m")
	if err != nil {
		t.Fatal(err)
	}
	packed, err := base64.RawURLEncoding.DecodeString(b.Values)
	if err != nil || len(packed) != 2*30*30 {
		t.Fatalf("%d bytes, %v", len(packed), err)
	}
	for _, p := range m.Pairs {
		code := binary.LittleEndian.Uint16(packed[2*(p.From*30+p.To):])
		if p.Level == Failed {
			if code != failedValue {
				t.Errorf("failed is %d", code)
			}
			continue
		}
		got := b.Low * math.Exp(float64(code-leastValue)/(mostValue-leastValue)*math.Log(b.High/b.Low))
		if math.Abs(got/p.Value-1) > 1e-3 {
			t.Errorf("%v is packed as %v", p.Value, got)
		}
	}
	if code := binary.LittleEndian.Uint16(packed[2*(29*30+1):]); code != noValue {
		t.Errorf("a pair that was not measured is %d", code)
	}
}

// TestDistribution: one slow pair among many is seen, in its own class.
func TestDistribution(t *testing.T) {
	d := Distribution{Title: "<b>", X: "Gb/s", Bad: []float64{40}, Lines: []Line{{97, "median 97"}, {1e6, "far"}, {-1,
		"none"}}}
	for i := range 40000 {
		d.Values = append(d.Values, 96+float64(i%20)/10)
	}
	g := d.draw("d")
	slow := 0
	for _, c := range g.Columns {
		if c.Class == "slow" {
			slow++
			if c.H < 5 || c.H+c.Y > float64(g.Bottom)+0.2 {
				t.Errorf("slow: %+v", c)
			}
		}
	}
	if slow != 1 || len(g.Rules) != 1 || g.Rules[0].Name != "median 97" {
		t.Errorf("%d slow columns, lines %+v", slow, g.Rules)
	}
	text, err := d.HTML("d")
	if err != nil || strings.Contains(string(text), "<b>") || strings.Contains(string(text), "NaN") {
		t.Errorf("%v, %s", err, text)
	}
	for _, values := range [][]float64{nil, {math.NaN()}, {math.Inf(1), -1, 0}} {
		if text, err := (Distribution{Values: values}).HTML("d"); text != "" || err != nil {
			t.Errorf("%v: %s, %v", values, text, err)
		}
	}
	for _, values := range [][]float64{{1}, {1e-17, 9e17}, {5, 5, 5}} {
		if text, err := (Distribution{Values: values}).HTML("d"); text == "" || err != nil ||
			strings.Contains(string(text), "NaN") {
			t.Errorf("%v: %s, %v", values, text, err)
		}
	}
}

// TestRules: the rate of the link is a line in a chart, unless it is so far above that nothing else would be seen.
func TestRules(t *testing.T) {
	for _, tc := range []struct {
		scale Scale
		rate  float64
		want  int
	}{{Linear, 100, 1}, {Linear, 400, 0}, {Log, 400, 1}, {Linear, math.NaN(), 0}, {Linear, -1, 0}} {
		d := Chart{YScale: tc.scale, Series: []Series{{Points: []Point{{1, 97}, {2, 90}}}},
			Rules: []Line{{tc.rate, "line rate"}}}.draw("c")
		if len(d.Rules) != tc.want {
			t.Errorf("%+v: lines %v", tc, d.Rules)
		}
		if tc.want == 1 && (d.Rules[0].At < top || d.Rules[0].At > height/2) {
			t.Errorf("%+v: the line is at %v", tc, d.Rules)
		}
	}
}
