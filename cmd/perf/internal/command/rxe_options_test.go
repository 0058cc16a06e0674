package command

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Options has options of perftest's between two of ours: what they do shows in the figures.
func TestRXE_Options(t *testing.T) {
	vm := testutil.NeedLogic(t)
	for n, tc := range []struct {
		line  string
		check func(t *testing.T, srv, cli *proc)
	}{
		{"write bw --reversed -q 2 -s 300 -n 50 --verify --json", func(t *testing.T, srv, cli *proc) {
			if !cli.outcome(t).Verified || srv.outcome(t).Verified || !cli.outcome(t).Results[0].ByPeer {
				t.Errorf("the payload did not come to the client\n%s", cli.output())
			}
		}},
		{"read lat --reversed -n 20 --json", func(t *testing.T, srv, cli *proc) {
			if len(srv.outcome(t).Results) != 1 || len(cli.outcome(t).Results) != 0 {
				t.Errorf("the client measured\n%s", cli.output())
			}
		}},
		{"send bw --reversed -b -s 300 -n 50 --verify --json", func(t *testing.T, srv, cli *proc) {
			if !srv.outcome(t).Verified || !cli.outcome(t).Verified {
				t.Errorf("the payload is not right\n%s", cli.output())
			}
		}},
		{"read bw --perform-warm-up -q 2 --threads 2 -t 8 -l 4 -n 40 --verify --json", func(t *testing.T, _, c *proc) {
			if r := c.outcome(t).Results; len(r) != 1 || r[0].Count != 80 {
				t.Errorf("%+v, want 80 messages", r)
			}
		}},
		{"write bw --perform-warm-up -b -a -s 4K -n 10 -e --json", func(t *testing.T, _, cli *proc) {
			if r := cli.outcome(t).Results; len(r) != 12 || r[11].Count != 10 {
				t.Errorf("%+v, want 12 sizes of 10 messages", r)
			}
		}},
		{"write bw -s 4K -D 1 --report-interval 0.5", func(t *testing.T, _, cli *proc) {
			if s := cli.out.String(); !strings.Contains(s, "  in ") || strings.Contains(s, "in 0.0 s") {
				t.Errorf("no intervals, or one without a length\n%s", s)
			}
		}},
		{"send bw --send-with-imm -s 64 -n 50 --verify --json", func(t *testing.T, srv, _ *proc) {
			if !srv.outcome(t).Verified {
				t.Errorf("the payload is not right\n%s", srv.output())
			}
		}},
		{"send lat -U -n 20 --json", func(t *testing.T, srv, cli *proc) {
			for _, p := range []*proc{srv, cli} {
				var o struct {
					Results []struct {
						Samples []float64 `json:"samples_ns"`
					}
				}
				if err := json.Unmarshal([]byte(p.out.String()), &o); err != nil || len(o.Results[0].Samples) != 19 {
					t.Errorf("%v: %v samples of 20 messages\n%s", err, o, p.output())
				}
			}
		}},
		{"write bw -s 4K -n 50 --output bandwidth", func(t *testing.T, srv, cli *proc) {
			for _, p := range []*proc{srv, cli} {
				if v, err := strconv.ParseFloat(strings.TrimSpace(p.out.String()), 64); err != nil || v <= 0 {
					t.Errorf("%q is no figure", p.out.String())
				}
			}
		}},
		{"send lat -n 20 -U --numa-node 0", func(t *testing.T, _, cli *proc) {
			if !strings.Contains(cli.out.String(), fmt.Sprintf("\n%10d ", 19)) {
				t.Errorf("no sample 19\n%s", cli.output())
			}
		}},
	} {
		if !testutil.Full() && (!vm.Emulated || n%2 != placeOf(vm)%2) {
			continue // each on one data path
		}
		t.Run(tc.line, func(t *testing.T) {
			args := append([]string{"rdmaperf"}, strings.Fields(tc.line)...)
			srv, cli := runPair(t, vm, args, args)
			tc.check(t, srv, cli)
		})
	}
	if !here(vm, 1) {
		return
	}
	for line, want := range map[string]string{
		"write bw --numa-node 9999":    "NUMA node 9999",
		"write bw -W counters/nothere": `"nothere": ` + vm.Dev[0] + " has none of that name",
	} {
		p := start(t, "rdmaperf", append(strings.Fields(line), "-d", vm.Dev[0], "-p", freshPort())...)
		if rc := p.wait(t); rc != 1 || !strings.Contains(p.diag.String(), want) {
			t.Errorf("rdmaperf %s: exit code %d, want 1 and %q\n%s", line, rc, want, p.output())
		}
	}
}

// TestRXE_HWTimestamps: the times between completions by the adapter's clock come to what the processor's measures.
func TestRXE_HWTimestamps(t *testing.T) {
	vm := testutil.NeedRXE(t)
	const line = "send bw --hw-timestamps -Q 1 -s 4K -n 200"
	if !vm.Emulated && !vm.Hardware {
		p := start(t, "rdmaperf", append(strings.Fields(line), "-d", vm.Dev[0], "-p", freshPort())...)
		if rc := p.wait(t); rc != 1 || !strings.Contains(p.diag.String(), "does not report the rate of its clock") {
			t.Errorf("exit code %d\n%s", rc, p.output())
		}
		return
	}
	type spacing struct {
		Samples uint64
		Mean    float64 `json:"mean_ns"`
		Max     float64 `json:"max_ns"`
	}
	for _, both := range []string{"", "-b -q 2 --threads 2"} {
		args := append([]string{"rdmaperf", "--json"}, strings.Fields(line+" "+both)...)
		srv, cli := runPair(t, vm, args, args)
		for _, p := range []*proc{srv, cli} {
			var o struct {
				Results []struct {
					Messages uint64
					Rate     float64  `json:"messages_per_second"`
					Sent     *spacing `json:"send_spacing"`
					Received *spacing `json:"receive_spacing"`
				}
			}
			if err := json.Unmarshal([]byte(p.out.String()), &o); err != nil || len(o.Results) != 1 {
				t.Fatalf("%v\n%s", err, p.output())
			}
			r := o.Results[0]
			if both != "" {
				if r.Sent == nil || r.Received == nil || r.Sent.Samples != 2*199 || r.Received.Samples != 2*199 {
					t.Errorf("%+v, want 398 of what was sent, and of what was received", r)
				}
				continue
			}
			s := r.Sent
			if p == srv {
				s = r.Received
			}
			if s == nil || s.Samples != 199 || (r.Sent == nil) == (r.Received == nil) {
				t.Fatalf("%+v, want 199", r)
			}
			// The first posting comes before the first completion, and the last is seen after it came.
			if all, most := s.Mean*199, 200/r.Rate*1e9; p == cli && all > 1.01*most || s.Max < s.Mean || s.Mean <= 0 {
				t.Errorf("%v ns in all, %v by the processor's clock: %+v", all, most, *s)
			}
		}
	}
}
