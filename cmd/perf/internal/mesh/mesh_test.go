package mesh

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestStatistics compares the median, the deviation and the two tests with figures from elsewhere: the binomial
// distribution, and all orders of small lists.
func TestStatistics(t *testing.T) {
	if m := mad([]float64{1, 1, 2, 2, 4, 6, 9}); m != 1.4826 {
		t.Errorf("deviation %v, want 1.4826", m)
	}
	for _, tt := range []struct {
		n, k    int
		p, want float64
	}{{3, 2, 0.1, 0.028}, {8, 8, 0.5, 1. / 256}, {31, 16, 0.2, 8.815e-5}, {5, 0, 0.3, 1}, {5, 1, 0, 0}} {
		if got := atLeast(tt.n, tt.k, tt.p); math.Abs(got-tt.want) > 0.02*tt.want {
			t.Errorf("%d of %d at %v: %v, want %v", tt.k, tt.n, tt.p, got, tt.want)
		}
	}
	for _, n := range []int{1, 3, 31, 1000} {
		for _, nth := range []int{1, (n + 3) / 4, (n + 1) / 2} {
			p := shares{}.of(n, nth)
			if c := atLeast(n, n-nth+1, p); p <= 0 || p >= 1 || c > alarm || c < 0.99*alarm {
				t.Errorf("of %d values the best %d: share %v, chance %v", n, nth, p, c)
			}
		}
	}
	for _, tt := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, 1. / 20},
		{[]float64{1, 2, 4}, []float64{3, 5, 6}, 2. / 20},
		{[]float64{4, 5, 6}, []float64{1, 2, 3}, 1},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8}, []float64{11, 12, 13, 14, 15, 16, 17, 18}, 1. / 12870},
	} {
		if got := below(tt.a, tt.b); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%v below %v: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
	if got := below([]float64{1, 1, 1, 1}, []float64{1, 1, 1, 1}); got < 0.5 || got > 0.7 {
		t.Errorf("of equal values: %v", got)
	}
}

// TestJudge has one host that sends slowly, and one pair.
func TestJudge(t *testing.T) {
	r := &Result{}
	for i := range 8 {
		r.Hosts = append(r.Hosts, fmt.Sprintf("h%d", i))
	}
	for from := range 8 {
		for to := range 8 {
			res := PairResult{Direction: Direction{From: r.Hosts[from], To: r.Hosts[to]}, Bits: 100e9, P50: 1000,
				from: from, to: to}
			switch {
			case from == to:
				continue
			case from == 5:
				res.Bits = 40e9
			case from == 1 && to == 2:
				res.P50 = 9000
			case from == 3 && to == 4:
				res = PairResult{Direction: res.Direction, Error: "host h4 is lost", from: 3, to: 4}
			}
			r.Pairs = append(r.Pairs, res)
		}
	}
	r.judge(Outliers{Deviations: 5, Share: 0.1})
	if want := (SlowHost{Host: "h5", Part: "sends", Figure: "bandwidth_bits_per_second", Value: 40e9,
		Median: 100e9}); !slices.Equal(r.SlowHosts, []SlowHost{want}) {
		t.Errorf("slow hosts %v, want %v", r.SlowHosts, want)
	}
	if want := (SlowPair{Direction: Direction{From: "h1", To: "h2"}, Figure: "latency_p50_ns", Value: 9000,
		Median: 1000}); len(r.SlowPairs) != 8 || !slices.Contains(r.SlowPairs, want) {
		t.Errorf("slow pairs %v", r.SlowPairs)
	}
	if r.Failed() != 1 {
		t.Errorf("%d failed, want 1", r.Failed())
	}
	var b bytes.Buffer
	r.Text(&b, false)
	for _, want := range []string{"slow host h5, where it sends: median 40 Gb/s, that of the hosts is 100\n",
		"slow pair h1 > h2: 9 us, the median is 1\n", "7 slow figures of pairs belong to slow hosts\n", "failed"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

// TestNothingShows: where no loss would show, the result says so, whatever the figures and options are.
func TestNothingShows(t *testing.T) {
	noise := fabricNoise{noise: 0.3}
	for _, tt := range []struct {
		name          string
		hosts, rounds int
		o             Outliers
		scale         float64
	}{
		{"no deviation is far enough", 16, 15, Outliers{1e6, 0.1}, 400e9},
		{"two hosts", 2, 1, Outliers{5, 0.1}, 400e9},
		{"one round", 16, 1, Outliers{5, 0.1}, 400e9},
		{"all of it", 16, 15, Outliers{5, 0.9999}, 400e9},
		{"tiny", 16, 15, Outliers{1e6, 0.1}, 1e-300},
		{"huge", 16, 15, Outliers{1e6, 0.1}, 1e300},
		{"nothing", 16, 15, Outliers{5, 0.1}, 0},
	} {
		rnd := rand.New(rand.NewPCG(1, 2))
		r := tournament(tt.hosts, tt.rounds, func(int, int) (float64, float64) {
			return tt.scale * noise.at(rnd), tt.scale / noise.at(rnd)
		})
		r.judge(tt.o)
		var text, object strings.Builder
		r.Text(&text, false)
		if err := r.JSON(&object); err != nil || len(r.SlowHosts) > 0 {
			t.Errorf("%s: %v, slow %v", tt.name, err, r.SlowHosts)
		}
		says := strings.Contains(text.String(), fmt.Sprintf("Bandwidth: of %d NICs no loss would have shown", tt.hosts))
		if says != (tt.scale > 0) || strings.Contains(text.String(), "Bandwidth: a loss") {
			t.Errorf("%s:\n%s", tt.name, &text)
		}
	}
}

// TestTextOfMany: the result of 200 hosts is short, and begins with the worst.
func TestTextOfMany(t *testing.T) {
	r := &Result{}
	for i := range 200 {
		r.Hosts = append(r.Hosts, fmt.Sprintf("n%d", i))
	}
	for from := range 200 {
		for to := range 200 {
			p := PairResult{Direction: Direction{From: r.Hosts[from], To: r.Hosts[to]},
				Bits: float64(90e9 + 1e7*float64((from*7+to*13)%100)),
				P50:  1000, from: from, to: to}
			if from == 17 && to == 18 {
				p.Bits = 1e9
			}
			if from != to {
				r.Pairs = append(r.Pairs, p)
			}
		}
	}
	for i := range 30 {
		r.LostHosts = append(r.LostHosts, LostHost{Host: fmt.Sprintf("m%d", i+1), Kind: Absent,
			Error: "it did not come"})
	}
	r.judge(Outliers{Deviations: 5, Share: 0.1})
	var b, whole bytes.Buffer
	r.Text(&b, false)
	r.Text(&whole, true)
	for _, want := range []string{"Bandwidth in Gb/s of 39800 pairs of 200 hosts: worst 1, 1% worse than 90",
		"           1  n17 > n18\n", "slow pair n17 > n18: 1 Gb/s, the median is 90.",
		"\n30 absent hosts m[1-30]: it did not come\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	if n := strings.Count(b.String(), "\n"); n > 30 {
		t.Errorf("%d lines", n)
	}
	if !strings.Contains(whole.String(), "[199]") {
		t.Error("no matrix")
	}
	good, bad := r.Sort()
	if len(good) != 200 || len(bad) != 30 || bad[0] != "m1" {
		t.Errorf("%d good, bad %q", len(good), bad)
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
		"[x b": `"[x"`, "a:70000 b": "port", strings.Repeat("a ", MostHosts+1): "allowed: 16384",
	} {
		if _, err := ParseHosts(strings.Fields(list), 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", list, err, want)
		}
	}
	names, err := ReadHostfile(strings.NewReader("# all\n\n a slots=2\nb:7 # the other\nc\n"))
	if err != nil || !slices.Equal(names, []string{"a", "b:7", "c"}) {
		t.Errorf("%q, %v", names, err)
	}
	for text, want := range map[string]string{"": "no hosts", "# none\n": "no hosts",
		strings.Repeat("a b\n", 1<<18) + "c": "more than 1048576 bytes"} {
		if names, err := ReadHostfile(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %d names, %v, want %q", text, len(names), err, want)
		}
	}
	names, err = ReadHostfile(strings.NewReader(strings.Repeat("a b\n", 1<<18)))
	if err != nil || len(names) != 1<<18 {
		t.Errorf("a file of 1 MiB: %d names, %v", len(names), err)
	}
}
