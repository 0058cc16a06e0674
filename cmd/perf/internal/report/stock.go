package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Stock prints what perftest's programs print, line for line, for the scripts that cut it. The release is 6.24. What
// perftest does not print goes to Diag.
type Stock struct {
	W, Diag   io.Writer
	Plan      *plan.Plan
	Asked     *plan.Options // what the command line has, without the defaults
	Histogram bool          // print all samples of a test by count, the smallest first
	Counters  []string      // names as the command line has them
	Only      string        // as in Table, with six decimals
}

const (
	rule        = "---------------------------------------------------------------------------------------"
	rulePerPort = rule + "----------------------------------------------------------------------------"
)

// table is for what perftest has no words for.
func (t Stock) table() Table { return Table{W: t.Diag, Plan: t.Plan} }

func (t Stock) printf(format string, a ...any) { fmt.Fprintf(t.W, format, a...) }

func (t Stock) rule() {
	t.printf("%s\n", cmp.Or(lists.When(t.Plan.Report.PerPort, rulePerPort), rule))
}

// Begin prints what perftest prints before there is a peer.
func (t Stock) Begin() {
	p := t.Plan
	if q := t.Asked.Queues.CQMod; p.Queues.PostList > 1 && q == 0 {
		t.printf("%s\nA completion for each list of messages (-l), because -Q is not given\n", rule)
	} else if q > 1 && p.Bandwidth() && p.Large() {
		t.printf("%s\nWarning: few completions (-Q) of large messages\nWarning: the figures may be off\n", rule)
	}
	if t.noPeak() {
		t.printf(" WARNING: the peak is not measured in this run.\n")
	}
}

// noPeak reports whether perftest warns that there is no peak.
func (t Stock) noPeak() bool {
	p := t.Plan
	return p.Bandwidth() && !p.Report.NoPeak && (!p.ByCount() || p.Load.Iters > 20000 ||
		p.Verb.Consumes() && !p.Client() && !p.Load.Bidirectional)
}

// Waiting prints that a server is ready for its client.
func (t Stock) Waiting() {
	if t.Only != "" {
		return
	}
	stars := strings.Repeat("*", 36)
	t.printf("\n%s\n* Waiting for client to connect... *\n%s\n", stars, stars)
}

// Header prints what is about to run, both ends, and the head of the columns.
func (t Stock) Header(s session.Setup) {
	if t.Only != "" {
		return
	}
	p := t.Plan
	i := stockInfoOf(p, &s)
	t.printf("%s\n%20s%s\n", rule, "", strings.ReplaceAll(strings.Join(stockWords(p), " "), "Post_List", "Post List"))
	if i.Events != "" {
		t.printf(" Test with events. Using %s\n", strings.TrimPrefix(i.Events, "Using_"))
	}
	if p.Multicast {
		t.printf(" MultiCast runs on UD!\n")
	}
	pair := func(a string, av any, b string, bv any) { t.printf(" %-16s: %v\t\t%-15s: %v\n", a, av, b, bv) }
	one := func(when bool, name, format string, v any) {
		if when {
			t.printf(" %-16s: "+format+"\n", name, v)
		}
	}
	pair("Dual-port", onOff(i.DualPort), "Device", printable.Name(i.Device))
	pair("Number of qps", i.QPs, "Transport type", i.Transport)
	pair("Connection type", i.Conn, "Using SRQ", i.SRQ)
	pair("PCIe relax order", i.Relaxed, "Lock-free", onOff(false))
	pair("ibv_wr* API", i.WR, "Using DDP", onOff(false))
	one(i.TxDepth > 0, "TX depth", "%d", i.TxDepth)
	one(i.PostList > 0, "Post List", "%d", i.PostList)
	one(i.RecvList > 0, "Recv Post List", "%d", i.RecvList)
	one(i.RxDepth > 0, "RX depth", "%d", i.RxDepth)
	one(i.CQMod > 0, "CQ Moderation", "%d", i.CQMod)
	one(true, "Mtu", "%d[B]", i.MTU)
	one(true, "Link type", "%s", i.Link)
	if i.GIDIndex != nil {
		one(true, "GID index", "%d", *i.GIDIndex)
	}
	if i.Inline != nil {
		one(true, "Max inline data", "%d[B]", *i.Inline)
	} else {
		one(true, "Outstand reads", "%d", i.OutReads)
	}
	t.printf(" rdma_cm QPs\t : %v\n Data ex. method : %s", i.CM, i.Exchange)
	if i.TOS != nil {
		t.printf(" \tTOS    : %d", *i.TOS)
	}
	if p.Peer.RDMACM && !p.Connects() {
		t.printf("\n%s\n Waiting for client rdma_cm QP to connect\n Give the client an address of this device", rule)
	}
	t.printf("\n")
	one(p.Place.Node >= 0, "NUMA node", "%d", p.Place.Node)
	t.printf("%s\n", rule)
	t.ends("local", s.Own, s.UsesGID)
	t.ends("remote", s.Theirs, s.UsesGID)
	if p.Measures() {
		t.rule()
		t.columns()
	}
}

// ends prints the queue pairs of an end.
func (t Stock) ends(side string, list []wire.Dest, gid bool) {
	p := t.Plan
	if p.Transport == wire.RawEth { // whose ends do not know each other's
		return
	}
	for _, d := range list {
		t.printf(" %s address: LID %s QPN %s PSN %s", side, hex(uint64(d.LID), 4), hex(uint64(d.QPN), 6),
			hex(uint64(d.PSN), 6))
		if p.Verb == wire.Read && !p.Peer.RDMACM {
			t.printf(" OUT %s", hex(uint64(d.OutReads), 4))
		}
		if (p.Verb == wire.Read || p.Verb == wire.Write) && !p.Peer.RDMACM {
			t.printf(" RKey %s VAddr %s", hex(uint64(d.RKey), 8), hex(d.VAddr, 16))
		}
		if p.Transport.OneWay() {
			t.printf(" SRQn %s", hex(uint64(d.SRQN), 8))
		}
		t.printf("\n")
		if !gid {
			continue
		}
		t.printf(" %sGID: ", lists.When(p.Multicast && (side == "remote") == p.Client(), "M"))
		for i, b := range d.GID {
			if i > 0 {
				t.printf(":")
			}
			t.printf("%02d", b)
		}
		t.printf("\n")
	}
}

// hex is C's %#0wx: zero has no 0x.
func hex(v uint64, w int) string {
	if v == 0 {
		return strings.Repeat("0", w)
	}
	return fmt.Sprintf("0x%0*x", w-2, v)
}

func (t Stock) columns() {
	p, unit := t.Plan, unitOf(t.Plan)
	switch {
	case p.Bandwidth():
		t.printf(" #bytes     #iterations    BW peak[%s]    BW average[%s]   MsgRate[Mpps]", unit, unit)
	case p.ByCount():
		t.printf(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]" +
			"   99%% percentile[usec]   99.9%% percentile[usec] ")
	default:
		t.printf(" #bytes        #iterations       t_avg[usec]    tps average")
	}
	if p.Report.PerPort {
		t.printf("   BW Port1[%s]   MsgRate Port1[Mpps]   BW Port2[%s]   MsgRate Port2[Mpps]", unit, unit)
	}
	if t.cpu() {
		t.printf("    CPU_Util[%%]")
	}
	t.printf("\n")
}

// cpu reports whether there is a column of it: perftest has none in a run by count.
func (t Stock) cpu() bool { return t.Plan.Report.CPUUtil && !t.Plan.ByCount() }

// Size prints one line.
func (t Stock) Size(r measure.Size) {
	switch {
	case t.Plan.Load.Infinite && r.ByPeer: // what a client that was interrupted reports
	case t.Only != "":
		t.figure(&r)
	case r.Lat != nil:
		t.latency(&r)
	default:
		t.bandwidth(r.Bytes, r.Messages, r.BW, r.Ports)
		t.end(&r)
	}
	tab := t.table()
	tab.losses(r)
	tab.spacing("sent", r.SendSpacing)
	tab.spacing("received", r.RecvSpacing)
	if p := t.Plan; p.Report.ReportBoth && p.Load.Bidirectional && !p.Load.All {
		t.half("Local", &r, r.Sent)
		t.half("Remote", &r, r.Received)
	}
}

// half prints one direction of two.
func (t Stock) half(name string, r *measure.Size, b *measure.Bandwidth) {
	b = cmp.Or(b, &measure.Bandwidth{})
	t.printf("%s\n\n %s results: \n%s\n", rule, name, rule)
	t.columns()
	t.bandwidth(r.Bytes, b.Messages, b, nil)
	t.end(r)
}

// bandwidth prints one line without its end. An average that is not known is C's nan: a script that calculates with it
// fails. A peak that was not measured is 0, as in perftest.
func (t Stock) bandwidth(size, messages uint64, b *measure.Bandwidth, ports []measure.Bandwidth) {
	unit := measure.Units(t.Plan.Report.Gbits)
	avg, rate := orNaN(b.BitsPerSecond)/unit, orNaN(b.MessagesPerSecond)/1e6
	switch {
	case t.Plan.Report.PerPort:
		t.printf(" %-7d    %-10d     %-7s            %-7s\t\t   %-7s", size, messages, c(b.PeakBitsPerSecond/unit, 2),
			c(avg, 2), c(rate, 6))
		for i, p := range ports {
			t.printf("        %s%-7s            %-7s", lists.When(i > 0, "      "), c(orNaN(p.BitsPerSecond)/unit, 2),
				c(orNaN(p.MessagesPerSecond)/1e6, 6))
		}
	case t.Plan.Report.Gbits && avg < 0.1:
		t.printf(" %-7d    %d           %-7s            %-7s            %-7s", size, messages,
			c(b.PeakBitsPerSecond/unit, 6), c(avg, 6), c(rate, 6))
	default:
		t.printf(" %-7d    %-10d       %-7s            %-7s\t\t     %-7s", size, messages,
			c(b.PeakBitsPerSecond/unit, 2), c(avg, 2), c(rate, 6))
	}
}

// orNaN returns a figure, or NaN for 0, which is none.
func orNaN(v float64) float64 {
	if v > 0 {
		return v
	}
	return math.NaN()
}

// c is C's %.*f.
func c(v float64, digits int) string {
	if math.IsNaN(v) {
		return "nan"
	}
	if math.IsInf(v, 0) { // nothing was measured
		return "inf"
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// end ends a line, and prints the counters.
func (t Stock) end(r *measure.Size) {
	if t.cpu() {
		t.printf("\t    %-3.2f", r.Used.CPUPercent())
	}
	t.printf("\n")
	for _, given := range t.Counters {
		t.printf("\t%s=%d\n", printable.Name(given), r.Used.Counters[path.Base(given)])
	}
	if t.Counters != nil {
		t.printf("\n")
	}
}

// latency prints one line, after all samples if they are to be shown.
func (t Stock) latency(r *measure.Size) {
	l := r.Lat
	us := func(ns float64) string { return c(ns/1000, 2) }
	if !t.Plan.ByCount() {
		t.printf(" %-7d       %d            %-7s        %-7s", r.Bytes, r.Messages, us(l.Mean), c(trips(t.Plan, l), 2))
		t.end(r)
		return
	}
	if t.Asked.Report.Unsorted {
		t.samples(r.Samples)
	}
	if t.Histogram {
		t.samples(slices.Sorted(slices.Values(r.Samples)))
	}
	if t.Asked.Report.Unsorted || t.Histogram {
		t.rule()
		t.columns()
	}
	t.printf(" %-7d %d          %-7s        %-7s      %-7s  \t       %-7s     \t%-7s\t\t%-7s \t\t%-7s", r.Bytes,
		r.Messages, us(l.Min), us(l.Max), us(atMost(l.P50, l)), us(l.Mean), us(l.Stdev), us(atMost(l.P99, l)),
		us(atMost(l.P999, l)))
	t.end(r)
}

// atMost is a percentile, the largest sample where there are too few of them: perftest has numbers alone.
func atMost(p measure.Percentile, l *measure.Summary) float64 {
	if !p.Known() {
		return l.Max
	}
	return float64(p)
}

// trips returns how many round trips a second had.
func trips(p *plan.Plan, l *measure.Summary) float64 {
	trip := l.Mean
	if !p.Verb.Fetches() && p.Report.LatencyDef == plan.RoundTrip {
		trip *= 2
	}
	return float64(p.ThreadCount()) * 1e9 / trip
}

// samples prints them, in microseconds.
func (t Stock) samples(list []float64) {
	t.printf("#, usec\n")
	for i, ns := range list {
		t.printf("%d, %s\n", i+1, strconv.FormatFloat(ns/1000, 'g', 6, 64))
	}
}

// figure prints the one that was asked for.
func (t Stock) figure(r *measure.Size) {
	switch t.Only {
	case OnlyBandwidth:
		t.printf("%s\n", c(orNaN(r.BW.BitsPerSecond)/measure.Units(t.Plan.Report.Gbits), 6))
	case OnlyRate:
		t.printf("%s\n", c(orNaN(r.BW.MessagesPerSecond)/1e6, 6))
	case OnlyLatency:
		t.printf("%s\n", c(r.Lat.Mean/1000, 6))
	}
}

// Interval prints a line for a part of a run.
func (t Stock) Interval(size uint64, i measure.Interval) {
	b := measure.Bandwidth{BitsPerSecond: i.BitsPerSecond, MessagesPerSecond: i.MessagesPerSecond}
	if t.Only != "" {
		if t.Plan.Load.Infinite {
			t.figure(&measure.Size{BW: &b})
		}
		return
	}
	t.bandwidth(size, i.Messages, &b, nil)
	t.printf("\n")
}

// Footer prints the end of a run that has not failed.
func (t Stock) Footer(res *engine.Result, err error) {
	if t.Only == "" && err == nil && res.Setup.Local.Device != "" {
		switch {
		case !t.Plan.Load.Infinite || t.Plan.Load.Bidirectional || t.Plan.Verb.Consumes():
		case t.Plan.Client():
			t.printf("\n User stopped traffic\n")
		default:
			t.printf(" Client closed connection\n")
		}
		t.rule()
	}
	t.table().Footer(res, err)
}
