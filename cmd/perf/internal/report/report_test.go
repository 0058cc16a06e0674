package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/layer"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/place"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

var update = flag.Bool("update", false, "rewrite testdata")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, d)
	}
}

func setup() session.Setup {
	return session.Setup{
		Local: session.Side{Device: "rxe0", Firmware: "1.0", Port: 1, LinkLayer: "Ethernet", RateGbps: 10,
			DataPath: "ops",
			GIDIndex: 1, GID: "::ffff:10.8.0.1", MTU: 1024, Software: session.SoftRoCENote},
		Place:       place.Place{Node: 1, Nodes: 2, CPUs: []int{8, 9, 10, 14}, Pinned: true},
		PeerAddress: "10.8.0.2:18515", PeerVersion: "6.06", PeerGID: "::ffff:10.8.0.2",
	}
}

func bandwidth() (*plan.Plan, *engine.Result) {
	c := &plan.Plan{Options: plan.Options{Verb: wire.Write, Metric: wire.Bandwidth, Peer: plan.Peer{Host: "10.8.0.2"},
		Load:   plan.Load{Iters: 5000, Bidirectional: true, All: true},
		Queues: plan.Queues{QPs: 2, TxDepth: 128, PostList: 4, CQMod: 4}}}
	own := measure.Bandwidth{BitsPerSecond: 4e9, PeakBitsPerSecond: 5e9, MessagesPerSecond: 7629.39}
	peer := measure.Bandwidth{BitsPerSecond: 3e9, MessagesPerSecond: 5722}
	return c, &engine.Result{
		Setup: setup(), Clock: "TSC, 2.000 GHz", Started: time.Unix(1700000000, 0),
		Elapsed: 1500 * time.Millisecond, Verified: true,
		Sizes: []measure.Size{
			{Bytes: 2, Messages: 10000, BW: &measure.Bandwidth{BitsPerSecond: 1e6, MessagesPerSecond: 62500}},
			{Bytes: 65536, Messages: 10000, BW: &measure.Bandwidth{BitsPerSecond: 7e9, PeakBitsPerSecond: 9e9,
				MessagesPerSecond: 13351.39}, Sent: &own, Received: &peer},
		},
	}
}

func TestParts(t *testing.T) {
	c, res := bandwidth()
	c.Report.CPUUtil, c.Report.Counters, c.Load.Infinite = true, true, true
	res.Used = measure.Usage{Elapsed: time.Second, CPU: time.Second / 2,
		Counters: map[string]uint64{"out_of_buffer": 3, "port_xmit_data": 9}}
	res.Sizes = res.Sizes[:1]
	part := measure.Interval{Start: 1.5, Seconds: 0.5, Messages: 1000, BitsPerSecond: 32000, MessagesPerSecond: 2000,
		Margin: true}
	res.Sizes[0].Parts = []measure.Interval{part}
	var b bytes.Buffer
	tab := Table{W: &b, Plan: c}
	tab.Interval(2, part)
	tab.Footer(res, nil)
	for _, want := range []string{" 1000 ", "0.002000  in 0.5 s, margin\n", "processor: 50.0 %", "port_xmit_data ",
		"note: out_of_buffer rose by 3: "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	o := Outcome{Plan: c, Result: res}
	if err := o.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var d struct {
		CPU      float64           `json:"cpu_percent"`
		Counters map[string]uint64 `json:"counters"`
		Results  []struct {
			Intervals []struct {
				Seconds float64 `json:"seconds"`
				Bits    float64 `json:"bandwidth_bits_per_second"`
				Rate    float64 `json:"messages_per_second"`
			} `json:"intervals"`
		} `json:"results"`
	}
	if err := json.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if i := d.Results[0].Intervals; len(i) != 1 || i[0].Seconds != 0.5 || i[0].Bits != 32000 || i[0].Rate != 2000 ||
		d.CPU != 50 || d.Counters["out_of_buffer"] != 3 {
		t.Errorf("JSON is %+v", d)
	}
}

func latency() (*plan.Plan, *engine.Result) {
	c := &plan.Plan{Options: plan.Options{Verb: wire.Send, Metric: wire.Latency, Load: plan.Load{Iters: 1000},
		Queues: plan.Queues{QPs: 1, TxDepth: 1,
			RxDepth: 512, PostList: 1, CQMod: 1}, Report: plan.Report{LatencyDef: plan.RoundTrip},
		Memory: plan.Memory{Kind: plan.HugePages, Ordered: true}}}
	s := setup()
	s.PeerOurs, s.Local.Software = true, ""
	return c, &engine.Result{
		Setup: s, Clock: "TSC, 2.000 GHz", Started: time.Unix(1700000000, 0), Elapsed: time.Second,
		Sizes: []measure.Size{{Bytes: 2, Messages: 1000,
			Lat: &measure.Summary{Count: 999, Min: 1234.5, Mean: 1600.25, Stdev: 87.5, P50: 1580, P90: 1700,
				P99: 1900, P999: measure.TooFew, P9999: measure.TooFew, Max: 123456789},
			Buckets: []measure.Bucket{{FromNs: 1234, ToNs: 1235, Count: 999}}}},
	}
}

func TestTable(t *testing.T) {
	for name, f := range map[string]func() (*plan.Plan, *engine.Result){"bw.txt": bandwidth, "lat.txt": latency} {
		t.Run(name, func(t *testing.T) {
			c, res := f()
			var b bytes.Buffer
			tab := Table{W: &b, Plan: c, Histogram: true}
			tab.Header(res.Setup)
			for _, s := range res.Sizes {
				tab.Size(s)
			}
			tab.Footer(res, nil)
			golden(t, name, b.Bytes())
			if name == "bw.txt" && !strings.Contains(b.String(), session.SoftRoCENote) {
				t.Error("figures of a software device without the note")
			}
		})
	}
}

func TestJSON(t *testing.T) {
	for name, f := range map[string]func() (*plan.Plan, *engine.Result){"bw.json": bandwidth, "lat.json": latency} {
		t.Run(name, func(t *testing.T) {
			c, res := f()
			var b bytes.Buffer
			o := Outcome{Plan: c, Result: res, Program: "rdmaperf of pureverbs v1.2.3", Histogram: true,
				Command: []string{c.Verb.String(), c.Metric.String()},
				Host: &Host{Name: "node1", Kernel: "6.1.0", Arch: "amd64", CPUs: 64,
					Libraries: map[string]string{"libibverbs.so.1": "44.0"}},
				Missed: (&measure.Limits{MinBits: 2e9, MaxP50Ns: 1000}).Missed(&res.Sizes[0])}
			if err := o.JSON(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.Bytes())
			b.Reset()
			if err := o.CSV(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(name, "json")+"csv", b.Bytes())
		})
	}
}

// TestJSONOfFailure: still one valid object, with what there is.
func TestJSONOfFailure(t *testing.T) {
	c, res := bandwidth()
	res.Setup, res.Sizes = session.Setup{}, nil
	var b bytes.Buffer
	if err := (&Outcome{Plan: c, Result: res, Failure: errors.New("it broke")}).JSON(&b); err != nil {
		t.Fatal(err)
	}
	var d map[string]any
	if err := json.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if r, ok := d["results"].([]any); !ok || len(r) != 0 || d["error"] != "it broke" || d["schema"] != Schema {
		t.Errorf("%s", b.String())
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := Progress{W: &b}
	p.Update(engine.Progress{Size: 65536, Done: 50, Want: 200})
	p.Update(engine.Progress{Size: 2, Done: 1})
	p.Update(engine.Progress{Size: 2, Done: 9, Left: 9100 * time.Millisecond})
	p.Clear()
	p.Clear()
	long := len("65536 bytes: 50 of 200 messages, 25 %")
	short, left := "2 bytes: 1 messages", "2 bytes: 9 messages, 10 s left"
	want := "\r65536 bytes: 50 of 200 messages, 25 %\r" + short + strings.Repeat(" ", long-len(short)) +
		"\r" + left + "\r" + strings.Repeat(" ", len(left)) + "\r"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// What a peer says and how a device is called must not reach the terminal as it is.
func TestHostileNames(t *testing.T) {
	const hostile = "x\x1b[2J\x7f\u009b\u202e"
	c, res := bandwidth()
	res.Setup.Local.Device, res.Setup.Local.Firmware = hostile, hostile
	res.Setup.PeerVersion, res.Setup.PeerAddress = hostile, hostile
	var out bytes.Buffer
	Table{W: &out, Plan: c}.Header(res.Setup)
	o := Outcome{Plan: c, Result: res, Failure: errors.New(hostile)}
	if err := o.JSON(&out); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.String() {
		if !unicode.IsPrint(r) && r != '\n' {
			t.Errorf("%q in %q", r, out.String())
		}
	}
}

// What threads and rails did of a size is in the table, the lines of CSV and the JSON object.
func TestShares(t *testing.T) {
	c, res := bandwidth()
	c.Load.Bidirectional, c.Queues.Threads = false, 2
	part := measure.Size{Bytes: 65536, Messages: 5000, BW: &measure.Bandwidth{BitsPerSecond: 2e9}}
	rail := part
	rail.Threads = []measure.Size{part, part}
	all := measure.Size{Bytes: 65536, BW: &measure.Bandwidth{}, Rails: []measure.Rail{{Name: "a to h", Size: rail},
		{Name: "b to\x1b h", Err: errors.New("gone")}}}
	res.Sizes = []measure.Size{all}
	res.Rails = []engine.Rail{{Name: "a to h", Setup: setup()}, {Name: "b to\x1b h", Err: errors.New("gone")}}
	o := Outcome{Plan: c, Result: res}
	var b bytes.Buffer
	if err := o.CSV(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, want := range []string{",part,error", "65536,0,,,,all,", "65536,5000,2e+09,,,a to h,",
		",a to h thread 1,", ",a to h thread 2,", ",gone"} {
		if i >= len(lines) || !strings.HasSuffix(lines[i], want) || strings.Contains(lines[i], "\x1b") {
			t.Errorf("line %d of %q, want %q at its end", i, lines, want)
		}
	}
	b.Reset()
	tab := Table{W: &b, Plan: c}
	tab.Rails(res.Rails)
	tab.Size(all)
	for _, want := range []string{"rail a to h\n  device   rxe0", "  failed\n", "threads 2", "  a to h:\n     65536"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := o.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var d struct {
		Test struct {
			Threads int `json:"threads"`
		} `json:"test"`
		Rails []struct {
			Name  string `json:"rail"`
			Local struct {
				Device string `json:"device"`
			} `json:"local"`
			Error string `json:"error"`
		} `json:"rails"`
		Results []struct {
			Bits  *float64 `json:"bandwidth_bits_per_second"`
			Rails []struct {
				Error  string `json:"error"`
				Result struct {
					Threads []struct {
						Bits float64 `json:"bandwidth_bits_per_second"`
					} `json:"threads"`
				} `json:"result"`
			} `json:"rails"`
		} `json:"results"`
	}
	if err := json.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if r := d.Results[0]; d.Test.Threads != 2 || d.Rails[0].Local.Device != "rxe0" || d.Rails[1].Error != "gone" ||
		r.Bits != nil || len(r.Rails[0].Result.Threads) != 2 || r.Rails[0].Result.Threads[1].Bits != 2e9 ||
		r.Rails[1].Error != "gone" {
		t.Errorf("JSON is %s", b.Bytes())
	}
}

// TestPerftest: the object of --out_json is perftest's. Its keys are those of Debian's perftest 6.24.
func TestPerftest(t *testing.T) {
	for name, f := range map[string]func() (*plan.Plan, *engine.Result){"bw-perftest.json": bandwidth,
		"lat-perftest.json": latency} {
		c, res := f()
		c.Report.CPUUtil, res.Used = true, measure.Usage{Elapsed: time.Second, CPU: time.Second / 2}
		var b bytes.Buffer
		if err := (&Outcome{Plan: c, Result: res}).Perftest(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
	}
}

// TestColumns: scripts read the table by column, as perftest's. Nothing is wider than a usual terminal.
func TestColumns(t *testing.T) {
	c, res := latency()
	var b bytes.Buffer
	tab := Table{W: &b, Plan: c, Histogram: true}
	tab.columns()
	res.Sizes[0].Buckets = nil
	for i := range 4000 {
		res.Sizes[0].Buckets = append(res.Sizes[0].Buckets, measure.Bucket{FromNs: float64(1000 + 4*i),
			ToNs: float64(1004 + 4*i), Count: int64(4000 - i)})
	}
	tab.Size(res.Sizes[0])
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if row := strings.Fields(lines[1]); row[2] != "1.234" || row[3] != "123457" || row[4] != "1.580" ||
		row[5] != "1.600" || row[6] != "0.087" || row[7] != "1.900" { // t_min t_max t_typical t_avg t_stdev 99%
		t.Errorf("columns %q", row)
	}
	if n := len(lines) - 2; n < 20 || n > 30 || !strings.Contains(lines[3], "####") {
		t.Errorf("%d rows of a histogram\n%s", n, b.String())
	}
	for _, line := range lines {
		if len(line) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	b.Reset()
	c, _ = bandwidth()
	tab = Table{W: &b, Plan: c}
	tab.Interval(2, measure.Interval{Seconds: 0.5, Messages: 1000, MessagesPerSecond: 2000})
	if row := strings.Fields(b.String()); len(row) < 5 || row[2] != "-" || row[4] != "0.002000" {
		t.Errorf("interval %q", b.String())
	}
	b.Reset()
	c.Load.Infinite, c.Report.Gbits = true, true
	tab = Table{W: &b, Plan: c, Only: OnlyRate}
	tab.Interval(2, measure.Interval{Seconds: 0.5, Messages: 1000, MessagesPerSecond: 2000})
	if b.String() != "0.002000\n" {
		t.Errorf("only the rate of an endless run: %q", b.String())
	}
}

// TestFramesHeader: of raw Ethernet the heading has the addresses of the frames.
func TestFramesHeader(t *testing.T) {
	c, _ := bandwidth()
	c.Transport, c.Frames.Own = wire.RawEth, [6]byte{2, 0, 0, 0, 0, 1}
	s := setup()
	s.Local.GID, s.PeerGID, s.PeerVersion, s.PeerAddress = "", "", "", "00:00:00:00:00:00"
	for peer, want := range map[[6]byte]string{{}: "any", {2, 0, 0, 0, 0, 2}: "02:00:00:00:00:02"} {
		if c.Frames.Peer = peer; peer != [6]byte{} {
			s.PeerAddress = want
		}
		var b bytes.Buffer
		Table{W: &b, Plan: c}.Header(s)
		want = "  address  02:00:00:00:00:01\n  peer     " + want + ", by Ethernet frames\n"
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

// TestLayerMemory: an unknown amount of memory is not printed.
func TestLayerMemory(t *testing.T) {
	for _, tc := range []struct {
		m    layer.Memory
		want string
	}{
		{layer.Memory{Conns: 2, Heap: 100, Resident: 500},
			"client 250 bytes in addition to blocks, 50 of them in the Go heap"},
		{layer.Memory{Conns: 2, Heap: 100}, "client 50 bytes in the Go heap, in addition to blocks"},
	} {
		if got := layerMemory("client", &tc.m); len(got) != 1 || !strings.HasSuffix(got[0], tc.want) {
			t.Errorf("%+v: %q, want %q", tc.m, got, tc.want)
		}
	}
}
