package mesh

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/starve"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Schema and Version name the form of the JSON object.
const (
	Schema  = "pureverbs.perf.mesh"
	Version = 1
)

// Result has the figures of a mesh; its JSON is the program's.
type Result struct {
	Schema    string         `json:"schema"`
	Version   int            `json:"version"`
	Program   string         `json:"program"`
	Command   []string       `json:"command,omitempty"`
	Started   time.Time      `json:"started"`
	Elapsed   float64        `json:"elapsed_seconds"`
	Order     schedule.Order `json:"order"`
	Rounds    int            `json:"rounds,omitempty"`
	Test      Test           `json:"test"`
	Rails     Rails          `json:"rails,omitempty"`
	Hosts     []string       `json:"hosts"`
	HostNICs  [][]string     `json:"host_nics,omitempty"` // of each host, if they have names
	Pairs     []PairResult   `json:"pairs"`
	SlowPairs []SlowPair     `json:"slow_pairs"`
	SlowHosts []SlowHost     `json:"slow_hosts"`
	LostHosts []LostHost     `json:"lost_hosts"`
	DarkNICs  []DarkNIC      `json:"dark_nics,omitempty"`  // which reach nobody
	UnmetNICs []HostNIC      `json:"unmet_nics,omitempty"` // which no host that they met has
	// NICs that have no partner of their name on hosts that have others left.
	UnpairedNICs []UnpairedNIC `json:"unpaired_nics,omitempty"`
	Groups       []Group       `json:"groups"`
	Until        float64       `json:"until,omitempty"` // the loss that had to show
	Unclear
	Stalls
	Lists
	Again    []PairResult `json:"pairs_again,omitempty"`   // those that were measured again, alone
	Controls []PairResult `json:"pairs_control,omitempty"` // of good NICs, measured alone between those
	Error    string       `json:"error,omitempty"`

	Reach float64 `json:"reach_seconds,omitempty"` // the pass before the first figure

	// Suspects that were not measured again, because there were too many.
	HostsNotAgain int `json:"slow_hosts_not_again,omitempty"`
	PairsNotAgain int `json:"slow_pairs_not_again,omitempty"`

	came  int             // hosts that were there when the first pair began, or went just before
	many  bool            // hosts have several NICs
	rates map[end]float64 // of links, in bits per second, as far as they are known
	nics  []int           // of each host, how many
	// planned is with how many others each NIC was to be measured; 0 if the mesh was not interrupted.
	planned int
}

// Test is the test between two hosts.
type Test struct {
	Verb           string `json:"verb"`
	BandwidthBytes uint64 `json:"bandwidth_bytes"`
	LatencyBytes   uint64 `json:"latency_bytes"`
}

// Direction is from a NIC of one host to a NIC of another one. A NIC may have no name.
type Direction struct {
	From    string `json:"from"`
	To      string `json:"to"`
	FromNIC string `json:"from_nic,omitempty"`
	ToNIC   string `json:"to_nic,omitempty"`
}

// Rail returns the names of the two NICs.
func (d *Direction) Rail() [2]string { return [2]string{d.FromNIC, d.ToNIC} }

// PairResult is one direction between two hosts.
type PairResult struct {
	Direction
	Bits  float64 `json:"bandwidth_bits_per_second,omitempty"`
	P50   float64 `json:"latency_p50_ns,omitempty"`
	P99   float64 `json:"latency_p99_ns,omitempty"`
	Max   float64 `json:"latency_max_ns,omitempty"`
	Error string  `json:"error,omitempty"`

	// Of the test of its two whose CPUs were the busier.
	FromCPU *starve.Waits `json:"from_cpu,omitempty"`
	ToCPU   *starve.Waits `json:"to_cpu,omitempty"`

	// Skipped is set if nothing is wrong with the pair: a host is lost, a NIC dark, or the mesh was interrupted.
	Skipped bool `json:"-"`

	from, to       int
	fromNIC, toNIC int
	many           bool      // hosts have several NICs
	aside          bool      // the error says nothing of the NICs: a host was lost or busy, or the two never meet
	at             time.Time // when it was entered
	unmet          bool      // the ends did not meet over TCP, which says nothing of the NICs
	busy           [2]bool   // CPUs of an end kept its test waiting, however often it was repeated
}

// end returns one of the two ends: 0 is the one that sends.
func (p *PairResult) end(i int) end {
	if i == 0 {
		return end{p.from, p.fromNIC}
	}
	return end{p.to, p.toNIC}
}

// Ends returns what people call the two ends.
func (p *PairResult) Ends() (from, to string) {
	return endName(p.From, lists.When(p.many, p.FromNIC)), endName(p.To, lists.When(p.many, p.ToNIC))
}

// SlowPair is a direction whose figure is an outlier.
type SlowPair struct {
	Direction
	Figure string  `json:"figure"`
	Value  float64 `json:"value"`
	Median float64 `json:"median_of_all"` // pairs that are equal
	Again
}

// SlowHost is a host, or one of its NICs, whose pairs are outliers together.
type SlowHost struct {
	Host   string  `json:"host"`
	NIC    string  `json:"nic,omitempty"` // empty: all that were measured
	Part   string  `json:"part"`          // sends or receives
	Figure string  `json:"figure"`
	Value  float64 `json:"median_of_host"`
	Median float64 `json:"median_of_hosts"` // of its group
	Again
}

// Again is the outcome of another look at a suspect, alone.
type Again struct {
	Value     float64 `json:"value_again,omitempty"` // 0: there is none
	Control   float64 `json:"value_of_control,omitempty"`
	Confirmed *bool   `json:"confirmed,omitempty"` // nil: nobody looked, or there is no figure
}

// Holds reports whether a suspicion holds: it was confirmed, or nobody looked again.
func (a Again) Holds() bool { return a.Confirmed == nil || *a.Confirmed }

// Kinds of lost hosts.
const (
	Absent  = "absent"   // it could not be reached, or did not come
	LeftOut = "left out" // it came, and does not fit
	Lost    = "lost"     // it was there, and went
	Unasked = "unasked"  // rdmaperf mesh itself failed, which says nothing of the host
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

// Figure is one of the two that a pair has.
type Figure struct {
	Key         string // in the JSON object
	Title, Unit string
	Per         float64 // of what Of returns, a unit
	Worse       float64 // 1 where more is worse, else -1
	Of          func(*PairResult) float64
}

// The keys of the figures, as in the JSON of a pair.
const (
	BandwidthKey = "bandwidth_bits_per_second"
	LatencyKey   = "latency_p50_ns"
)

// Figures are the two.
var Figures = [2]Figure{
	{BandwidthKey, "Bandwidth", "Gb/s", 1e9, -1, func(p *PairResult) float64 { return p.Bits }},
	{LatencyKey, "Median latency", "us", 1e3, 1, func(p *PairResult) float64 { return p.P50 }},
}

// figureOf returns the figure of a key.
func figureOf(key string) (is Figure) {
	for _, f := range Figures {
		if f.Key == key {
			is = f
		}
	}
	return is
}

// Factor returns by which factor a value is worse than the median.
func (f Figure) Factor(value, median float64) float64 {
	if f.Worse < 0 {
		return median / value
	}
	return value / median
}

var parts = []string{"sends", "receives"}

// Failed counts the pairs that have no figures.
func (r *Result) Failed() int {
	return lists.Count(r.Pairs, func(p *PairResult) bool { return p.Error != "" })
}

// Rails selects which NICs of two hosts are measured with each other.
type Rails string

// end is a NIC of a host, both by their numbers.
type end struct{ host, nic int }

// UnpairedNIC is a NIC that was not measured with some hosts.
type UnpairedNIC struct {
	HostNIC
	Hosts int `json:"hosts"` // how many
}

// endName is how people call a NIC of a host.
func endName(host, nic string) string {
	return host + lists.When(nic != "", " "+nic)
}

// DarkNIC is a NIC that reaches nobody, or no host any more.
type DarkNIC struct {
	Host  string `json:"host"`
	NIC   string `json:"nic,omitempty"` // empty: the host's only one
	Error string `json:"error"`
}

// StalledHost is a host that stood still, and went on.
type StalledHost struct {
	Host     string  `json:"host"`
	Seconds  float64 `json:"seconds"`    // of the longest silence of its agent, or wait of a message
	At       float64 `json:"at_seconds"` // when that began, or its pair ended, since the mesh began
	Silences int     `json:"silences"`
	Pairs    int     `json:"pairs"` // that waited for long
}

// StalledPair is a direction in which a message took long.
type StalledPair struct {
	Direction
	Seconds float64 `json:"seconds"`
}

// Stalls has what stood still for a while. Nothing of it is there if nobody looked.
type Stalls struct {
	StalledHosts []StalledHost `json:"stalled_hosts,omitempty"`
	StalledPairs []StalledPair `json:"stalled_pairs,omitempty"`
	// Itself is for how long rdmaperf mesh itself stood still, in all, which it blames nobody for.
	Itself float64 `json:"stood_still_itself_seconds,omitempty"`
}

// HostNIC is a NIC of a host.
type HostNIC struct {
	Host string `json:"host"`
	NIC  string `json:"nic,omitempty"`
}

// Unclear has what is wrong without a host that is known to be the cause.
type Unclear struct {
	Splits    []Split    `json:"splits,omitempty"`
	BusyHosts []BusyHost `json:"busy_hosts,omitempty"`
	Untested  []DarkNIC  `json:"untested_nics,omitempty"` // whose tests cannot begin: the ends do not meet over TCP
}

// Split is a fabric, or a rail of it, in parts: no NIC of one side reaches one of another side, and each side has
// several that reach each other.
type Split struct {
	Sides [][]HostNIC `json:"sides"` // the largest first
	Error string      `json:"error"` // of a test between two of them
}

// BusyHost is a host whose CPUs kept half of its tests waiting, or more. Nothing is known of its NICs.
type BusyHost struct {
	Host  string       `json:"host"`
	Tests int          `json:"pairs"` // whose tests had to wait
	Of    int          `json:"of_pairs"`
	Worst starve.Waits `json:"worst"`
}

// Listed is a node in a list, and why it is there.
type Listed struct {
	Host string `json:"host"`
	Why  string `json:"why"`
}

// Lists has each node that has a name in one of three lists. A node is good if each of its NICs was measured, and all
// is in order. It is bad if it is slow, stood still, has a dark NIC, is lost, or did not come. All others are unknown.
type Lists struct {
	Good    []string `json:"good_hosts"`
	Bad     []Listed `json:"bad_hosts"`
	Unknown []Listed `json:"unknown_hosts"`
}

// Group is NICs whose figures are compared with each other.
type Group struct {
	Figure string   `json:"figure"`
	Rail   string   `json:"rail,omitempty"`                 // the NIC's name; empty: any
	Rate   float64  `json:"rate_bits_per_second,omitempty"` // of their links; 0: nobody knows it, or they differ
	NICs   int      `json:"nics"`
	Hosts  []string `json:"hosts,omitempty"` // if nothing but their figures tells the group from others
	Median float64  `json:"median"`
	// Shows is the least loss of a NIC, or more latency, that would have shown in 95 % of runs like this one, as a
	// share. 0: none would have.
	Shows float64 `json:"shows_share,omitempty"`
}

// The choices.
const (
	SameRail Rails = "same" // those of the same name; without a common name, the first with the first and so on
	AllRails Rails = "all"  // each with each
)

func (e end) compare(o end) int { return cmp.Or(e.host-o.host, e.nic-o.nic) }
