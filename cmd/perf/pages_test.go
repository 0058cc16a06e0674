package main

import (
	"bytes"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

const (
	savedBW  = "internal/report/testdata/bw.json"
	savedLat = "internal/report/testdata/lat.json"
)

// TestReportFiles: files in, a file and an exit code out. What is on the page, package report tests.
func TestReportFiles(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "r.html")
	same := filepath.Join(dir, "same.json")
	if err := os.WriteFile(same, []byte(`{"schema":"pureverbs.perf","version":1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	stream := filepath.Join(dir, "stream.json")
	if err := os.WriteFile(stream, []byte(`{"schema":"pureverbs.perf","version":1,"test":{"verb":"stream"},
		"peer":"10.0.0.2:5","results":[{"bytes":64}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	many := strings.Repeat(savedBW+" ", 33)
	for _, tc := range []struct {
		args string
		want int
		says string
	}{
		{"-o " + out + " " + savedBW + " " + savedLat + " testdata/slower.json testdata/mesh.json", exitOK, ""},
		{savedBW + " --output - testdata/intervals.json", exitOK, ""},
		{"--help", exitOK, ""},
		{"", exitUsage, "needs files"},
		{many, exitUsage, "33 files; perf report shows at most 32"},
		{"--output= " + savedBW, exitUsage, "has no name"},
		{"--port 5 " + savedBW, exitUsage, "unknown flag"},
		{"-o " + out + " nowhere.json", exitFailure, "no such file"},
		{"-o " + out + " " + savedBW + " README.md", exitFailure, "README.md: not a JSON object"},
		{"-o " + out + " " + stream, exitFailure, "stream.json: it is of perf stream"},
		{"-o " + same + " " + same, exitFailure, "is an input"},
		{"-o " + filepath.Join(dir, "none", "r.html") + " " + savedBW, exitFailure, "no such file"},
	} {
		var stdout, diag bytes.Buffer
		rc := run(t.Context(), append([]string{"report"}, strings.Fields(tc.args)...), &stdout, &diag)
		if rc != tc.want || !strings.Contains(diag.String(), tc.says) || tc.says == "" && diag.Len() > 0 {
			t.Errorf("report %.80s: exit code %d, want %d; stderr %q, want %q", tc.args, rc, tc.want, diag.String(),
				tc.says)
		}
		if strings.Contains(tc.args, "--output -") && !strings.HasSuffix(stdout.String(), "</html>\n") {
			t.Errorf("standard output: %q", stdout.String())
		}
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h3>bw.json</h3>", "<h3>slower.json</h3>", "<h3>mesh.json</h3>"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %s", want)
		}
	}
}

// TestReportBrowser opens a report in a browser, and keeps a picture in .build/artifacts.
func TestReportBrowser(t *testing.T) {
	if !testutil.Full() {
		t.Skip("a full run downloads the browser: make test-full")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the browser is Debian's for amd64")
	}
	build, err := filepath.Abs("../../.build")
	if err != nil {
		t.Fatal(err)
	}
	artifacts := filepath.Join(build, "artifacts")
	if err := os.MkdirAll(artifacts, 0o755); err != nil {
		t.Fatal(err)
	}
	// The browser's root shares /tmp with this one.
	dir, err := os.MkdirTemp("/tmp", "report")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	page := filepath.Join(dir, "report.html")
	var diag bytes.Buffer
	if rc := run(t.Context(), []string{"report", "-o", page, savedBW, "testdata/slower.json", savedLat,
		"testdata/intervals.json", "testdata/mesh.json"}, &diag, &diag); rc != exitOK {
		t.Fatalf("exit code %d, %s", rc, diag.String())
	}
	browse := func(what string) []byte {
		cmd := exec.CommandContext(t.Context(), "../../scripts/in-debian", "bookworm-browser",
			"chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1200,6400",
			"--user-data-dir="+filepath.Join(dir, "profile"), what, "file://"+page)
		var diag bytes.Buffer
		cmd.Stderr = &diag
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", what, err, diag.String())
		}
		return out
	}

	root, err := html.Parse(bytes.NewReader(browse("--dump-dom")))
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]int{}
	var text strings.Builder
	for n := range root.Descendants() {
		switch n.Type {
		case html.TextNode:
			text.WriteString(n.Data)
		case html.ElementNode:
			drawn[n.Data]++
			for _, a := range n.Attr {
				if n.Data == "path" && a.Key == "class" {
					drawn["path "+a.Val]++
				}
			}
		}
	}
	// Two runs with two sizes, in two charts; two latencies; three intervals, in two charts.
	for what, want := range map[string]int{"path mark": 2*2*2 + 2 + 2*3, "polyline": 2*2 + 2 + 1 + 2, "figure": 8,
		"table": 4, "script": 0} {
		if drawn[what] != want {
			t.Errorf("the browser has %d %s, want %d", drawn[what], what, want)
		}
	}
	for _, want := range []string{"perf report", "Mesh", "slower.json: 64K bytes, 3.5", "the run failed:", "node3",
		"software device, says nothing about a NIC"} {
		if !strings.Contains(strings.ToLower(text.String()), strings.ToLower(want)) {
			t.Errorf("the browser does not show %q", want)
		}
	}

	picture := filepath.Join(dir, "report.png")
	browse("--screenshot=" + picture)
	b, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(artifacts, "report.png"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	// Lines of the first two runs, the best and a slow field, as the style sheet of daylight has them.
	colours := map[[3]uint8]int{{0x0b, 0x63, 0xb0}: 0, {0xc2, 0x4a, 0x00}: 0, {0x0c, 0x4a, 0x86}: 0,
		{0xb3, 0x26, 0x1e}: 0}
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y++ {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x++ {
			r, g, b, _ := m.At(x, y).RGBA()
			c := [3]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)}
			if n, ok := colours[c]; ok {
				colours[c] = n + 1
			}
		}
	}
	for c, n := range colours {
		if n < 200 {
			t.Errorf("%d pixels of colour %x, want 200", n, c)
		}
	}
}
