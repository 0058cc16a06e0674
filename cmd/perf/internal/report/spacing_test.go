package report

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
)

// TestSpacing: the times between completions stand below the line of their size, and in the object.
func TestSpacing(t *testing.T) {
	c, res := bandwidth()
	s := &res.Sizes[1]
	s.SendSpacing = &measure.SpacingSummary{Behind: 2,
		Summary: measure.Summary{Count: 99, Min: 10, Mean: 250.5, P50: 240, P99: 900, P999: 1000, Max: 2500}}
	var b bytes.Buffer
	tab := Table{W: &b, Plan: c}
	tab.Size(*s)
	const below = "           between completions of what was sent, 99 times by the adapter's clock [usec]:\n" +
		"           min 0.010, p50 0.240, p99 0.900, p99.9 1.000, max 2.500, mean 0.251; 2 out of order\n"
	if !bytes.HasSuffix(b.Bytes(), []byte(below)) || bytes.Contains(b.Bytes(), []byte("received")) {
		t.Errorf("%s\nwant at its end\n%s", &b, below)
	}
	b.Reset()
	res.Sizes[0].RecvSpacing = &measure.SpacingSummary{} // a single completion has no figures
	tab.Size(res.Sizes[0])
	const none = "           no times between completions of what was received: -Q 1 gives each message one\n"
	if !bytes.HasSuffix(b.Bytes(), []byte(none)) {
		t.Errorf("%s\nwant at its end\n%s", &b, none)
	}
	b.Reset()
	o := Outcome{Plan: c, Result: res}
	if err := o.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var d struct {
		Results []struct {
			SendSpacing *spacingDoc `json:"send_spacing"`
			RecvSpacing *spacingDoc `json:"receive_spacing"`
		}
	}
	if err := json.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	want := spacingDoc{99, 2, 10, 250.5, 240, 900, 1000, 2500}
	r := d.Results
	if r[0].SendSpacing != nil || r[0].RecvSpacing != nil || r[1].RecvSpacing != nil || *r[1].SendSpacing != want {
		t.Errorf("%s", &b)
	}
}
