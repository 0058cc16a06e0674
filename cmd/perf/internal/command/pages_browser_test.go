package command

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/browser"
)

// Names of hosts that a page must show as they are, and no more.
var hostileNames = []string{`<script>alert(1)</script>`, `"onmouseover='alert(1)'`, strings.Repeat("n", 4096),
	"a\u202eb\u2066c", "אבג-1", "node&amp;7"}

// The bad things of the mesh that meshOf makes.
const (
	slowHost, lostHost   = 3, 5
	slowFrom, slowTo     = 1, 6
	failedFrom, failedTo = 6, 1
)

// meshOf is the object of a mesh of n hosts: one is slow, one lost, one pair slow, one failed, and one not measured.
func meshOf(n int, hostile bool) []byte {
	type object = map[string]any
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("node%03d", i)
		if hostile && i < len(hostileNames) {
			names[i] = hostileNames[i]
		}
	}
	var pairs, slow []object
	for i := range n {
		for k := range n {
			p := object{"from": names[i], "to": names[k]}
			bits, ns := 97e9+float64((i*7+k)%5)*1e8, 1700+float64((i+k*3)%7)
			switch {
			case i == k || i == 2 && k == 4:
				continue
			case i == lostHost || k == lostHost:
				p["error"] = "host " + names[lostHost] + " is lost"
			case i == failedFrom && k == failedTo:
				p["error"] = "RetryExcErr"
			case i == slowHost || k == slowHost || i == slowFrom && k == slowTo:
				bits, ns = 40e9, 4000
				for key, v := range map[string]float64{"bandwidth_bits_per_second": bits, "latency_p50_ns": ns} {
					slow = append(slow, object{"from": names[i], "to": names[k], "figure": key, "value": v})
				}
			}
			if p["error"] == nil {
				p["bandwidth_bits_per_second"], p["latency_p50_ns"] = bits, ns
			}
			pairs = append(pairs, p)
		}
	}
	b, err := json.Marshal(object{"schema": "pureverbs.perf.mesh", "version": 1, "hosts": names, "pairs": pairs,
		"slow_pairs": slow,
		"slow_hosts": []object{{"host": names[slowHost], "part": "sends", "figure": "bandwidth_bits_per_second",
			"median_of_host": 40e9, "median_of_hosts": 97e9}},
		"lost_hosts": []object{{"host": names[lostHost], "error": "no heartbeat for 3 s"}}})
	if err != nil {
		panic(err)
	}
	return b
}

// runOnNIC has the rate of its link.
const runOnNIC = `{"schema":"pureverbs.perf","version":2,"test":{"verb":"write","metric":"bw","connection":"RC","queue_pairs":4},
	"local":{"device":"mlx5_0","port":1,"link_layer":"InfiniBand","rate_bits_per_second":20e9,"path_mtu_bytes":4096},
	"results":[{"bytes":2,"messages":5000,"bandwidth_bits_per_second":4e7},
	{"bytes":65536,"messages":5000,"bandwidth_bits_per_second":19.4e9}]}`

// runInRounds is a run of 8 rounds of 12 sizes.
func runInRounds() []byte {
	type object = map[string]any
	var results []object
	for round := range 8 {
		for size := range 12 {
			gbits := 18 * (1 - math.Exp(-float64(size)/4)) * (1 - float64(round*round%5)/20)
			results = append(results, object{"bytes": 64 << size, "bandwidth_bits_per_second": gbits * 1e9,
				"messages_per_second": gbits * 1e9 / 8 / float64(int(64)<<size)})
		}
	}
	b, err := json.Marshal(object{"schema": "pureverbs.perf", "version": 2, "results": results,
		"test": object{"verb": "write", "metric": "bw", "connection": "RC", "queue_pairs": 1, "rounds": 8}})
	if err != nil {
		panic(err)
	}
	return b
}

// rectangle is where an element is in the window.
type rectangle struct{ X, Y, Width, Height float64 }

// pageFacts is what a page says of itself.
type pageFacts struct {
	Width             int
	Nameless          int // drawings without a title
	Unscoped          int // headings of tables that do not say what they are of
	Maps, Fields      int
	Legends, Cut      int     // entries of legends and captions, and those that are not whole in the window
	Worst             int     // rows
	Tallest           float64 // of them
	Text              string
	Background, Ink   string
	Injected, Scripts int
	Milliseconds      float64 // until it was loaded
}

const askPage = `(() => {
  const n = s => document.querySelectorAll(s).length
  const legends = [...document.querySelectorAll('.legend li, .key text, caption, figcaption')]
  const outside = e => {
    const r = e.getBoundingClientRect()
    return r.width == 0 || r.left < 0 || r.right > document.documentElement.clientWidth || e.scrollWidth > e.clientWidth
  }
  return {
    Width: document.documentElement.scrollWidth,
    Nameless: [...document.querySelectorAll('svg[role=img]')].filter(s => !s.querySelector('title')?.textContent).length,
    Unscoped: n('th:not([scope])'), Legends: legends.length, Cut: legends.filter(outside).length,
    Maps: n('figure.map'), Fields: n('.cell'), Worst: n('.worst tbody tr'),
    Tallest: Math.max(...[...document.querySelectorAll('.worst tr')].map(r => r.offsetHeight)),
    Text: document.body.innerText, Background: getComputedStyle(document.body).backgroundColor,
    Ink: getComputedStyle(document.body).color, Scripts: n('script'),
    Injected: n('body img, iframe, object, a, form, input, [onmouseover], [onerror]'),
    Milliseconds: performance.getEntriesByType('navigation')[0].loadEventEnd,
  }
})()`

// reportPages writes the pages that the tests of the browser open, and returns their folder.
func reportPages(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "report") // the browser's root shares /tmp with this one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, object := range map[string][]byte{"small": meshOf(8, false), "large": meshOf(200, false),
		"hostile": meshOf(24, true), "nic": []byte(runOnNIC), "rounds": runInRounds()} {
		if err := os.WriteFile(filepath.Join(dir, name+".json"), object, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for page, files := range map[string][]string{
		"small":   {file("small.json")},
		"large":   {file("large.json")},
		"hostile": {file("hostile.json")},
		"runs": {file("nic.json"), file("rounds.json"), savedBW, "testdata/slower.json", savedLat,
			"testdata/intervals.json", "testdata/mesh.json"},
	} {
		var diag bytes.Buffer
		args := append([]string{"report", "-o", file(page + ".html")}, files...)
		if rc := run(t.Context(), args, &diag, &diag); rc != exitOK {
			t.Fatalf("exit code %d, %s", rc, diag.String())
		}
	}
	return dir
}

// view is a picture of a window.
type view struct {
	image.Image
	name string
}

// at returns the colour of a pixel.
func (v view) at(x, y float64) color.RGBA {
	return color.RGBAModel.Convert(v.Image.At(int(x), int(y))).(color.RGBA)
}

// bad is the colour of what is bad, in daylight, in the dark and on paper, for bandwidth and for latency.
var bad = color.RGBA{0xd3, 0x2f, 0x2f, 0xff}

// lightness of a colour as a printer without colours has it, 0 to 1.
func lightness(c color.RGBA) float64 {
	linear := func(v uint8) float64 { return math.Pow(float64(v)/255, 2.2) }
	return math.Pow(0.2126*linear(c.R)+0.7152*linear(c.G)+0.0722*linear(c.B), 1/2.2)
}

// TestReportBrowser opens reports in a browser: in daylight, in the dark, on paper and on a phone. It keeps pictures in
// .build/artifacts.
func TestReportBrowser(t *testing.T) {
	if !testutil.Full() {
		t.Skip("a full run downloads the browser: make test-full")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the browser is Debian's for amd64")
	}
	artifacts, err := filepath.Abs("../../../../.build/artifacts")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(artifacts, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := reportPages(t)
	b := browser.Start(t, "../../../..")
	shot := func(name string) view {
		t.Helper()
		m, err := png.Decode(bytes.NewReader(b.Shot(t, filepath.Join(artifacts, "report-"+name+".png"))))
		if err != nil {
			t.Fatal(err)
		}
		return view{m, name}
	}
	for _, page := range []struct {
		name         string
		maps, fields int
		says         []string
	}{
		{"small", 2, 2 * 8 * 7, []string{"1 host lost, 1 host slow, 1 more pair slow, 1 pair failed", "node003",
			"no heartbeat",
			"node001 to node006", "RetryExcErr"}},
		{"large", 2, 0, []string{"1 host lost, 1 host slow, 1 more pair slow, 1 pair failed",
			"39,400 of 39,800 pairs measured", "The figures of all 39,799 pairs are in the JSON file"}},
		{"hostile", 2, 0, []string{hostileNames[0], hostileNames[1], `a\u202eb\u2066c`, "אבג-1", "node&amp;7",
			"nnn…nnn"}},
		{"runs", 2, 2 * 3 * 2, []string{"slower.json", "the run failed:", "software device, says nothing about a NIC"}},
	} {
		for _, v := range []struct {
			scheme, media string
			width, height int
		}{{"light", "screen", 1280, 1600}, {"dark", "screen", 1280, 1600}, {"light", "screen", 420, 1600},
			{"dark", "print", 794, 1123}} {
			name := fmt.Sprintf("%s-%s-%d", page.name, v.scheme, v.width)
			if v.media == "print" {
				name = page.name + "-paper"
			}
			b.Open(t, "file://"+filepath.Join(dir, page.name+".html"), v.width, v.height, v.scheme, v.media)
			shot(name)
			var f pageFacts
			b.Eval(t, askPage, &f)
			t.Logf("%s: loaded after %.0f ms", name, f.Milliseconds)
			if f.Width > v.width || f.Nameless > 0 || f.Unscoped > 0 || f.Maps != page.maps ||
				f.Fields != page.fields || f.Worst < 1 || f.Worst > 10 || f.Injected > 0 || f.Scripts != 1 {
				t.Errorf("%s: %d wide, %d drawings and %d headings without names, %d maps with %d fields, "+
					"%d worst pairs, %d elements and %d scripts", name, f.Width, f.Nameless, f.Unscoped, f.Maps,
					f.Fields, f.Worst, f.Injected, f.Scripts)
			}
			if f.Cut > 0 || f.Legends < 10*page.maps {
				t.Errorf("%s: %d of %d entries of legends and captions are cut", name, f.Cut, f.Legends)
			}
			if f.Tallest > 80 && page.name != "hostile" {
				t.Errorf("%s: a row of the worst pairs is %v high", name, f.Tallest)
			}
			const texts = "h1, h2, h3, p, li, td, th, dt, dd, span, strong, summary, caption, output"
			for _, text := range b.Faint(t, texts, 4) {
				t.Errorf("%s: hard to read: %s", name, text)
			}
			for _, want := range page.says {
				if !strings.Contains(strings.Join(strings.Fields(f.Text), " "), want) && v.media == "screen" {
					t.Errorf("%s does not say %q", name, want)
				}
			}
			if dark := f.Background != "rgb(255, 255, 255)"; dark != (v.scheme == "dark" && v.media == "screen") {
				t.Errorf("%s: the background is %s, the text %s", name, f.Background, f.Ink)
			}
			if (page.name == "small" || page.name == "large") && v.width > 420 { // where all of a map is in the window
				checkMaps(t, b, shot, name, v.media == "print")
			}
		}
	}
	checkPointer(t, b, filepath.Join(dir, "large.html"))
	for _, page := range []string{"small", "large", "runs"} {
		b.Open(t, "file://"+filepath.Join(dir, page+".html"), 1280, 900, "light", "")
		var r struct{ Data string }
		b.Call(t, "Page.printToPDF", map[string]any{"preferCSSPageSize": true, "paperWidth": 8.27,
			"paperHeight": 11.69}, &r)
		text, err := base64.StdEncoding.DecodeString(r.Data)
		if err != nil || !bytes.HasPrefix(text, []byte("%PDF")) {
			t.Errorf("%s: %.20q, %v", page, text, err)
		}
		if err := os.WriteFile(filepath.Join(artifacts, "report-"+page+".pdf"), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, trouble := range b.Trouble() {
		t.Errorf("an error in the browser: %s", trouble)
	}
	for _, host := range b.Hosts() {
		t.Errorf("a report asks %s for something", host)
	}
}

// checkMaps compares pixels of both maps of a page that meshOf has made.
func checkMaps(t *testing.T, b *browser.Browser, shot func(string) view, name string, paper bool) {
	t.Helper()
	for i, title := range []string{"bandwidth", "latency"} {
		// Where the field of a pair is in the window: of a picture by its size, else the element itself.
		var where struct {
			Map   *rectangle
			Cells []rectangle // in the order of rows
			Hosts int
			Bar   rectangle // of the slow host's row
			Plain rectangle // of the figure
		}
		b.Eval(t, fmt.Sprintf(`(() => {
			const figure = document.querySelectorAll('figure.map')[%d]
			figure.scrollIntoView({block: 'start'})
			figure.querySelector('.scroll').scrollLeft = 0
			const box = e => { const r = e.getBoundingClientRect(); return {X: r.x, Y: r.y, Width: r.width, Height: r.height} }
			const map = figure.querySelector('image')
			return {Map: map && box(map), Cells: [...figure.querySelectorAll('.cell rect')].map(box),
				Hosts: Number(figure.dataset.hosts || 8), Bar: box(figure.querySelector('.badbar')), Plain: box(figure)}
		})()`, i), &where)
		v := shot(name + "-" + title)
		pixel := func(from, to int) color.RGBA {
			if where.Map != nil {
				side := where.Map.Width / float64(where.Hosts)
				return v.at(where.Map.X+(float64(to)+0.5)*side, where.Map.Y+(float64(from)+0.5)*side)
			}
			k := from*(where.Hosts-1) + to
			if to > from {
				k--
			}
			c := where.Cells[k]
			return v.at(c.X+5, c.Y+c.Height-5) // next to the text
		}
		plain := v.at(where.Plain.X+where.Plain.Width-5, where.Plain.Y+5) // right of the title
		for what, c := range map[string]color.RGBA{"slow pair": pixel(slowFrom, slowTo),
			"slow host's row":    pixel(slowHost, 1),
			"slow host's column": pixel(2, slowHost), "failed pair": pixel(failedFrom, failedTo),
			"mark of the row": v.at(where.Bar.X+2, where.Bar.Y+where.Bar.Height/2)} {
			if c != bad {
				t.Errorf("%s, %s: the pixel of a %s is %v, want %v", name, title, what, c, bad)
			}
		}
		usual := pixel(1, 2)
		if usual == bad || usual == plain {
			t.Errorf("%s, %s: a usual pair is %v, bad is %v, the background %v", name, title, usual, bad, plain)
		}
		for what, c := range map[string]color.RGBA{"pair that was not measured": pixel(2, 4),
			"lost host": pixel(lostHost, 1)} {
			if c != plain {
				t.Errorf("%s, %s: the pixel of a %s is %v, that of the background is %v", name, title, what, c, plain)
			}
		}
		if paper && (lightness(plain) < 0.95 || lightness(usual) < 0.75 || lightness(bad) > 0.5) {
			t.Errorf("%s, %s: on paper the background is %.2f, a usual pair %.2f, a bad one %.2f", name, title,
				lightness(plain),
				lightness(usual), lightness(bad))
		}
	}
}

// checkPointer moves the pointer to a pair of a large map, and then on with the keyboard.
func checkPointer(t *testing.T, b *browser.Browser, page string) {
	t.Helper()
	b.Open(t, "file://"+page, 1280, 1300, "light", "screen")
	var r rectangle
	b.Eval(t, `(() => {
		const figure = document.querySelector('figure.map')
		figure.scrollIntoView({block: 'start'})
		const r = figure.querySelector('image').getBoundingClientRect()
		return {X: r.x, Y: r.y, Width: r.width, Height: r.height}
	})()`, &r)
	says := func(want string) {
		t.Helper()
		testutil.Eventually(t, "the page says "+want, func() bool {
			var text string
			b.Eval(t, `document.querySelector('figure.map output').textContent`, &text)
			return text == want
		})
	}
	side := r.Width / 200
	b.Call(t, "Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": r.X + (slowTo+0.5)*side,
		"y": r.Y + (slowFrom+0.5)*side}, nil)
	says("from node001 to node006: 40 Gb/s")
	var cross [2]rectangle
	b.Eval(t, `[...document.querySelectorAll('figure.map .cross')].slice(0, 2).map(e => {
		const r = e.getBoundingClientRect()
		return {X: r.x, Y: r.y, Width: r.width, Height: r.height}
	})`, &cross)
	if y, x := cross[0].Y-r.Y, cross[1].X-r.X; math.Abs(y-slowFrom*side) > 1.5 || math.Abs(x-slowTo*side) > 1.5 {
		t.Errorf("the cross is at %v, the map at %v", cross, r)
	}
	b.Eval(t, `document.querySelector('figure.map .scroll').focus()`, nil)
	press := func(key string) {
		b.Call(t, "Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": key}, nil)
		b.Call(t, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
	}
	press("ArrowLeft")
	says("from node001 to node005: not measured")
	press("ArrowRight")
	for range failedFrom - slowFrom {
		press("ArrowDown")
	}
	for range slowTo - failedTo {
		press("ArrowLeft")
	}
	says("from node006 to node001: failed")
}
