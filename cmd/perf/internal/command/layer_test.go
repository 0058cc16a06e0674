package command

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestLayerUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"stream":                         "no command",
		"stream speed":                   `metric "speed"`,
		"stream bw a b":                  "1 arguments too many: b",
		"stream bw -s 0":                 "0 bytes",
		"stream bw -s 1G":                "allowed: 1 to 16777216",
		"stream bw -s 4G":                "too large for a message",
		"stream bw -n 0":                 "--iters 0 < 1",
		"stream bw -n 2":                 "2 messages (-n)",
		"message bw -q 0":                "--connections 0 < 1",
		"message bw -q 100000":           "100000 connections (-q)",
		"message lat -q 2":               "only for bw",
		"message bw -p 65535":            "raw verbs use the next port",
		"message bw --compare=udp":       "--compare udp",
		"message bw --compare=message":   "runs already",
		"message lat --compare=copy":     "only for bw",
		"message bw --rounds -1":         "-1 rounds",
		"message bw --timeout 0":         "not positive",
		"stream bw --bind 10.0.0.1 host": "for a server",
	} {
		var out, diag bytes.Buffer
		if rc := run(t.Context(), strings.Fields(line), &out, &diag); rc != exitUsage {
			t.Errorf("rdmaperf %s: exit code %d, want %d", line, rc, exitUsage)
		}
		if !strings.Contains(diag.String(), want) || out.Len() > 0 {
			t.Errorf("rdmaperf %s: stderr %q, want it to say %q; stdout %q", line, diag.String(), want, out.String())
		}
	}
}

// TestLayerJSON: the object says what ran where, also if nothing did.
func TestLayerJSON(t *testing.T) {
	var out, diag bytes.Buffer
	args := strings.Fields("stream bw --json --retry 0 -p 1 127.0.0.1")
	rc := run(t.Context(), args, &out, &diag)
	var o struct {
		Program string
		Command []string
		Host    struct{ Name string }
		Error   string
	}
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		t.Fatal(err)
	}
	if rc != exitFailure || o.Program != program() || !slices.Equal(o.Command, args) || o.Host.Name == "" ||
		!strings.Contains(o.Error, "no rdmaperf stream is waiting there") {
		t.Errorf("exit code %d, %s", rc, &out)
	}
}
