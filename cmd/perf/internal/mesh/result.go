package mesh

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Schema and Version name the form of the JSON object.
const (
	Schema  = "pureverbs.perf.mesh"
	Version = 1
)

// Order selects the tests, and which run at the same time.
type Order = schedule.Order

// Result has the figures of a mesh; its JSON is the program's.
type Result struct {
	Schema    string       `json:"schema"`
	Version   int          `json:"version"`
	Program   string       `json:"program"`
	Command   []string     `json:"command,omitempty"`
	Started   time.Time    `json:"started"`
	Elapsed   float64      `json:"elapsed_seconds"`
	Order     Order        `json:"order"`
	Rounds    int          `json:"rounds,omitempty"`
	Test      Test         `json:"test"`
	Hosts     []string     `json:"hosts"`
	Pairs     []PairResult `json:"pairs"`
	SlowPairs []SlowPair   `json:"slow_pairs"`
	SlowHosts []SlowHost   `json:"slow_hosts"`
	LostHosts []LostHost   `json:"lost_hosts"`
	Stalls
	Again []PairResult `json:"pairs_again,omitempty"` // those that were measured again, alone
	Error string       `json:"error,omitempty"`

	// Suspects that were not measured again, because there were too many.
	HostsNotAgain int `json:"slow_hosts_not_again,omitempty"`
	PairsNotAgain int `json:"slow_pairs_not_again,omitempty"`

	came int // hosts that were there when the first pair began, or went just before
}

// Test is the test between two hosts.
type Test struct {
	Verb           string `json:"verb"`
	BandwidthBytes uint64 `json:"bandwidth_bytes"`
	LatencyBytes   uint64 `json:"latency_bytes"`
}

// PairResult is one direction between two hosts.
type PairResult struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Bits  float64 `json:"bandwidth_bits_per_second,omitempty"`
	P50   float64 `json:"latency_p50_ns,omitempty"`
	P99   float64 `json:"latency_p99_ns,omitempty"`
	Max   float64 `json:"latency_max_ns,omitempty"`
	Error string  `json:"error,omitempty"`

	Skipped bool `json:"-"` // nothing is wrong with the pair: a host is lost, or the mesh was interrupted

	from, to int
	at       time.Time // when it was entered
}

// SlowPair is a direction whose figure is an outlier.
type SlowPair struct {
	From   string  `json:"from"`
	To     string  `json:"to"`
	Figure string  `json:"figure"`
	Value  float64 `json:"value"`
	Median float64 `json:"median_of_all"`
	Again
}

// SlowHost is a host whose pairs are outliers together.
type SlowHost struct {
	Host   string  `json:"host"`
	Part   string  `json:"part"` // sends or receives
	Figure string  `json:"figure"`
	Value  float64 `json:"median_of_host"`
	Median float64 `json:"median_of_hosts"`
	Again
}

// Again is the outcome of another look at a suspect, alone.
type Again struct {
	Value     float64 `json:"value_again,omitempty"` // 0: there is none
	Confirmed *bool   `json:"confirmed,omitempty"`   // nil: nobody looked, or there is no figure
}

// Holds reports whether a suspicion holds: it was confirmed, or nobody looked again.
func (a Again) Holds() bool { return a.Confirmed == nil || *a.Confirmed }

// Kinds of lost hosts.
const (
	Absent  = "absent"   // it could not be reached, or did not come
	LeftOut = "left out" // it came, and does not fit
	Lost    = "lost"     // it was there, and went
)

// LostHost is a host without all its figures.
type LostHost struct {
	Host    string `json:"host"`
	Kind    string `json:"kind"`
	Error   string `json:"error"`
	Program string `json:"program,omitempty"` // of an agent that was left out

	more  int  // hosts without known names that it stands for, beyond one
	stray bool // an agent that claims to be a host of this mesh, and is not
}

// unnamed is the host of a LostHost that stands for several hosts without known names.
const unnamed = "?"

// String describes it for people.
func (l LostHost) String() string {
	if l.Host == unnamed {
		return l.Error
	}
	return fmt.Sprintf("%s host %s: %s", l.Kind, printable.Name(l.Host), printable.Message(l.Error))
}

// figure is one of the two that a pair has.
type figure struct {
	name  string
	worse float64 // 1 where more is worse, else -1
	of    func(*PairResult) float64
}

var figuresOfPair = []figure{
	{"bandwidth_bits_per_second", -1, func(p *PairResult) float64 { return p.Bits }},
	{"latency_p50_ns", 1, func(p *PairResult) float64 { return p.P50 }},
}

// verdict has the functions that tell what is slow, for each figure: of pairs, and of hosts in each part.
type verdict map[string]struct {
	pair  func(float64) bool
	hosts [2]func(float64) bool
}

var parts = []string{"sends", "receives"}

// judge sorts the pairs and names what is slow.
func (r *Result) judge(o Outliers) verdict {
	slices.SortFunc(r.Pairs, func(a, b PairResult) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	all := verdict{}
	for _, f := range figuresOfPair {
		var values []float64
		ends := [2][][]float64{make([][]float64, len(r.Hosts)), make([][]float64, len(r.Hosts))}
		for i := range r.Pairs {
			p := &r.Pairs[i]
			if v := f.of(p); v > 0 {
				values = append(values, v)
				ends[0][p.from] = append(ends[0][p.from], v)
				ends[1][p.to] = append(ends[1][p.to], v)
			}
		}
		v, middle := all[f.name], median(values)
		v.pair = o.slow(values, f.worse)
		for i := range r.Pairs {
			p := &r.Pairs[i]
			if x := f.of(p); x > 0 && v.pair(x) {
				r.SlowPairs = append(r.SlowPairs, SlowPair{From: p.From, To: p.To, Figure: f.name, Value: x,
					Median: middle})
			}
		}
		for end, does := range parts {
			v.hosts[end] = r.judgeHosts(f, does, ends[end], o)
		}
		all[f.name] = v
	}
	return all
}

// judgeHosts compares the medians of the hosts in one part. A host may be slow in one part only.
func (r *Result) judgeHosts(f figure, does string, values [][]float64, o Outliers) func(float64) bool {
	var hosts []float64
	for _, v := range values {
		if len(v) > 0 {
			hosts = append(hosts, median(v))
		}
	}
	isSlow := o.slow(hosts, f.worse)
	for i, v := range values {
		if len(v) > 0 && isSlow(median(v)) {
			r.SlowHosts = append(r.SlowHosts, SlowHost{Host: r.Hosts[i], Part: does, Figure: f.name, Value: median(v),
				Median: median(hosts)})
		}
	}
	return isSlow
}

// Failed counts the pairs that have no figures.
func (r *Result) Failed() (n int) {
	for i := range r.Pairs {
		if r.Pairs[i].Error != "" {
			n++
		}
	}
	return n
}

// Slow counts the hosts and the figures of pairs whose suspicion holds.
func (r *Result) Slow() (hosts, figures int) {
	for i := range r.SlowHosts {
		if r.SlowHosts[i].Holds() {
			hosts++
		}
	}
	for i := range r.SlowPairs {
		if r.SlowPairs[i].Holds() {
			figures++
		}
	}
	return hosts, figures
}

// Absences describes how many hosts are not in the figures, or not in all of them.
func (r *Result) Absences() string {
	var n [3]int
	for _, l := range r.LostHosts {
		n[max(0, slices.Index([]string{Absent, LeftOut, Lost}, l.Kind))] += 1 + l.more
	}
	said := fmt.Sprintf("%d hosts were lost", n[2])
	if n[0] > 0 {
		said = fmt.Sprintf("%d hosts did not come, %s", n[0], said)
	}
	if n[1] > 0 {
		said = fmt.Sprintf("%d hosts were left out, %s", n[1], said)
	}
	return said
}
