package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// childEnv has the test binary behave as the process of a step.
const childEnv = "SELFTEST_CHILD"

func TestMain(m *testing.M) {
	switch how := os.Getenv(childEnv); how {
	case "":
		os.Exit(m.Run())
	case "done", "crash", "hang":
		s := Step{Number: 3, Name: "three", Outcome: Passed, Checks: []Check{{Name: "first", Outcome: Passed}}}
		if how != "done" {
			s.Outcome = ""
		}
		_ = json.NewEncoder(os.Stdout).Encode(&s)
		if how == "crash" {
			fmt.Fprintln(os.Stderr, "fatal error: fault")
			os.Exit(2)
		}
		if how == "hang" {
			time.Sleep(time.Hour)
		}
	}
}

// TestRunStep has the process of a step end in each way. What it had found until then is kept.
func TestRunStep(t *testing.T) {
	defer func(d time.Duration) { grace = d }(grace)
	grace = 0
	for _, tc := range []struct {
		how     string
		outcome Outcome
		reason  string
		output  string
	}{
		{"done", Passed, "", ""},
		{"crash", Failed, "exit status 2", "fatal error: fault"},
		{"hang", Failed, "not done after 1s", "goroutine 1"},
		{"silent", Failed, "reported no end", ""},
	} {
		t.Run(tc.how, func(t *testing.T) {
			start := func(ctx context.Context) *exec.Cmd {
				c := exec.CommandContext(ctx, os.Args[0])
				c.Env = append(os.Environ(), childEnv+"="+tc.how)
				return c
			}
			seconds := 60
			if tc.how == "hang" {
				seconds = 1
			}
			s := runStep(t.Context(), job{Step: 3, Options: Options{Seconds: seconds}}, start)
			if s.Number != 3 || s.Outcome != tc.outcome || !strings.Contains(s.Reason, tc.reason) ||
				!strings.Contains(s.Output, tc.output) || (s.Reason == "") != (tc.reason == "") {
				t.Errorf("%+v", s)
			}
			if tc.how != "silent" && (len(s.Checks) != 1 || s.Checks[0].Name != "first") {
				t.Errorf("checks %+v", s.Checks)
			}
		})
	}
}

// TestCheck has a check end in each way, and looks at what becomes of the step.
func TestCheck(t *testing.T) {
	var out bytes.Buffer
	s := &stage{ctx: t.Context(), opt: &Options{}, at: &[2]End{}, out: json.NewEncoder(&out)}
	var closed []string
	s.check("passes", func(b *box) {
		own(closer{"first", &closed, nil}, nil)(b)
		own(closer{"second", &closed, nil}, nil)(b)
		closeNow(b, own(closer{"third", &closed, nil}, nil)(b))
	})
	if have := strings.Join(closed, " "); have != "third second first" {
		t.Errorf("closed %s", have)
	}
	s.check("lacks", func(b *box) { b.ok(&ibv.UnsupportedError{Feature: "x", Need: "y", Have: "z"}) })
	s.check("skips", func(b *box) { b.skip("no %s", "port") })
	s.step.settle()
	if s.step.Outcome != Passed {
		t.Errorf("%v", s.step.Outcome)
	}
	s.check("fails", func(b *box) { b.fail("byte %d", 7) })
	s.check("does not close", func(b *box) { own(closer{"", &closed, errors.New("busy")}, nil)(b) })
	s.step.settle()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.ctx = ended
	s.check("late", func(b *box) { t.Error("a check ran after its time") })
	var have []string
	for _, c := range s.step.Checks {
		have = append(have, fmt.Sprintf("%s %s %s", c.Name, c.Outcome, c.Reason))
	}
	want := []string{"passes passed ", "lacks skipped x is not supported: it needs y, have z", "skips skipped no port",
		"fails failed byte 7", "does not close failed close: busy", "late skipped the time of the step was over"}
	for i, w := range want {
		if i >= len(have) || have[i] != w {
			t.Errorf("check %d: %q, want %q", i, have[i], w)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != len(want) {
		t.Errorf("%d reports to the parent, want %d", n, len(want))
	}
	r := &Result{Steps: []Step{s.step, {Outcome: Failed}}}
	if r.count(); s.step.Outcome != Failed || r.Passed != 1 || r.Failed != 3 || r.Skipped != 3 {
		t.Errorf("%v, %+v", s.step.Outcome, r)
	}
}

type closer struct {
	name   string
	closed *[]string
	err    error
}

func (c closer) Close() error { *c.closed = append(*c.closed, c.name); return c.err }

// TestLane sends the soak's messages to itself with one fault each, which must be found.
func TestLane(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(p []byte) []byte
		want string
	}{
		{"good", func(p []byte) []byte { return p }, ""},
		{"a byte differs", func(p []byte) []byte { p[len(p)-1]++; return p }, "arrived as message 0x28 of 48"},
		{"another one", func(p []byte) []byte { p[0]++; return p }, "arrived as message 0x29 of 48"},
		{"shorter", func(p []byte) []byte { return p[:16] }, "arrived as message 0x28 of 16"},
		{"empty", func(p []byte) []byte { return nil }, "of 0 bytes"},
	} {
		l := &lane{number: 2, most: 200, mem: make([]byte, soakQPs*soakDepth*soakSlot)}
		l.qps[3].want = 40
		var sent [soakInline]byte
		p := tc.edit(l.message(sent[:], 3, 40))
		copy(l.mem[(3*soakDepth+5)*soakSlot:], p)
		wc := ibv.WC{ID: l.id(3, 5), ByteLen: uint32(len(p))}
		err := l.compare(&wc)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	l := &lane{most: 220}
	seen := map[int]bool{}
	for seq := range uint64(1000) {
		seen[l.length(seq)] = true
	}
	if len(seen) != 213 || !seen[8] || !seen[220] {
		t.Errorf("%d lengths", len(seen))
	}
}

// TestReadStock reads tables of perftest, as its programs print them.
func TestReadStock(t *testing.T) {
	const bandwidth = ` #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             97.71              97.64  		   0.186231
---------
`
	const latency = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]
 8       1000          0.89           2.90         0.93     	       0.95        	0.05		1.10 		2.90
`
	for _, tc := range []struct {
		text, unit string
		want       float64
	}{{bandwidth, "gbps", 97.64}, {bandwidth, "mpps", 0.186231}, {latency, "p50_us", 0.93}} {
		if v, err := readStock([]byte(tc.text), tc.unit); err != nil || v != tc.want {
			t.Errorf("%s: %v, %v, want %v", tc.unit, v, err, tc.want)
		}
	}
	const noClock = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]
 8       1000          inf            inf          inf       	       inf         	-nan   		inf 		inf
`
	if _, err := readStock([]byte(noClock), "p50_us"); !errors.Is(err, errNoClock) {
		t.Errorf("a table without numbers: %v", err)
	}
	if _, err := readStock([]byte("Couldn't listen to port\n"), "gbps"); err == nil {
		t.Error("no table, and no error")
	}
}
