package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		line  string
		check func(*options) bool
	}{
		{"write bw", func(o *options) bool {
			c := o.plan
			return c.Verb == wire.Write && c.Metric == wire.Bandwidth && !c.Client() && c.Port == 18515 &&
				c.IBPort == 1 &&
				c.Size == 65536 && c.Iters == 5000 && c.TxDepth == 128 && c.QPTimeout == 14 &&
				c.GIDIndex == plan.Auto &&
				c.Inline == plan.Auto && c.Timeout == 30*time.Second && c.LatencyDef == plan.RoundTrip
		}},
		{"send lat 10.8.0.1", func(o *options) bool {
			c := o.plan
			return c.Verb == wire.Send && c.Metric == wire.Latency && c.Host == "10.8.0.1" && c.Size == 2 &&
				c.RxDepth == 512
		}},
		{"-d mlx5_0 -i 2 -x 3 read bw -s 4K -n 50 -q 2 -t 16 -p 1234 -u 10 -S 3 -m 2048 -b -o 4 --tclass 106 host",
			func(o *options) bool {
				c := o.plan
				return c.Device == "mlx5_0" && c.IBPort == 2 && c.GIDIndex == 3 && c.Size == 4096 && c.Iters == 50 &&
					c.QPs == 2 &&
					c.TxDepth == 16 && c.Port == 1234 && c.QPTimeout == 10 && c.SL == 3 && c.MTU == 2048 &&
					c.Bidirectional &&
					c.OutReads == 4 && c.TClass == 106 && c.Host == "host"
			}},
		{"write bw -s1M -l 4 -n 40 -Q2 -I 64 -N --report_gbits", func(o *options) bool {
			c := o.plan
			return c.Size == 1<<20 && c.PostList == 4 && c.CQMod == 2 && c.Inline == 64 && c.NoPeak && c.Gbits
		}},
		{"write bw --post_list=4 --cq-mod=4 --inline_size=0 --ib_dev=a --noPeak -F -n 40", func(o *options) bool {
			c := o.plan
			return c.PostList == 4 && c.CQMod == 4 && c.Inline == 0 && c.Device == "a" && c.NoPeak
		}},
		{"write bw -a -n 5", func(o *options) bool { return o.plan.All && o.plan.Size == 8<<20 }},
		{"write bw -D 2 -f 0.5", func(o *options) bool {
			return o.plan.Duration == 2*time.Second && o.plan.Margin == 500*time.Millisecond
		}},
		{"write lat -D 1500ms --lat-def cqe --json -H", func(o *options) bool {
			return o.plan.Duration == 1500*time.Millisecond && o.plan.LatencyDef == plan.ToCompletion && o.json &&
				o.histogram
		}},
		{"write bw -R -d a -x 3 host", func(o *options) bool { return o.plan.RDMACM && o.plan.GIDIndex == 3 }},
		{"write bw --rdma_cm", func(o *options) bool { return o.plan.RDMACM }},
		{"write bw -u 0 -c rc --verify", func(o *options) bool { return o.plan.QPTimeout == 0 && o.plan.Verify }},
	} {
		o, err := parse(strings.Fields(tc.line))
		if err != nil {
			t.Errorf("perf %s: %v", tc.line, err)
			continue
		}
		if !tc.check(o) {
			t.Errorf("perf %s: %+v", tc.line, o.plan)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"":                            "say what to do",
		"write":                       "say what to do",
		"bw write":                    `verb "bw"`,
		"write speed":                 `metric "speed"`,
		"write bw a b":                "1 arguments too many: b",
		"write bw -s 0":               "0 bytes",
		"write bw -s -1":              "not a number of bytes",
		"write bw -s 4T":              "not a number of bytes",
		"write bw -s 99999999999999G": "not a number of bytes",
		"write bw -n 0":               "0 < 5",
		"write bw -n 4":               "4 < 5",
		"write bw -n x":               "x",
		"write bw -t 0":               "(-t) 0 < 1",
		"send bw -r 0":                "(-r) 0 < 1",
		"write bw -q 0":               "queue pairs",
		"write bw -i 0":               "device port",
		"write bw -i 256":             "256",
		"write bw -p 70000":           "tcp port",
		"write bw -c UD":              "only RC",
		"write lat --lat-def rtt":     "perftest and cqe",
		"write bw -D x":               "not a number of seconds",
		"write bw -D 1e300":           "too many",
		"write bw -f 1":               "needs a duration",
		"write bw -D 5 -n 5":          "not both",
		"write bw --timeout 0":        "not positive",
		"write bw --nonsense":         "nonsense",
		"write bw -R -m 1024":         "the path decides",
		"write bw -R -S 3":            "--tclass",
		"write bw -R -u 0":            "1 to 31",
		"write bw -R -x 3":            "needs a device",
		"write lat -q 2 -l 2":         "post list",

		"stream":                         "say what to do",
		"stream speed":                   `metric "speed"`,
		"stream bw a b":                  "1 arguments too many: b",
		"stream bw -s 0":                 "0 bytes",
		"stream bw -s 1G":                "allowed are 1 to 16777216",
		"stream bw -s 4G":                "too much for a message",
		"stream bw -n 0":                 "--iters 0 < 1",
		"stream bw -n 2":                 "2 messages (-n)",
		"message bw -q 0":                "--connections 0 < 1",
		"message bw -q 100000":           "100000 connections (-q)",
		"message lat -q 2":               "go with bw only",
		"message bw -p 65535":            "raw verbs take the next one",
		"message bw --compare=udp":       "--compare udp",
		"message bw --compare=message":   "runs already",
		"message lat --compare=copy":     "bw only",
		"message bw --rounds -1":         "-1 rounds",
		"message bw --timeout 0":         "not positive",
		"stream bw --bind 10.0.0.1 host": "for a server",
	} {
		var out, diag bytes.Buffer
		if rc := run(t.Context(), strings.Fields(line), &out, &diag); rc != exitUsage {
			t.Errorf("perf %s: exit code %d, want %d", line, rc, exitUsage)
		}
		if !strings.Contains(diag.String(), want) || out.Len() > 0 {
			t.Errorf("perf %s: stderr %q, want it to say %q; stdout %q", line, diag.String(), want, out.String())
		}
	}
}

func TestHelp(t *testing.T) {
	for _, a := range []string{"-h", "--help"} {
		var out, diag bytes.Buffer
		if rc := run(t.Context(), []string{a}, &out, &diag); rc != exitOK || diag.Len() > 0 {
			t.Errorf("%s: exit code %d, stderr %q", a, rc, diag.String())
		}
		for _, want := range []string{"{write|read|send} {bw|lat}", "-d, --ib-dev", "-Q, --cq-mod", "Exit status"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s does not say %q", a, want)
			}
		}
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, "default -1") || strings.Contains(line, "cpu-freq") {
				t.Errorf("%s shows %q", a, line)
			}
		}
	}
}

// TestNoDevice: one clear message, as text and in the JSON object.
func TestNoDevice(t *testing.T) {
	if e, err := os.ReadDir("/sys/class/infiniband"); err == nil && len(e) > 0 {
		t.Skip("this machine has an RDMA device")
	}
	var out, diag bytes.Buffer
	if rc := run(t.Context(), []string{"write", "bw", "--json"}, &out, &diag); rc != exitFailure {
		t.Errorf("exit code %d, want %d", rc, exitFailure)
	}
	if n := strings.Count(diag.String(), "\n"); n != 1 || !strings.HasPrefix(diag.String(), "perf: ") {
		t.Errorf("stderr %q, want one line", diag.String())
	}
	var d struct{ Error string }
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || d.Error == "" {
		t.Errorf("%v in %s", err, out.String())
	}
}
