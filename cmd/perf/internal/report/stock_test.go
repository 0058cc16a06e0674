package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// stock returns what is printed of a test, on standard output and on standard error.
func stock(t Stock, res *engine.Result, err error) (out, diag string) {
	var o, d bytes.Buffer
	t.W, t.Diag = &o, &d
	if t.Asked == nil {
		t.Asked = &t.Plan.Options
	}
	t.Begin()
	if !t.Plan.Connects() {
		t.Waiting()
	}
	t.Header(res.Setup)
	for _, s := range res.Sizes {
		t.Size(s)
	}
	t.Footer(res, err)
	return o.String(), d.String()
}

// stockSetup is a setup with queue pairs.
func stockSetup() session.Setup {
	s := setup()
	gid := [16]byte{10: 255, 11: 255, 12: 10, 13: 8, 15: 1}
	s.UsesGID = true
	s.Own = []wire.Dest{{QPN: 0x43, PSN: 0xb7189c, RKey: 0x10001, VAddr: 0x7ff1576d5000, OutReads: 16, GID: gid}}
	s.Theirs = []wire.Dest{{LID: 3, QPN: 0x12345, RKey: 0x10102, VAddr: 0x7f8dd70c8000, GID: gid}}
	return s
}

// TestStock: the whole of what rdmaperf prints under perftest's names. TestRXE_Output compares it with perftest.
func TestStock(t *testing.T) {
	bw, bwRes := bandwidth()
	bw.Place.Node, bwRes.Setup = plan.Auto, stockSetup()
	out, diag := stock(Stock{Plan: bw}, bwRes, nil)
	golden(t, "bw-stock.txt", []byte(out))
	if !strings.Contains(diag, "note: ") || strings.Contains(out, "note") {
		t.Errorf("the notes: %q", diag)
	}

	lat, latRes := latency()
	lat.Place.Node, latRes.Setup = plan.Auto, stockSetup()
	latRes.Sizes[0].Samples = []float64{3000, 1000, 123456789, 2000}
	asked := lat.Options
	asked.Report.Unsorted = true
	out, _ = stock(Stock{Plan: lat, Asked: &asked, Histogram: true}, latRes, nil)
	golden(t, "lat-stock.txt", []byte(out))

	lat.Load.Duration = time.Second
	out, _ = stock(Stock{Plan: lat}, latRes, nil)
	golden(t, "lat-duration-stock.txt", []byte(out))

	lat.Verb = wire.Read // whose server measures nothing
	latRes.Sizes = nil
	out, _ = stock(Stock{Plan: lat}, latRes, nil)
	if lines := strings.Split(out, "\n"); strings.Contains(out, "#bytes") || lines[len(lines)-2] != rule ||
		lines[len(lines)-3] == rule {
		t.Errorf("the server of read lat prints\n%s", out)
	}
}

// TestStockFigures: each form of a line, and what is not known.
func TestStockFigures(t *testing.T) {
	b := measure.Bandwidth{BitsPerSecond: 8 << 20, PeakBitsPerSecond: 16 << 20, MessagesPerSecond: 16}
	parts := []measure.Bandwidth{b, {}}
	used := measure.Usage{Elapsed: time.Second, CPU: time.Second / 4, Counters: map[string]uint64{"port_xmit_data": 7}}
	size := measure.Size{Bytes: 65536, Messages: 50, BW: &b, Ports: parts, Used: used}
	const row = " 65536      50               2.00               1.00   \t\t     0.000016"
	lat := measure.Size{Bytes: 2, Messages: 3, Lat: &measure.Summary{Count: 3, Min: 1000, Mean: 2000, Max: 3000,
		P50: measure.TooFew, P99: measure.TooFew, P999: measure.TooFew}}
	for _, tc := range []struct {
		name string
		opt  plan.Options
		t    Stock
		size measure.Size
		want string
	}{
		{"usual", plan.Options{}, Stock{}, size, row + "\n"},
		{"small, in Gb/s", plan.Options{Report: plan.Report{Gbits: true}}, Stock{}, size,
			" 65536      50           0.016777            0.008389            0.000016\n"},
		{"not known", plan.Options{}, Stock{}, measure.Size{Bytes: 8, BW: &measure.Bandwidth{}},
			" 8          0                0.00               nan    \t\t     nan    \n"},
		{"ports", plan.Options{Report: plan.Report{PerPort: true}, Load: plan.Load{Duration: 1}}, Stock{}, size,
			" 65536      50             2.00               1.00   \t\t   0.000016        1.00               0.000016" +
				"              nan                nan    \n"},
		{"processor and counters", plan.Options{Report: plan.Report{CPUUtil: true}, Load: plan.Load{Duration: 1}},
			Stock{Counters: []string{"counters/port_xmit_data"}}, size,
			row + "\t    25.00\n\tcounters/port_xmit_data=7\n\n"},
		{"only the bandwidth", plan.Options{}, Stock{Only: OnlyBandwidth}, size, "1.000000\n"},
		{"only the rate", plan.Options{}, Stock{Only: OnlyRate}, size, "0.000016\n"},
		{"only the latency", plan.Options{Metric: wire.Latency}, Stock{Only: OnlyLatency}, lat, "2.000000\n"},
		{"few samples", plan.Options{Metric: wire.Latency}, Stock{}, lat,
			" 2       3          1.00           3.00         3.00     \t       2.00        \t0.00   \t\t3.00    " +
				"\t\t3.00   \n"},
		{"by time", plan.Options{Metric: wire.Latency, Load: plan.Load{Duration: 1}, Verb: wire.Read}, Stock{}, lat,
			" 2             3            2.00           500000.00\n"},
		{"by time, nothing measured", plan.Options{Metric: wire.Latency, Load: plan.Load{Duration: 1}}, Stock{},
			measure.Size{Bytes: 2, Lat: &measure.Summary{}}, " 2             0            0.00           inf    \n"},
	} {
		tc.opt.Load.Iters = 50
		if tc.opt.Metric == 0 {
			tc.opt.Metric = wire.Bandwidth
		}
		var out bytes.Buffer
		tc.t.W, tc.t.Diag, tc.t.Plan, tc.t.Asked = &out, &bytes.Buffer{}, &plan.Plan{Options: tc.opt}, &tc.opt
		tc.t.Size(tc.size)
		if out.String() != tc.want {
			t.Errorf("%s:\n%q, want\n%q", tc.name, out.String(), tc.want)
		}
	}
}

// TestStockNothing: perftest's object of a run that measured nothing is JSON.
func TestStockNothing(t *testing.T) {
	for _, metric := range []wire.Metric{wire.Latency, wire.Bandwidth} {
		for _, duration := range []time.Duration{0, time.Second} {
			o := &Outcome{Plan: &plan.Plan{Options: plan.Options{Metric: metric,
				Load: plan.Load{Duration: duration, Iters: 5}}}}
			s := measure.Size{Bytes: 2, Lat: &measure.Summary{}}
			if metric == wire.Bandwidth {
				s = measure.Size{Bytes: 2, BW: &measure.Bandwidth{}}
			}
			if _, err := json.Marshal(o.stockResults(&s)); err != nil {
				t.Errorf("%v, %v: %v", metric, duration, err)
			}
		}
	}
}

// TestStockEnds: how a run ends.
func TestStockEnds(t *testing.T) {
	p, res := bandwidth()
	p.Load.Infinite, p.Load.Bidirectional = true, false
	res.Sizes = nil
	for _, tc := range []struct {
		host string
		err  error
		want string
	}{
		{"server", nil, "\n User stopped traffic\n" + rule + "\n"},
		{"", nil, " Client closed connection\n" + rule + "\n"},
		{"server", errors.New("failed"), ""},
	} {
		p.Peer.Host = tc.host
		var out bytes.Buffer
		Stock{W: &out, Diag: &bytes.Buffer{}, Plan: p}.Footer(res, tc.err)
		if out.String() != tc.want {
			t.Errorf("%q, %v: %q, want %q", tc.host, tc.err, out.String(), tc.want)
		}
	}
}

// TestByPeerSeconds: a server that only waits knows for how long its client measured, and not since when.
func TestByPeerSeconds(t *testing.T) {
	p, res := bandwidth()
	p.Load.Bidirectional = false
	for _, tc := range []struct {
		rate float64
		want string
	}{{0.002, `"start": null, "seconds": 2.5,`}, {0, `"start": null, "seconds": null,`}} {
		res.Sizes = []measure.Size{measure.ByPeer(wire.Report{Size: 64, Iters: 5000, MsgRate: tc.rate}, false)}
		var b bytes.Buffer
		if err := (&Outcome{Plan: p, Result: res}).JSON(&b); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(text, tc.want) {
			t.Errorf("no %s in %s", tc.want, text)
		}
	}
}
