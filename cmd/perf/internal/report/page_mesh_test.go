package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plot"
)

// meshWith is a mesh of n hosts without figures.
func meshWith(n int) *mesh.Result {
	m := &mesh.Result{}
	for i := range n {
		m.Hosts = append(m.Hosts, fmt.Sprintf("node%04d", i))
	}
	return m
}

// way is the direction from one host to another one.
func way(m *mesh.Result, from, to int) mesh.Direction {
	return mesh.Direction{From: m.Hosts[from], To: m.Hosts[to]}
}

// pair adds a pair with figures in Gb/s and µs.
func pair(m *mesh.Result, from, to int, gbits, us float64) {
	m.Pairs = append(m.Pairs, mesh.PairResult{Direction: way(m, from, to), Bits: gbits * 1e9, P50: us * 1e3})
}

// htmlOf returns the page of a mesh.
func htmlOf(t *testing.T, m *mesh.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, []Named{{Name: "m.json", Saved: &Saved{Mesh: m}}}, "rdmaperf", time.Unix(1800000000,
		0)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPage_Large: a page of many hosts has few elements and little text.
func TestPage_Large(t *testing.T) {
	for _, tc := range []struct{ hosts, pairs, most int }{ // pairs of each host
		{200, 199, 500 << 10}, {512, 150, 1600 << 10}, {1000, 99, 400 << 10}, {1000, 3, 400 << 10}, {4000, 2,
			1200 << 10},
	} {
		m := meshWith(tc.hosts)
		for i := range m.Hosts {
			for k := range tc.pairs {
				pair(m, i, (i+1+k)%tc.hosts, 90+float64((i*31+k*17)%100)/20, 1.7+float64((i*7+k)%90)/1000)
			}
		}
		text := htmlOf(t, m)
		if len(text) > tc.most || strings.Count(text, "<") > 4000+26*tc.hosts {
			t.Errorf("%d hosts, %d pairs: %d bytes, %d tags", tc.hosts, len(m.Pairs), len(text), strings.Count(text,
				"<"))
		}
		if folded := strings.Contains(text, "Maps, in which most pairs are not measured"); folded != (tc.pairs < 100) {
			t.Errorf("%d hosts, %d pairs: the map is folded: %v", tc.hosts, len(m.Pairs), folded)
		}
		if !strings.Contains(text, "m.json: no host and no pair is slow") || strings.Contains(text,
			`class="mesh wrong"`) {
			t.Errorf("%d hosts: no verdict", tc.hosts)
		}
	}
}

// TestMostHosts: each mesh that rdmaperf mesh can measure can be read.
func TestMostHosts(t *testing.T) {
	object := func(hosts int) string {
		return `{"schema":"pureverbs.perf.mesh","version":1,"hosts":["h"` + strings.Repeat(`,"h"`, hosts-1) + `]}`
	}
	read(t, "m", object(mesh.MostHosts))
	want := fmt.Sprintf("mesh of %d hosts; allowed: 2 to %d", mesh.MostHosts+1, mesh.MostHosts)
	if _, err := Read(strings.NewReader(object(mesh.MostHosts + 1))); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestPage_SlowWithoutFigure: a pair that a file calls slow without a figure leaves the figures of others as they are.
func TestPage_SlowWithoutFigure(t *testing.T) {
	for _, n := range []int{3, 40} { // elements, and a picture with a script
		m := meshWith(n)
		pair(m, 0, 1, 97, 1.7)
		pair(m, 1, 0, 40, 1.7)
		m.Pairs = append(m.Pairs, mesh.PairResult{Direction: way(m, 2, 0)})
		m.SlowPairs = []mesh.SlowPair{{Direction: way(m, 2, 0), Figure: bandwidthKey}}
		text := htmlOf(t, m)
		if n > plot.MostWithText && strings.Count(text, `data-low="40" data-high="97"`) != 1 {
			t.Errorf("%d hosts: the map's figures are not from 40 to 97", n)
		}
		if strings.Contains(text, `class="cell l8"`) || strings.Contains(text, "NaN") {
			t.Errorf("%d hosts: a pair without a figure is drawn", n)
		}
	}
}

// TestPage_Verdicts: what is wrong is on top, hosts before pairs, and nothing hides anything else.
func TestPage_Verdicts(t *testing.T) {
	m := meshWith(30)
	slow := func(from, to int, figure string) {
		p := &m.Pairs[len(m.Pairs)-1]
		part := mesh.SlowPair{Direction: way(m, from, to), Figure: figure, Value: p.Bits}
		if figure == latencyKey {
			part.Value = p.P50
		}
		m.SlowPairs = append(m.SlowPairs, part)
	}
	failed := func(from, to int, text string) {
		m.Pairs = append(m.Pairs, mesh.PairResult{Direction: way(m, from, to), Error: text})
	}
	for i := range 30 {
		for k := range 30 {
			switch {
			case i == k:
			case i == 20 || k == 20:
				failed(i, k, "host node0020 is lost")
			case i == 7: // sends slowly
				pair(m, i, k, 40, 1.7)
				slow(i, k, bandwidthKey)
			case i == 10 && k < 5, i == 11 && k == 0: // latency, where more is worse
				pair(m, i, k, 97, 9.5)
				slow(i, k, latencyKey)
			case i == 12 && (k == 1 || k == 2):
				failed(i, k, "RetryExcErr")
			case i == 29 && k == 28:
				failed(i, k, "interrupted")
			case i == 3 && k == 4: // two rails: the worse is shown
				pair(m, i, k, 12, 1.7)
				slow(i, k, bandwidthKey)
				pair(m, i, k, 97, 1.7)
			default:
				pair(m, i, k, 97, 1.7)
			}
		}
	}
	m.SlowHosts = []mesh.SlowHost{
		{Host: "node0007", NIC: "mlx5_1", Part: "sends", Figure: bandwidthKey, Value: 40e9, Median: 97e9},
		{Host: "node0007", NIC: "mlx5_1", Part: "receives", Figure: latencyKey, Value: 9500, Median: 1700}}
	m.LostHosts = []mesh.LostHost{{Host: "node0020", Error: "no heartbeat for 3 s"}}
	root, err := html.Parse(strings.NewReader(htmlOf(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	var items []string
	rows := 0
	for e := range root.Descendants() {
		switch {
		case e.Data == "h2" && strings.HasPrefix(textOf(e), "m.json"),
			e.Data == "li" && slices.Contains(classes(e.Parent), "verdicts"):
			items = append(items, textOf(e))
		case e.Data == "tr" && e.Parent.Data == "tbody" && slices.Contains(classes(e.Parent.Parent), "worst"):
			if rows++; rows <= 3 {
				items = append(items, textOf(e))
			}
		}
	}
	want := []string{
		"m.json: 1 host lost, 1 host slow, 7 more pairs slow, 2 pairs failed",
		"lost node0020: no heartbeat for 3 s. 58 pairs of it without a figure",
		"slow node0007 mlx5_1: sends at 40 Gb/s (−59 %); receives at a latency of 9.5 µs (×5.6)",
		"slow node0003 to node0004, node0010 to node0000, node0010 to node0001 and 4 more pairs, although the hosts " +
			"are not slow",
		"failed node0012 to node0001 and 1 more pair: RetryExcErr",
		"node0003 node0004 12 (−88 %) 1.7 (±0 %) slow",
		"node0010 node0000 97 (±0 %) 9.5 (×5.6) slow",
		"node0010 node0001 97 (±0 %) 9.5 (×5.6) slow",
	}
	for i, w := range want {
		if i >= len(items) || items[i] != w {
			t.Errorf("item %d is not %q:\n%s", i, w, strings.Join(items, "\n"))
		}
	}
	if rows != 8 { // one of node0007, of a rail, and those of node0010 and node0011; others are as the median
		t.Errorf("%d worst pairs", rows)
	}
}

// TestPage_NICs: verdicts and pairs name the NIC where hosts have several. Pairs of a NIC that reaches nobody are no
// failures of their own.
func TestPage_NICs(t *testing.T) {
	m := meshWith(6)
	for i := range 6 {
		m.HostNICs = append(m.HostNICs, []string{"mlx5_0", "mlx5_1"})
		for k := range 6 {
			for _, nic := range m.HostNICs[0] {
				if i == k {
					continue
				}
				pair(m, i, k, 97, 1.7)
				p := &m.Pairs[len(m.Pairs)-1]
				p.FromNIC, p.ToNIC = nic, nic
				slow := mesh.SlowPair{Direction: p.Direction, Figure: bandwidthKey, Value: 40e9}
				switch {
				case nic == "mlx5_1" && (i == 3 || k == 3):
					p.Bits, p.P50, p.Error = 0, 0, "node0003 mlx5_1 reaches nobody"
				case nic == "mlx5_0" && i == 2, nic == "mlx5_1" && i == 4 && k == 5:
					p.Bits = 40e9
					m.SlowPairs = append(m.SlowPairs, slow)
				}
			}
		}
	}
	m.SlowHosts = []mesh.SlowHost{{Host: m.Hosts[2], NIC: "mlx5_0", Part: "sends", Figure: bandwidthKey, Value: 40e9,
		Median: 97e9}}
	m.DarkNICs = []mesh.DarkNIC{{Host: m.Hosts[3], NIC: "mlx5_1", Error: "no message arrives within 3s"}}
	m.UnmetNICs = []mesh.HostNIC{{Host: m.Hosts[5], NIC: "mlx5_9"}}
	text := htmlOf(t, m)
	for _, want := range []string{"m.json: 1 NIC dark, 1 host slow, 1 more pair slow</h2>",
		"6 hosts with up to 2 NICs, 50 pairs of NICs measured",
		"<strong>node0003 mlx5_1</strong></bdi>: <bdi>reaches nobody: no message arrives within 3s. 10 pairs of it w",
		"<strong>node0002 mlx5_0</strong></bdi>: <bdi>sends at 40 Gb/s", "<strong>node0005 mlx5_9</strong>",
		"node0004 mlx5_1 to node0005 mlx5_1, although the hosts are not slow",
		"<bdi>node0002 mlx5_0</bdi></th><td class=\"text\"><bdi>node0000 mlx5_0</bdi>", "node0003 (dark)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if strings.Contains(text, "pairs failed") {
		t.Error("pairs of the dark NIC are failures of their own")
	}
}

// TestPage_Kinds: hosts that did not come, that were left out, and latencies.
func TestPage_Kinds(t *testing.T) {
	m := meshWith(4)
	pair(m, 0, 1, 97, 1.7)
	pair(m, 1, 0, 97, 1.7)
	m.Pairs = append(m.Pairs, mesh.PairResult{Direction: way(m, 0, 3), Error: "it has no device"})
	m.LostHosts = []mesh.LostHost{{Host: "elsewhere", Kind: "absent", Error: "it did not come"}, {Host: m.Hosts[3],
		Kind: "left out", Error: "release"},
		{Host: m.Hosts[2], Kind: "nonsense"}, {Host: unnamed, Kind: "absent", Error: "3 more hosts did not come"}}
	m.SlowHosts = []mesh.SlowHost{{Host: m.Hosts[1], Part: "receives", Figure: "latency_p50_ns", Value: 3e9,
		Median: 2e3}}
	m.SlowPairs = []mesh.SlowPair{{Direction: way(m, 0, 1), Figure: "latency_p50_ns", Value: 1700}}
	text := htmlOf(t, m)
	for want, n := range map[string]int{
		"1 host lost, 1 host left out, 1 host absent, unnamed hosts absent, 1 host slow</h2>": 1,
		"3 more hosts did not come": 1, "receives at a latency of 3000000 µs (×1500000)": 1, `class="cell l8"`: 1,
		`class="cell l9"`: 0,
		"<strong>elsewhere</strong></bdi>: <bdi>it did not come": 1, "node0003 (left out)": 4,
	} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("%q is there %d times, want %d", want, got, n)
		}
	}
}

// textOf returns the text in an element.
func textOf(e *html.Node) string {
	var b strings.Builder
	for n := range e.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		} else if n.Data == "td" {
			b.WriteString(" ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// TestPage_Unmeasured: pairs that were not measured are no fault, and a mesh without figures is none.
func TestPage_Unmeasured(t *testing.T) {
	m := meshWith(3)
	if text := htmlOf(t, m); !strings.Contains(text, "m.json: no pair was measured") || strings.Contains(text,
		"mesh wrong") {
		t.Error(text)
	}
	pair(m, 0, 1, 97, 1.7)
	pair(m, 1, 0, 97, 1.7)
	m.Pairs = append(m.Pairs, mesh.PairResult{Direction: way(m, 2, 0), Error: "interrupted"})
	text := htmlOf(t, m)
	if !strings.Contains(text, "no host and no pair is slow") || strings.Contains(text, "mesh wrong") ||
		strings.Count(text, `class="cell l0"`) != 8 || strings.Count(text, `class="cell l3"`) != 4 {
		t.Error(text)
	}
}

// TestPage_HostileHosts: whatever hosts are called, a page shows it, and it does nothing.
func TestPage_HostileHosts(t *testing.T) {
	for _, n := range []int{4, 40} { // elements, and a picture with a script
		m := meshWith(n)
		long := strings.Repeat("<b>", 4096/3)
		copy(m.Hosts, []string{hostile, "</script><script>alert(1)//", long, "\u202eabc\u2066"})
		for i := range n {
			for k := range n {
				if i != k {
					pair(m, i, k, float64(40+i), 1.7)
				}
			}
		}
		for _, h := range m.Hosts[:4] {
			m.SlowHosts = append(m.SlowHosts, mesh.SlowHost{Host: h, Part: h, Figure: h, NIC: h})
			m.LostHosts = append(m.LostHosts, mesh.LostHost{Host: h, Error: h})
			m.SlowPairs = append(m.SlowPairs, mesh.SlowPair{Direction: mesh.Direction{From: h, To: m.Hosts[1]},
				Figure: h})
			dark := mesh.DarkNIC{Host: h, NIC: h, Error: h}
			m.DarkNICs, m.Untested = append(m.DarkNICs, dark), append(m.Untested, dark)
			m.UnmetNICs, m.Good = append(m.UnmetNICs, mesh.HostNIC{Host: h, NIC: h}), append(m.Good, h)
			m.Unknown = append(m.Unknown, mesh.Listed{Host: h, Why: h})
			m.Splits = append(m.Splits, mesh.Split{Sides: [][]mesh.HostNIC{{{Host: h, NIC: h}}, nil}, Error: h})
			m.HostNICs = append(m.HostNICs, []string{h, h})
			m.Pairs = append(m.Pairs, mesh.PairResult{Direction: mesh.Direction{From: h, To: m.Hosts[1], FromNIC: h,
				ToNIC: h}, Error: h})
		}
		text := htmlOf(t, m)
		root, err := html.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int{"script": 1, "b": 0, "img": 0, "a": 0} {
			if got := count(root, name, ""); got != want {
				t.Errorf("%d hosts: %d <%s>, want %d", n, got, name, want)
			}
		}
		if strings.ContainsAny(text, "\u202e\u2066\x1b") || len(text) > 400<<10 {
			t.Errorf("%d hosts: %d bytes, or characters that turn others around", n, len(text))
		}
		for e := range root.Descendants() {
			for _, a := range e.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "style" ||
					a.Key == "href" && !strings.HasPrefix(a.Val, "data:image/png;base64,") {
					t.Errorf("<%s %s=%.40q>", e.Data, a.Key, a.Val)
				}
			}
		}
	}
}

// TestPage_Policy: the page permits its one script by its sum, and nothing from elsewhere.
func TestPage_Policy(t *testing.T) {
	root, err := html.Parse(strings.NewReader(htmlOf(t, meshWith(2))))
	if err != nil {
		t.Fatal(err)
	}
	policy, sum := "", ""
	for e := range root.Descendants() {
		switch {
		case e.Data == "script":
			s := sha256.Sum256([]byte(e.FirstChild.Data))
			sum = "'sha256-" + base64.StdEncoding.EncodeToString(s[:]) + "'"
		case e.Data == "meta" && len(e.Attr) == 2 && e.Attr[0].Val == "Content-Security-Policy":
			policy = e.Attr[1].Val
		}
	}
	if want := "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src " + sum; policy != want {
		t.Errorf("the policy is %s, want %s", policy, want)
	}
}

// TestLabels: runs are named by what differs.
func TestLabels(t *testing.T) {
	run := func(file, more string) Named {
		return read(t, file, `{"schema":"pureverbs.perf","version":2,"host":{"name":"n1"},`+more+`}`)
	}
	const same = `"test":{"verb":"write","metric":"bw","connection":"RC","queue_pairs":4}`
	for _, tc := range []struct {
		runs []Named
		want []string
	}{
		{[]Named{run("a", same)}, []string{"a"}},
		{[]Named{run("a", same), run("b", same)}, []string{"a", "b"}},
		{[]Named{run("a", same), run("b", strings.Replace(same, "4", "16", 1))},
			[]string{"a (4 queue pairs)", "b (16 queue pairs)"}},
		{[]Named{run("a", same+`,"program":"rdmaperf v1"`), run("b", strings.Replace(same, "RC", "UC",
			1)+`,"program":"rdmaperf v2"`),
			read(t, "m", meshObject)}, []string{"a (RC, rdmaperf v1)", "b (UC, rdmaperf v2)", "m"}},
		{[]Named{run("a", same),
			run("b", `"test":{"verb":"send","metric":"lat","connection":"UD","queue_pairs":1,"events":true}`)},
			[]string{"a (write bw, RC, 4 queue pairs)", "b (send lat, UD, 1 queue pair)"}},
		{[]Named{run("a", same+`,"peer":{"address":"10.0.0.1:5"}`), run("b", same+`,"peer":{"address":"10.0.0.2:7"}`)},
			[]string{"a (to 10.0.0.1)", "b (to 10.0.0.2)"}},
	} {
		nameRuns(tc.runs)
		for i, r := range tc.runs {
			if r.Label() != tc.want[i] {
				t.Errorf("%s, want %s", r.Label(), tc.want[i])
			}
		}
	}
}

// TestLineRates: the link's rate is a line, of both directions where the figures are; no device of software has one.
func TestLineRates(t *testing.T) {
	run := func(test, local, more string) Named {
		return read(t, "r", `{"schema":"pureverbs.perf","version":2,"test":{"metric":"bw"`+test+`},
			"local":{`+local+`}`+more+`}`)
	}
	const hundred = `"rate_bits_per_second":100e9`
	for _, tc := range []struct {
		run  Named
		want string
	}{
		{run("", hundred, ""), "[{100 line rate 100 Gb/s}]"},
		{run(`,"bidirectional":true`, hundred, ""), "[{200 line rate 200 Gb/s, both directions}]"},
		{run(`,"dual_port":true`, hundred, ""), "[{200 line rate 200 Gb/s}]"},
		{run("", hundred, `,"rails":[{"local":{`+hundred+`}},{"local":{`+hundred+`}}]`), "[{200 line rate 200 Gb/s}]"},
		{run("", hundred, `,"rails":[{"local":{`+hundred+`}},{"error":"no"}]`), "[]"},
		{run("", hundred+`,"software_device":true`, ""), "[]"},
		{run("", "", ""), "[]"},
		{run(`,"metric":"lat"`, hundred, ""), "[]"},
		{read(t, "m", meshObject), "[]"},
	} {
		if got := fmt.Sprint(lineRates([]Named{tc.run, tc.run})); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.run.Test, got, tc.want)
		}
	}
}

// TestPage_Stalls: hosts and pairs that stood still have a verdict each.
func TestPage_Stalls(t *testing.T) {
	m := meshWith(3)
	pair(m, 0, 1, 97, 1.7)
	m.StalledHosts = []mesh.StalledHost{{Host: m.Hosts[1], Seconds: 3.21, At: 12.5, Silences: 1},
		{Host: m.Hosts[2], Seconds: 1.4, At: 2, Pairs: 7},
		{Host: "<i>", Seconds: 1e300, At: -1, Silences: 2}}
	for range mostVerdicts + 3 {
		m.StalledPairs = append(m.StalledPairs, mesh.StalledPair{Direction: way(m, 0, 2), Seconds: 1.4})
	}
	m.StalledPairs[5].FromNIC = "mlx5_1"
	page := htmlOf(t, m)
	for _, want := range []string{"3 hosts stalled, 23 pairs stalled</h2>", "stood still for 3.2 s, after 12.5 s<",
		"messages of 7 pairs took up to 1.4 s<", "&lt;i&gt;",
		"stood still 2 times<", "node0000 to node0002: a message took 1.4 s<",
		"node0000 mlx5_1 to node0002: a message", "3 more, in the JSON file"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if n := strings.Count(page, "a message took 1.4 s"); n != mostVerdicts {
		t.Errorf("%d stalled pairs are listed, want %d", n, mostVerdicts)
	}
}

// TestPage_Confirm: what was slow once and not alone is no slow host and no slow pair.
func TestPage_Confirm(t *testing.T) {
	yes, no := true, false
	m := meshWith(4)
	pair(m, 0, 1, 97, 1.7)
	pair(m, 0, 2, 1, 1.7)
	slow := mesh.SlowHost{Part: "sends", Figure: bandwidthKey, Value: 1e9, Median: 97e9}
	for host, confirmed := range []*bool{0: nil, 1: &yes, 2: &no, 3: &no} {
		s := slow
		s.Host, s.Confirmed = m.Hosts[host], confirmed
		m.SlowHosts = append(m.SlowHosts, s)
	}
	more := m.SlowHosts[1]
	more.Figure, more.Confirmed = latencyKey, &no
	m.SlowHosts = append(m.SlowHosts, more)
	m.SlowPairs = []mesh.SlowPair{{Direction: way(m, 0, 1), Figure: bandwidthKey, Value: 1,
		Again: mesh.Again{Confirmed: &no}},
		{Direction: way(m, 2, 3), Figure: bandwidthKey, Value: 1},
		{Direction: way(m, 1, 2), Figure: bandwidthKey, Value: 1}}
	if rest, _ := settled(m); len(rest.SlowPairs) != 1 || rest.SlowPairs[0] != m.SlowPairs[2] {
		t.Errorf("slow pairs %+v, want that of the host which is slow", rest.SlowPairs)
	}
	page := htmlOf(t, m)
	for _, want := range []string{": 2 hosts slow</h2>",
		"not confirmed</span> <bdi>2 hosts and 1 pair looked slow, which was not confirmed by another look, alone<"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if strings.Contains(page, `bad">not confirmed`) {
		t.Error("what was not slow is marked as bad")
	}
	m.SlowHosts = m.SlowHosts[2:4]
	if page := htmlOf(t, m); !strings.Contains(page, ": no host and no pair is slow</h2>") {
		t.Error("a mesh whose suspects were dismissed is slow")
	}
}

// TestPage_Unknown: unknown hosts are named with the reason, and pairs are compared with the median of their rail, so
// that those of storage NICs are not slow ones of others.
func TestPage_Unknown(t *testing.T) {
	m := meshWith(4)
	for from := range 4 {
		for to := range 4 {
			for nic, gbits := range map[string]float64{"mlx5_0": 397, "mlx5_8": 97} {
				if from != to {
					pair(m, from, to, gbits, 1.7)
					p := &m.Pairs[len(m.Pairs)-1]
					p.FromNIC, p.ToNIC = nic, nic
				}
			}
		}
	}
	for i := range mostVerdicts + 2 {
		m.Unknown = append(m.Unknown, mesh.Listed{Host: m.Hosts[1], Why: fmt.Sprintf("mlx5_8 was not measured %d", i)})
	}
	page := htmlOf(t, m)
	for _, want := range []string{": 22 hosts unknown</h2>", "mlx5_8 was not measured 1<",
		"2 more reasons, in the JSON file"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if strings.Contains(page, "÷4") || strings.Contains(page, "−76 %") || strings.Contains(page, "−61 %") {
		t.Error("storage NICs are compared with others")
	}
}

// TestPage_Unclear: a split is on top, with its sides, and the hosts that may be good or bad are there with the
// reason. Their pairs are no failures. Each host has its list.
func TestPage_Unclear(t *testing.T) {
	m := meshWith(8) // 0 to 2 and 3 to 4 are sides, 5 could not be tested, 6 had busy CPUs, 7 is good
	var sides [2][]mesh.HostNIC
	side := func(i int) int { return lists.When(i < 3, 1) + 2*lists.When(i == 3 || i == 4, 1) }
	for i, h := range m.Hosts {
		if s := side(i); s > 0 {
			sides[s-1] = append(sides[s-1], mesh.HostNIC{Host: h})
			m.Unknown = append(m.Unknown, mesh.Listed{Host: h, Why: fmt.Sprintf("the fabric is split, side %d", s)})
		}
		for k := range m.Hosts {
			err := ""
			switch {
			case i == k:
				continue
			case side(i)+side(k) == 3 && side(i)*side(k) > 0:
				err = m.Hosts[i] + " and " + m.Hosts[k] + " are on different sides of a split fabric"
			case i == 5 || k == 5:
				err = "no connection within 3s"
			case i == 6 && k < 4:
				err = "unknown: the CPUs of node0006 were busy (run delay 30 %): RetryExcErr"
			}
			if pair(m, i, k, 97, 1.7); err != "" {
				p := &m.Pairs[len(m.Pairs)-1]
				p.Bits, p.P50, p.Error = 0, 0, err
			}
		}
	}
	m.Splits = []mesh.Split{{Sides: sides[:], Error: "no message within 3s"}}
	m.Untested = []mesh.DarkNIC{{Host: m.Hosts[5], Error: "no connection within 3s"}}
	m.Unknown = append(m.Unknown, mesh.Listed{Host: m.Hosts[5], Why: "its tests cannot begin: no connection within 3s"},
		mesh.Listed{Host: m.Hosts[6], Why: "its CPUs were busy in 4 of 12 pairs"})
	m.Good = m.Hosts[7:]
	page := htmlOf(t, m)
	for want, n := range map[string]int{
		"m.json: the fabric split in 2 sides, 7 hosts unknown</h2>":                             1,
		"<p class=\"dim\">8 hosts, 26 of 56 pairs measured":                                     1,
		". 1 host is good, 0 bad, 7 unknown.</p>":                                               1,
		"tag bad\">split</span> <bdi>the fabric is split: no message passes":                    1,
		"3 NICs (node[0000-0002]) and 2 NICs (node[0003-0004]): no message":                     1,
		"<strong>node[0000-0002]</strong></bdi>: <bdi>the fabric is split, side 1<":             1,
		"<strong>node[0003-0004]</strong></bdi>: <bdi>the fabric is split, side 2<":             1,
		"<strong>node0005</strong></bdi>: <bdi>its tests cannot begin: no connection within 3s": 1,
		"<strong>node0006</strong></bdi>: <bdi>its CPUs were busy in 4 of 12 pairs<":            1,
		"tag bad\">unknown": 0, "tag bad\">failed": 0, "failed</h2>": 0, `class="cell l9"`: 0,
		`<td class="text dim">unknown</td>`: 7, `<td class="text dim">good</td>`: 1,
	} {
		if got := strings.Count(page, want); got != n {
			t.Errorf("%q is there %d times, want %d", want, got, n)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		v    float64
		want string
	}{{0, ""}, {0.5, "÷200"}, {10, "÷10"}, {11, "−89 %"}, {100, "±0 %"}, {399, "+299 %"}, {400, "×4"}} {
		if got := distance(tt.v, 100); got != tt.want {
			t.Errorf("distance(%v, 100) = %q, want %q", tt.v, got, tt.want)
		}
	}
}
