package report

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
)

const hostile = `"><script>alert(1)</script><img src=http://x.invalid/ onerror=alert(1)>'` + "\u202e\x1b[2J"

// meshObject is the object of a mesh of three hosts.
const meshObject = `{"schema":"pureverbs.perf.mesh","version":1,"hosts":["a","b","c"],"slow_hosts":[{"host":"c","part":"receives","figure":"latency_p50_ns"}],
	"lost_hosts":[{"host":"b","error":"it broke"}],"test":{"verb":"write"},"pairs":[
	{"from":"a","to":"b","bandwidth_bits_per_second":9e10,"latency_p50_ns":1700},
	{"from":"b","to":"a","bandwidth_bits_per_second":9.1e10,"latency_p50_ns":1710},
	{"from":"a","to":"c","bandwidth_bits_per_second":3e10,"latency_p50_ns":4000},
	{"from":"c","to":"a","error":"it left"},
	{"from":"x","to":"y"}],"slow_pairs":[
	{"from":"a","to":"c","figure":"bandwidth_bits_per_second"}]}`

func read(t *testing.T, name, text string) Named {
	t.Helper()
	s, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return Named{Name: name, Saved: s}
}

// pageOf returns the parsed page, and its text.
func pageOf(t *testing.T, runs ...Named) (*html.Node, string) {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, runs, "rdmaperf "+hostile, time.Unix(1800000000, 0)); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "style" && n.Parent.Data != "script" {
			text.WriteString(n.Data + " ")
		}
	}
	return root, strings.Join(strings.Fields(text.String()), " ")
}

// count returns how many elements have a name and, unless it is "", a class.
func count(root *html.Node, name, class string) (n int) {
	for e := range root.Descendants() {
		if e.Type == html.ElementNode && e.Data == name && (class == "" || slices.Contains(classes(e), class)) {
			n++
		}
	}
	return n
}

func classes(e *html.Node) []string {
	for _, a := range e.Attr {
		if a.Key == "class" {
			return strings.Fields(a.Val)
		}
	}
	return nil
}

// examples has a sweep, an interrupted run with intervals, a histogram and a mesh.
func examples(t *testing.T) []Named {
	bwPlan, bw := bandwidth()
	bw.Sizes = nil
	for e := range 23 {
		n := uint64(2) << e
		bw.Sizes = append(bw.Sizes, measure.Size{Bytes: n, Messages: 5000,
			BW: &measure.Bandwidth{BitsPerSecond: float64(n) * 1e4, MessagesPerSecond: 1250}})
	}
	latPlan, lat := latency()
	lat.Sizes[0].Buckets = nil
	for i := range 5000 {
		at := 1000 + float64(i)
		lat.Sizes[0].Buckets = append(lat.Sizes[0].Buckets, measure.Bucket{FromNs: at, ToNs: at + 1, Count: 3})
	}
	var b bytes.Buffer
	if err := (&Outcome{Plan: latPlan, Result: lat, Histogram: true}).JSON(&b); err != nil {
		t.Fatal(err)
	}
	return []Named{
		{Name: "bw.json", Saved: saved(t, bwPlan, bw)},
		read(t, "lat.json", b.String()),
		read(t, "forever.json", `{"schema":"pureverbs.perf","version":1,"error":"interrupted","intervals_before_error":[
			{"seconds":1,"bandwidth_bits_per_second":1e9,"messages_per_second":100},
			{"seconds":1,"bandwidth_bits_per_second":2e9,"messages_per_second":200}]}`),
		read(t, "mesh.json", meshObject),
	}
}

func TestPage(t *testing.T) {
	root, text := pageOf(t, examples(t)...)
	for _, tc := range []struct {
		name, class string
		want        int
	}{
		{"figure", "", 10},    // four of the mesh; three over size; percentiles; two over time
		{"figure", "map", 2},  //
		{"path", "mark", 52},  // 23 sizes twice, two latencies, two intervals twice
		{"polyline", "", 7},   // one of each, but median and 99th percentile of latency
		{"g", "cell", 12},     // of three hosts, in two maps
		{"g", "l8", 1},        // slow: a to c, in bandwidth
		{"g", "l7", 1},        // a to c, in latency, is more than twice the median
		{"g", "l3", 4},        // a to b, b to a
		{"g", "l9", 2},        // failed: c to a
		{"g", "l0", 4},        // not measured: b to c, c to b
		{"rect", "badbar", 4}, // b and c, which are next to each other, as row and as column, in two maps
		{"section", "", 5},    // a run each, and the mesh's verdict
		{"section", "wrong", 1},
		{"table", "", 5},       // one has no results; the mesh has its worst pairs, its hosts and all pairs
		{"desc", "", 10},       // each drawing says what it is
		{"script", "", 1},      //
		{"link", "", 0},        //
		{"img", "", 0},         //
		{"caption", "", 5},     //
		{"p", "note", 2},       // a software device, a run that failed
		{"details", "", 2},     // hosts, pairs
		{"figcaption", "", 10}, //
	} {
		if n := count(root, tc.name, tc.class); n != tc.want {
			t.Errorf("%d <%s class=%q>, want %d", n, tc.name, tc.class, tc.want)
		}
	}
	for _, want := range []string{
		"bw.json : SoftRoCE: software device, says nothing about a NIC", "forever.json : the run failed: interrupted.",
		"mesh.json: 1 host lost, 1 host slow, 1 pair failed", "lost b : it broke", "slow c : receives, latency",
		"failed c to a: it left", "3 hosts, 3 of 6 pairs measured. The median is 90 Gb/s, 1.71 µs.",
		"a c 30 (−67 %) 4 (+134 %) slow, as host c",
		"write between all hosts", "a to c: 30 Gb/s, −67 % from the median (slow)", "c to a: it left",
		"bw.json (write bw, RC, both directions): 8M bytes, 83.89",
		"2 1000 1.234 1.580 1.700 1.900 – – 123457 1.600 0.087",
		"8388608 5000 0 – 83.89 – – 0.00125", "99.99 %", "Percentiles of latency",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for e := range root.Descendants() {
		if e.Data != "polyline" {
			continue
		}
		// 5000 steps need no more than four points a column of pixels.
		if n := len(strings.Fields(e.Attr[0].Val)); n < 1 || n > 4*720 {
			t.Errorf("a line has %d points", n)
		}
	}
}

// TestPage_BySize: many distributions are divided by size.
func TestPage_BySize(t *testing.T) {
	var runs []Named
	for _, name := range []string{"a", "b", "c"} {
		var sizes []string
		for _, n := range []int{2, 64, 4096} {
			sizes = append(sizes, fmt.Sprintf(`{"bytes":%d,"histogram":[{"from_ns":1,"to_ns":2,"count":5}]}`, n))
		}
		runs = append(runs, read(t, name,
			`{"schema":"pureverbs.perf","version":1,"results":[`+strings.Join(sizes, ",")+`]}`))
	}
	root, text := pageOf(t, runs...)
	if n, lines := count(root, "figure", ""), count(root, "polyline", ""); n != 3 || lines != 9 {
		t.Errorf("%d charts with %d lines, want 3 with 9", n, lines)
	}
	if !strings.Contains(text, "Percentiles of latency, 4K bytes") {
		t.Error(text)
	}
}

// TestPage_Hostile: nothing in a file becomes an element, an attribute, or an order to who reads the page.
func TestPage_Hostile(t *testing.T) {
	q := strings.ReplaceAll(fmt.Sprintf("%q", hostile), `\x1b`, `\u001b`)
	// QQ is where a file has words.
	run := strings.ReplaceAll(`{"schema":"pureverbs.perf","version":1,"started":QQ,"program":QQ,"error":QQ,
		"command":[QQ],"notes":[QQ],"limits_missed":[QQ],
		"test":{"verb":QQ,"metric":QQ,"role":QQ,"connection":QQ,"latency_definition":QQ},
		"host":{"name":QQ,"kernel":QQ,"architecture":QQ},"peer":{"address":QQ,"perftest_version":QQ},
		"local":{"device":QQ,"firmware":QQ,"link_layer":QQ,"data_path":QQ,"software_device":true},
		"results":[{"bytes":18446744073709551615,"bandwidth_bits_per_second":1e308,"messages_per_second":-1,
		"latency_p50_ns":1e308,"latency_p99_ns":-5,"histogram":[{"from_ns":-1,"to_ns":1e308,"count":9223372036854775807},
		{"from_ns":5,"to_ns":1,"count":-9223372036854775808},{"from_ns":1,"to_ns":2,"count":9223372036854775807}],
		"intervals":[{"seconds":-1e308,"bandwidth_bits_per_second":1e308}]},{"bytes":0,"bandwidth_bits_per_second":5}]}`,
		"QQ", q)
	mesh := `{"schema":"pureverbs.perf.mesh","version":1,"hosts":[` + q + `,"b"],"slow_hosts":[{"host":` + q + `,"part":` + q + `,"figure":` + q + `}],
		"pairs":[{"from":` + q + `,"to":"b","error":` + q + `},{"from":"b","to":` + q + `,"bandwidth_bits_per_second":1e308,
		"latency_p50_ns":-1}],"slow_pairs":[{"from":` + q + `,"to":"b"}]}`
	root, text := pageOf(t, read(t, hostile, run), read(t, hostile, mesh))
	for name, want := range map[string]int{"script": 1, "img": 0, "iframe": 0, "link": 0, "a": 0, "base": 0,
		"object": 0} {
		if n := count(root, name, ""); n != want {
			t.Errorf("%d <%s>, want %d", n, name, want)
		}
	}
	for e := range root.Descendants() {
		for _, a := range e.Attr {
			if strings.HasPrefix(a.Key, "on") || strings.Contains(a.Key, "href") || a.Key == "src" || a.Key == "style" {
				t.Errorf("<%s %s=%q>", e.Data, a.Key, a.Val)
			}
			if strings.Contains(a.Val, "NaN") || strings.Contains(a.Val, "Inf") {
				t.Errorf("<%s %s=%q>", e.Data, a.Key, a.Val)
			}
		}
	}
	if !strings.Contains(text, "<script>alert(1)</script>") || strings.ContainsAny(text, "\x1b\u202e") {
		t.Error(text)
	}
}

func TestPage_Nothing(t *testing.T) {
	_, text := pageOf(t, read(t, "none.json", `{"schema":"pureverbs.perf","version":1}`))
	if !strings.Contains(text, "No file has a figure that could be drawn") {
		t.Error(text)
	}
}

// attribute returns one of an element.
func attribute(e *html.Node, key string) string {
	for _, a := range e.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// numbers returns those of an attribute of a drawing: the coordinates of points, or of a path.
func numbers(t *testing.T, text string) (out []float64) {
	t.Helper()
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("Mz, ", r) }) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// TestPage_Rounds: all rounds of a size are one point of each line, in a band from the lowest to the highest.
func TestPage_Rounds(t *testing.T) {
	const sizes, rounds, intervals = 3, 8, 4
	var bw, lat []string
	for round := range rounds {
		for size := range sizes {
			at := (1 + float64(round)/10) * float64(10+size)
			part := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(
				`{"seconds":1,"bandwidth_bits_per_second":%ve9,"messages_per_second":%v},`, at, at), intervals), ",")
			bw = append(bw, fmt.Sprintf(`{"bytes":%d,"bandwidth_bits_per_second":%ve9,"messages_per_second":%ve6,`+
				`"intervals":[%s]}`, 64<<size, at, at, part))
			lat = append(lat, fmt.Sprintf(`{"bytes":%d,"latency_p50_ns":%v,"latency_p99_ns":%v,`+
				`"histogram":[{"from_ns":%v,"to_ns":%v,"count":9}]}`, 64<<size, 1000*at, 2000*at, 900*at, 1100*at))
		}
	}
	object := func(metric string, results []string) string {
		return fmt.Sprintf(`{"schema":"pureverbs.perf","version":2,"test":{"verb":"write","metric":%q,"rounds":%d},`+
			`"results":[%s]}`, metric, rounds, strings.Join(results, ","))
	}
	root, text := pageOf(t, read(t, "bw.json", object("bw", bw)), read(t, "lat.json", object("lat", lat)))
	points, bands, legends := map[string][]int{}, map[string]int{}, map[string]int{}
	for figure := range root.Descendants() {
		if figure.Data != "figure" {
			continue
		}
		title := ""
		for e := range figure.Descendants() {
			switch {
			case e.Data == "figcaption":
				title = e.FirstChild.Data
			case e.Data == "li":
				legends[title]++
			case e.Data == "polyline":
				line := numbers(t, attribute(e, "points"))
				for i := 2; i < len(line); i += 2 {
					if line[i] <= line[i-2] && title != "Percentiles of latency" {
						t.Errorf("%s: a line goes back, to %v", title, line[i:])
					}
				}
				points[title] = append(points[title], len(line)/2)
			case slices.Contains(classes(e), "band"):
				bands[title]++
				band := numbers(t, attribute(e, "d"))
				for i := range len(band) / 4 { // of the same X: the highest, and going back the lowest
					k := len(band) - 2 - 2*i
					// The axis begins at 0, in the plane's last line: 346.
					high, low := 346-band[2*i+1], 346-band[k+1]
					if band[2*i] != band[k] || math.Abs(high/low-1.7) > 0.02 {
						t.Errorf("%s: the band is from %v to %v", title, low, high)
					}
				}
			}
		}
	}
	for title, want := range map[string][]int{
		"Bandwidth over message size":    {sizes},
		"Message rate over message size": {sizes},
		"Latency over message size":      {sizes, sizes},
		"Bandwidth over time":            {intervals, intervals, intervals},
		"Message rate over time":         {intervals, intervals, intervals},
	} {
		if !slices.Equal(points[title], want) || bands[title] != len(want) || legends[title] != len(want) {
			t.Errorf("%s: lines of %v points, %d bands, %d entries of the legend; want lines of %v", title,
				points[title], bands[title], legends[title], want)
		}
	}
	// 8 steps, and where the first begins.
	if got := points["Percentiles of latency"]; !slices.Equal(got, []int{9, 9, 9}) {
		t.Errorf("the distributions have %v points", got)
	}
	if !strings.Contains(text, "median of 8 rounds, in a band from the lowest to the highest") {
		t.Error(text)
	}
}

// TestPage_Legends: legends are lists, which wrap, and are not in what scrolls. Drawings are wider than some windows.
func TestPage_Legends(t *testing.T) {
	root, _ := pageOf(t, examples(t)...)
	figures := 0
	for figure := range root.Descendants() {
		if figure.Data != "figure" {
			continue
		}
		figures++
		entries, swatches, said := 0, 0, 0
		for e := range figure.Descendants() {
			for up := e.Parent; up != figure; up = up.Parent {
				switch {
				case e.Data == "li" && slices.Contains(classes(up), "scroll"):
					t.Errorf("a legend is in what scrolls")
				case e.Data == "svg" && up.Data == "li":
					swatches++
				case e.Data == "text" && slices.Contains(classes(up), "key"):
					t.Errorf("a legend is in a drawing, which does not wrap")
				}
			}
			if e.Data == "li" {
				entries++
				if text := e.LastChild; text.Type == html.TextNode && strings.TrimSpace(text.Data) != "" {
					said++
				}
			}
		}
		isMap, histogram := slices.Contains(classes(figure), "map"), count(figure, "rect", "bin") > 0
		if entries != swatches || entries != said || isMap && entries != 10 || !isMap && !histogram && entries == 0 {
			t.Errorf("a figure has %d entries in its legend, %d with a swatch, %d with words", entries, swatches, said)
		}
	}
	if figures != 10 {
		t.Errorf("%d figures", figures)
	}
}
