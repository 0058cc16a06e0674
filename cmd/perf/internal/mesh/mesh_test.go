package mesh

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestRounds(t *testing.T) {
	for n := 2; n <= 17; n++ {
		seen := map[Pair]int{}
		for _, round := range Rounds.Plan(n) {
			busy := map[int]bool{}
			for _, p := range round {
				if busy[p.From] || busy[p.To] || p.From == p.To {
					t.Errorf("%d hosts: %v meets somebody twice in %v", n, p, round)
				}
				busy[p.From], busy[p.To] = true, true
				seen[p]++
			}
			if len(round) != n/2 {
				t.Errorf("%d hosts: %d pairs in a round, want %d", n, len(round), n/2)
			}
		}
		if len(seen) != n*(n-1) {
			t.Errorf("%d hosts: %d pairs, want %d", n, len(seen), n*(n-1))
		}
		for p, times := range seen {
			if times != 1 {
				t.Errorf("%d hosts: %v %d times", n, p, times)
			}
		}
	}
	if r := All.Plan(4); len(r) != 1 || len(r[0]) != 12 {
		t.Errorf("all at once: %v", r)
	}
	if r := Single.Plan(4); len(r) != 12 || len(r[0]) != 1 {
		t.Errorf("one at a time: %v", r)
	}
}

func TestOutliers(t *testing.T) {
	o := Outliers{Deviations: 5, Share: 0.1}
	for _, tc := range []struct {
		v     []float64
		sign  float64
		x     float64
		isOut bool
	}{
		{[]float64{10, 10, 10, 10, 5}, -1, 5, true},
		{[]float64{10, 10, 10, 10, 5}, -1, 10, false},
		{[]float64{10, 10, 10, 10, 9.5}, -1, 9.5, false},     // within the share, though the deviation is 0
		{[]float64{10, 10, 10, 10, 15}, -1, 15, false},       // better
		{[]float64{10, 10, 10, 10, 15}, 1, 15, true},         // more is worse
		{[]float64{10, 8, 12, 9, 11, 6}, -1, 6, false},       // within five deviations
		{[]float64{10, 8, 12, 9, 11, 10, 0.1}, -1, .1, true}, // beyond
		{[]float64{10, 1}, -1, 1, false},                     // of two nobody knows which
		{nil, -1, 1, false},
	} {
		if got := o.slow(tc.v, tc.sign)(tc.x); got != tc.isOut {
			t.Errorf("%v of %v (%v): slow %v", tc.x, tc.v, tc.sign, got)
		}
	}
	if m := mad([]float64{1, 1, 2, 2, 4, 6, 9}); m != 1.4826 {
		t.Errorf("deviation %v, want 1.4826", m)
	}
}

// TestJudge has one host that sends slowly, and one pair.
func TestJudge(t *testing.T) {
	r := &Result{}
	for i := range 8 {
		r.Hosts = append(r.Hosts, fmt.Sprintf("h%d", i))
	}
	for _, round := range Rounds.Plan(8) {
		for _, p := range round {
			res := PairResult{From: r.Hosts[p.From], To: r.Hosts[p.To], Bits: 100e9, P50: 1000, from: p.From, to: p.To}
			switch {
			case p.From == 5:
				res.Bits = 40e9
			case p == Pair{1, 2}:
				res.P50 = 9000
			case p == Pair{3, 4}:
				res = PairResult{From: res.From, To: res.To, Error: "host h4 is lost", from: 3, to: 4}
			}
			r.Pairs = append(r.Pairs, res)
		}
	}
	r.judge(Outliers{Deviations: 5, Share: 0.1})
	if want := (SlowHost{"h5", "sends", "bandwidth_bits_per_second", 40e9, 100e9}); !slices.Equal(r.SlowHosts,
		[]SlowHost{want}) {
		t.Errorf("slow hosts %v, want %v", r.SlowHosts, want)
	}
	if want := (SlowPair{"h1", "h2", "latency_p50_ns", 9000, 1000}); len(r.SlowPairs) != 8 ||
		!slices.Contains(r.SlowPairs, want) {
		t.Errorf("slow pairs %v", r.SlowPairs)
	}
	if r.Failed() != 1 {
		t.Errorf("%d failed, want 1", r.Failed())
	}
	var b bytes.Buffer
	r.Text(&b)
	for _, want := range []string{"slow host h5, where it sends: median 40 Gb/s, that of the hosts is 100\n",
		"slow pair h1 > h2: 9 us, the median is 1\n", "7 slow figures of pairs belong to slow hosts\n", "failed"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

func TestHosts(t *testing.T) {
	got, err := ParseHosts([]string{"a", "b:7", "10.0.0.1", "fe80::1", "[fe80::2]:9", "[::1]"}, 18514)
	want := []Host{{"a", "a", 18514}, {"b:7", "b", 7}, {"10.0.0.1", "10.0.0.1", 18514}, {"fe80::1", "fe80::1", 18514},
		{"[fe80::2]:9", "fe80::2", 9}, {"[::1]", "::1", 18514}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for list, want := range map[string]string{
		"a": "at least 2", "a b a": "a is listed twice", "a:0 b": "port", "a:x b": "port", "-d b": `"-d"`,
		"[x b": `"[x"`, "a:70000 b": "port", strings.Repeat("a ", MostHosts+1): "allowed: 4096",
	} {
		if _, err := ParseHosts(strings.Fields(list), 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", list, err, want)
		}
	}
	names, err := ReadHostfile(strings.NewReader("# all\n\n a slots=2\nb:7 # the other\nc\n"))
	if err != nil || !slices.Equal(names, []string{"a", "b:7", "c"}) {
		t.Errorf("%q, %v", names, err)
	}
	for _, text := range []string{"", "# none\n", strings.Repeat("x", 1<<17)} {
		if names, err := ReadHostfile(strings.NewReader(text)); err == nil {
			t.Errorf("%.20q: %q", text, names)
		}
	}
}

func TestExpandNodes(t *testing.T) {
	for list, want := range map[string]string{
		"a":                  "a",
		"a,b-c":              "a b-c",
		"n[1-3]":             "n1 n2 n3",
		"n[08-11,7],login":   "n08 n09 n10 n11 n7 login",
		"r[1-2]n[01-02].net": "r1n01.net r1n02.net r2n01.net r2n02.net",
	} {
		if got, err := ExpandNodes(list); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, want %s", list, got, err, want)
		}
	}
	for _, list := range []string{"", "a,,b", "n[1-3", "n1-3]", "n[[1]]", "n[3-1]", "n[x]", "n[]", "n[1-99999]",
		"n[1-999][1-999]", "n[1-4294967296]", strings.Repeat("n[1-4000],", 1000) + "x"} {
		if got, err := ExpandNodes(list); err == nil {
			t.Errorf("%.30q: %d names", list, len(got))
		}
	}
}

func TestRank(t *testing.T) {
	find := func(env ...string) (Rank, bool, error) {
		return FindRank(func(name string) string {
			for _, e := range env {
				if v, ok := strings.CutPrefix(e, name+"="); ok {
					return v
				}
			}
			return ""
		})
	}
	if _, ok, err := find(); ok || err != nil {
		t.Errorf("no environment: %v, %v", ok, err)
	}
	for _, tc := range []struct {
		env  []string
		want Rank
	}{
		{[]string{"SLURM_PROCID=1", "SLURM_NTASKS=3", "SLURM_JOB_NODELIST=n[1-3]"}, Rank{1, 3, "n[1-3]"}},
		{[]string{"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_STEP_NODELIST=n[1-2]"},
			Rank{0, 2, "n[1-2]"}},
		{[]string{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4"}, Rank{2, 4, ""}},
		{[]string{"PMI_RANK=0", "PMI_SIZE=4"}, Rank{0, 4, ""}},
	} {
		if r, ok, err := find(tc.env...); !ok || err != nil || r != tc.want {
			t.Errorf("%q: %v, %v, %v", tc.env, r, ok, err)
		}
	}
	for _, rank := range []string{"4", "-1", "x"} {
		env := []string{"PMI_RANK=" + rank, "PMI_SIZE=4"}
		if r, _, err := find(env...); err == nil {
			t.Errorf("%q: %v", env, r)
		}
	}
	for r, want := range map[Rank]string{{0, 2, ""}: "--hostfile", {0, 4, "n[1-2]"}: "--ntasks-per-node=1",
		{0, 1, "["}: "brackets"} {
		if _, err := r.Hosts(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", r, err, want)
		}
	}
}
