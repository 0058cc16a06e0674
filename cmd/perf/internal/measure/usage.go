package measure

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Usage is the cost of a test for this end.
type Usage struct {
	Elapsed  time.Duration
	CPU      time.Duration     // of all threads; 0: not known
	Counters map[string]uint64 // by how much the port's counters rose, those that did or were named; nil: not asked for
	Reset    []string          // counters that fell, so that it is not known by how much they rose
}

// AddCounters adds those of another device.
func (u *Usage) AddCounters(other *Usage) {
	u.Reset = append(u.Reset, other.Reset...)
	more := other.Counters
	if more == nil {
		return
	}
	if u.Counters == nil {
		u.Counters = map[string]uint64{}
	}
	for name, v := range more {
		u.Counters[name] += v
	}
}

// CPUPercent returns the share of one processor, 0 if it is not known.
func (u *Usage) CPUPercent() float64 {
	if u.Elapsed <= 0 {
		return 0
	}
	return 100 * u.CPU.Seconds() / u.Elapsed.Seconds()
}

// Gauge has the counters and times from before a test.
type Gauge struct {
	read     func() map[string]uint64
	names    []string
	began    time.Time
	cpu      time.Duration
	counters map[string]uint64
}

// NewGauge reads the processor times, and the counters if there is a function that reads them: at those of some names,
// or at all.
func NewGauge(read func() map[string]uint64, names []string) *Gauge {
	g := &Gauge{read: read, names: names, began: time.Now(), cpu: cpuTime()}
	if read != nil {
		g.counters = read()
	}
	return g
}

// Used returns what the test has cost since then.
func (g *Gauge) Used() Usage {
	u := Usage{Elapsed: time.Since(g.began), CPU: cpuTime() - g.cpu}
	if g.read == nil {
		return u
	}
	u.Counters = map[string]uint64{}
	now := g.read()
	for name, v := range now {
		was, ok := g.counters[name]
		named := slices.Contains(g.names, name)
		switch {
		case !ok || g.names != nil && !named:
		case v < was:
			u.Reset = append(u.Reset, name)
		case v > was || named:
			u.Counters[name] = v - was
		}
	}
	slices.Sort(u.Reset)
	return u
}

// Notes tells of counters that show a problem, and of those that do not tell.
func (u *Usage) Notes() []string {
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(u.Counters)) {
		if why := Trouble[name]; why != "" && u.Counters[name] > 0 {
			notes = append(notes, fmt.Sprintf("%s rose by %d: %s", name, u.Counters[name], why))
		}
	}
	for _, name := range u.Reset {
		notes = append(notes, name+" was reset during the test: by how much it rose is not known")
	}
	return notes
}

// Trouble has the meaning of each counter that shows a problem, by the names of mlx5, bnxt, irdma and rxe. All others
// are traffic, or not known here.
var Trouble = map[string]string{
	"out_of_buffer":                   "messages arrived without a posted receive: -r too small, or this end too slow",
	"out_of_sequence":                 "packets arrived out of order or were lost",
	"packet_seq_err":                  "the peer requested packets again",
	"duplicate_request":               "the peer repeated requests: acknowledgements were lost or late",
	"implied_nak_seq_err":             "responses of the peer were lost",
	"local_ack_timeout_err":           "packets or their acknowledgements were lost: the ACK timeout (-u) expired",
	"rnr_nak_retry_err":               "the peer had no receive posted",
	"rnr_retry":                       "the peer had no receive posted",
	"rnr_nak_retries":                 "the peer had no receive posted",
	"roce_adp_retrans":                "packets were sent again",
	"roce_adp_retrans_to":             "packets were sent again, after a timeout",
	"retry_exceeded_err":              "the peer could not be reached",
	"completer_retry_err":             "packets were sent again",
	"np_cnp_sent":                     "congestion: this end told the peer to slow down",
	"rp_cnp_handled":                  "congestion: this end was told to slow down",
	"rp_cnp_ignored":                  "congestion: this end was told to slow down, and did not",
	"np_ecn_marked_roce_packets":      "congestion: switches marked packets for this end",
	"cnpSent":                         "congestion: this end told the peer to slow down",
	"cnpHandled":                      "congestion: this end was told to slow down",
	"RxECNMrkd":                       "congestion: switches marked packets for this end",
	"rx_icrc_encapsulated":            "damaged packets arrived",
	"port_xmit_discards":              "the port dropped packets instead of sending them",
	"port_xmit_wait":                  "the port waited before sending: its link is full, or paused",
	"port_rcv_errors":                 "damaged packets arrived",
	"symbol_error":                    "the link has errors: check cable and transceiver",
	"link_downed":                     "the link went down",
	"link_error_recovery":             "the link had to recover: check cable and transceiver",
	"excessive_buffer_overrun_errors": "the port's buffers ran over: check flow control (PFC)",
	"VL15_dropped":                    "the port dropped management packets",
}
