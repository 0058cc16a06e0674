package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/report"
)

const (
	savedBW  = "../report/testdata/bw.json"
	savedLat = "../report/testdata/lat.json"
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
		{many, exitUsage, "33 files; rdmaperf report shows at most 32"},
		{"--output= " + savedBW, exitUsage, "has no name"},
		{"--port 5 " + savedBW, exitUsage, "unknown flag"},
		{"-o " + out + " nowhere.json", exitFailure, "no such file"},
		{"-o " + out + " " + savedBW + " ../../README.md", exitFailure, "README.md: not a JSON object"},
		{"-o " + out + " " + stream, exitFailure, "stream.json: it is of rdmaperf stream"},
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
	for _, want := range []string{"<h3>bw.json (", "<h3>slower.json (", "<h3>mesh.json</h3>",
		"<h2>mesh.json: 1 host slow,"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %s", want)
		}
	}
}

// TestRename: files of one name are told apart by their folders.
func TestRename(t *testing.T) {
	for _, tc := range []struct{ paths, want string }{
		{"a.json b.json", "a.json b.json"},
		{"out/1/a.json out/2/a.json out/2/b.json", "1/a.json 2/a.json b.json"},
		{"/tmp/x/mon/a.json /tmp/x/tue/n/a.json", "mon/a.json tue/n/a.json"},
		{"a.json x/a.json", "a.json x/a.json"},
		{"a.json a.json", "a.json a.json"},
	} {
		paths := strings.Fields(tc.paths)
		var runs []report.Named
		for _, p := range paths {
			runs = append(runs, report.Named{Name: filepath.Base(p)})
		}
		rename(runs, paths)
		var got []string
		for _, r := range runs {
			got = append(got, r.Name)
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%s: %s, want %s", tc.paths, s, tc.want)
		}
	}
}
