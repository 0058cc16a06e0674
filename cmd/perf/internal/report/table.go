package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net"
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

// Table prints for people.
type Table struct {
	W         io.Writer
	Plan      *plan.Plan
	Histogram bool   // also print the distribution of latencies
	Only      string // nothing but this figure, one line for each size; "": all
}

// The values of Only, as perftest has them.
const (
	OnlyBandwidth = "bandwidth"    // in the unit of the table
	OnlyRate      = "message_rate" // in millions a second
	OnlyLatency   = "latency"      // the mean, in microseconds
)

// Begin prints nothing: there is no peer yet.
func (t Table) Begin() {}

// Waiting prints nothing: what waits is no result.
func (t Table) Waiting() {}

// Header prints what is about to run, and the head of the columns.
func (t Table) Header(s session.Setup) {
	if t.Only != "" {
		return
	}
	p := t.Plan
	t.kind()
	t.end(s)
	fmt.Fprintf(t.W, "  options  %s\n", options(p, s))
	t.columns()
}

// Rails prints what is about to run side by side.
func (t Table) Rails(rails []engine.Rail) {
	if t.Only != "" {
		return
	}
	t.kind()
	var shape string
	for _, r := range rails {
		fmt.Fprintf(t.W, "rail %s\n", printable.Name(r.Name))
		if r.Err != nil {
			fmt.Fprintln(t.W, "  failed")
			continue
		}
		t.end(r.Setup)
		shape = options(t.Plan, r.Setup)
	}
	if shape != "" {
		fmt.Fprintf(t.W, "  options  %s\n", shape)
		t.columns()
	}
}

// kind prints which test it is.
func (t Table) kind() {
	p := t.Plan
	fmt.Fprintf(t.W, "%s %s%s%s, %s, %s\n", p.Verb, p.Metric,
		lists.When(p.Load.Bidirectional, ", both directions"), lists.When(p.Load.Reversed, ", reversed"), p.Transport,
		role(p.Connects()))
}

// end prints the two ends of a connection.
func (t Table) end(s session.Setup) {
	fmt.Fprintf(t.W, "  device   %s\n", device(s.Local))
	raw := t.Plan.Transport == wire.RawEth
	if l := s.Local; raw {
		fmt.Fprintf(t.W, "  address  %s\n", net.HardwareAddr(t.Plan.Frames.Own[:]))
	} else if l.GID != "" {
		fmt.Fprintf(t.W, "  address  gid %d %s, peer %s\n", l.GIDIndex, l.GID, s.PeerGID)
	} else {
		fmt.Fprintf(t.W, "  address  lid %d, peer %d\n", l.LID, s.PeerLID)
	}
	peer := cmp.Or(lists.When(s.PeerVersion == "", "by Ethernet frames"), lists.When(s.PeerOurs, "rdmaperf"),
		"perftest "+printable.Name(s.PeerVersion)) +
		cmp.Or(lists.When(s.RDMACM, ", by rdma_cm"), lists.When(t.Plan.Peer.CMExchange, ", exchange by rdma_cm"))
	at := cmp.Or(lists.When(raw && t.Plan.Frames.Peer == [6]byte{}, "any"), s.PeerAddress)
	fmt.Fprintf(t.W, "  peer     %s, %s\n", printable.Name(at), peer)
	if s.Place.Nodes > 0 {
		fmt.Fprintf(t.W, "  place    %s\n", s.Place.String())
	}
}

func device(l session.Side) string {
	return fmt.Sprintf("%s port %d, %s, mtu %d", printable.Name(l.Device), l.Port, l.LinkLayer, l.MTU) +
		lists.When(l.RateGbps > 0, fmt.Sprintf(", %g Gb/s", l.RateGbps)) +
		lists.When(l.DataPath != "", ", data path "+strings.ToLower(l.DataPath)) +
		lists.When(l.Native, ", native control path")
}

// options names what shapes the figures.
func options(p *plan.Plan, s session.Setup) string {
	var o []string
	add := func(when bool, format string, a ...any) {
		if when {
			o = append(o, fmt.Sprintf(format, a...))
		}
	}
	add(true, "qps %d", p.Queues.QPs)
	add(p.Link.DualPort, "half of them on port 2")
	add(p.Queues.Threads > 1, "threads %d", p.Queues.Threads)
	add(p.Load.WarmUp, "warm-up")
	add(true, "send depth %d", p.Queues.TxDepth)
	add(p.Queues.RxDepth > 0, "receive depth %d", p.Queues.RxDepth)
	add(p.Queues.PostList > 1, "post list %d", p.Queues.PostList)
	add(p.Bandwidth(), "cq moderation %d", p.Queues.CQMod)
	add(s.Local.Inline > 0, "inline up to %d", s.Local.Inline)
	add(p.Verb.Fetches(), "outstanding reads %d", s.OutReads)
	add(p.Verb == wire.Atomic, "%v", p.Atomic)
	add(p.Queues.Events, "events")
	add(p.Load.Rate.Hardware, "at most %g %v, kept to by the adapter", p.Load.Rate.Limit, p.Load.Rate.Unit)
	add(p.Queues.MRPerQP, "memory of its own for each")
	add(p.Load.Rate.Limit > 0 && !p.Load.Rate.Hardware, "at most %g %v in bursts of %d", p.Load.Rate.Limit,
		p.Load.Rate.Unit, p.Load.Rate.Burst)
	add(p.Queues.RecvList > 0, "receive list %d", p.Queues.RecvList)
	add(p.Queues.PollMax > 0, "polls for %d", p.Queues.PollMax)
	add(p.Link.FlowLabels != nil, "flow label %s", strings.Trim(fmt.Sprint(p.Link.FlowLabels), "[]"))
	add(p.Memory.Kind != plan.Pages, "memory %v", p.Memory.Kind)
	add(p.Memory.Null, "null mr")
	add(p.Memory.OnDemand, "on demand")
	add(p.Memory.Ordered, "no relaxed ordering")
	add(p.Load.Infinite, "until interrupted")
	add(p.Load.Gap > 0, "a gap of %v before each message", p.Load.Gap)
	if p.Metric == wire.Latency {
		add(p.Report.LatencyDef == plan.RoundTrip, "latency as perftest (%s round trip)",
			cmp.Or(lists.When(p.Verb.Fetches(), "whole"), "half"))
		add(p.Report.LatencyDef == plan.ToCompletion, "latency as post to completion")
	}
	return strings.Join(o, ", ")
}

// unitOf is that of bandwidths.
func unitOf(p *plan.Plan) string { return cmp.Or(lists.When(p.Report.Gbits, "Gb/sec"), "MiB/sec") }

func (t Table) columns() {
	if t.Plan.Metric == wire.Latency {
		fmt.Fprintf(t.W, "%8s %11s %7s %7s %7s %7s %7s %7s %7s %7s %7s [usec]\n", // perftest's columns, then ours
			"#bytes", "#iterations", "min", "max", "p50", "mean", "stdev", "p99", "p99.9", "p90", "p99.99")
		return
	}
	unit := unitOf(t.Plan)
	fmt.Fprintf(t.W, "%10s %12s %18s %20s %15s\n", "#bytes", "#iterations", "BW peak["+unit+"]",
		"BW average["+unit+"]", "MsgRate[Mpps]")
}

// Size prints one line, and one for each rail if there are several.
func (t Table) Size(r measure.Size) {
	if t.Only != "" {
		t.figure(r)
		return
	}
	t.line(r)
	t.spacing("sent", r.SendSpacing)
	t.spacing("received", r.RecvSpacing)
	for rail := range lists.Each(r.Rails) {
		if rail.Err != nil {
			fmt.Fprintf(t.W, "%10s %12s  %s: failed\n", "", "-", printable.Name(rail.Name))
			continue
		}
		fmt.Fprintf(t.W, "  %s:\n", printable.Name(rail.Name))
		t.line(rail.Size)
		t.spacing("sent", rail.SendSpacing)
		t.spacing("received", rail.RecvSpacing)
	}
}

// spacing prints the times between completions.
func (t Table) spacing(what string, s *measure.SpacingSummary) {
	if s == nil {
		return
	}
	if s.Count == 0 {
		fmt.Fprintf(t.W, "%10s no times between completions of what was %s: -Q 1 gives each message one\n", "", what)
		return
	}
	fmt.Fprintf(t.W, "%10s between completions of what was %s, %d times by the adapter's clock [usec]:\n%10s min %s, "+
		"p50 %s, p99 %s, p99.9 %s, max %s, mean %s", "", what, s.Count, "", micros(s.Min), percentile(s.P50),
		percentile(s.P99), percentile(s.P999), micros(s.Max), micros(s.Mean))
	fmt.Fprintln(t.W, lists.When(s.Behind > 0, fmt.Sprintf("; %d out of order", s.Behind)))
}

// figure prints the one that was asked for, a dash if it is not known.
func (t Table) figure(r measure.Size) {
	switch t.Only {
	case OnlyBandwidth:
		fmt.Fprintln(t.W, rate(r.BW.BitsPerSecond/measure.Units(t.Plan.Report.Gbits), 2))
	case OnlyRate:
		fmt.Fprintln(t.W, rate(r.BW.MessagesPerSecond/1e6, 6))
	case OnlyLatency:
		fmt.Fprintln(t.W, micros(r.Lat.Mean))
	}
}

func (t Table) line(r measure.Size) {
	if l := r.Lat; l != nil {
		fmt.Fprintf(t.W, "%8d %11d %7s %7s %7s %7s %7s", r.Bytes, r.Messages, micros(l.Min), micros(l.Max),
			percentile(l.P50), micros(l.Mean), micros(l.Stdev))
		for _, p := range []measure.Percentile{l.P99, l.P999, l.P90, l.P9999} {
			fmt.Fprintf(t.W, " %7s", percentile(p))
		}
		fmt.Fprintln(t.W)
		if t.Histogram {
			t.buckets(r.Buckets)
		}
		for i, ns := range r.Samples {
			fmt.Fprintf(t.W, "%10d %12s\n", i+1, micros(ns))
		}
		return
	}
	t.bandwidth(r.Bytes, r.Messages, r.BW, "")
	t.directions(r.Sent, r.Received)
	for i := range r.Ports {
		t.bandwidth("", fmt.Sprintf("port %d", i+1), &r.Ports[i], "")
	}
	t.losses(r)
}

// losses prints what did not arrive.
func (t Table) losses(r measure.Size) {
	if r.Lost > 0 {
		fmt.Fprintf(t.W, "%10s %12d lost: they were sent, and no receive was posted, or the network dropped them\n", "",
			r.Lost)
	}
	if r.LostThere > 0 {
		fmt.Fprintf(t.W, "%10s %12d lost at the peer: no receive was posted there, or the network dropped them\n", "",
			r.LostThere)
	}
}

// directions prints those of both, if they were asked for, or if one of them is all that is known.
func (t Table) directions(sent, received *measure.Bandwidth) {
	if sent == nil || received != nil && !t.Plan.Report.ReportBoth {
		return
	}
	t.bandwidth("", "sent", sent, "")
	if received != nil {
		t.bandwidth("", "received", received, "")
	}
}

// bandwidth prints a line of figures: of all, of one direction of both, or of one port.
func (t Table) bandwidth(size, of any, b *measure.Bandwidth, behind string) {
	unit := measure.Units(t.Plan.Report.Gbits)
	fmt.Fprintf(t.W, "%10v %12v %18s %20s %15s%s\n", size, of, rate(b.PeakBitsPerSecond/unit, 2),
		rate(b.BitsPerSecond/unit, 2), rate(b.MessagesPerSecond/1e6, 6), behind)
}

// Interval prints a line for a part of a run.
func (t Table) Interval(size uint64, i measure.Interval) {
	b := measure.Bandwidth{BitsPerSecond: i.BitsPerSecond, MessagesPerSecond: i.MessagesPerSecond}
	if t.Only != "" {
		if t.Plan.Load.Infinite { // there is no last figure
			t.figure(measure.Size{BW: &b})
		}
		return
	}
	t.bandwidth(size, i.Messages, &b, fmt.Sprintf("  in %.1f s%s%s", i.Seconds, lists.When(i.Margin, ", margin"),
		lists.When(i.Rail != "", ", "+printable.Name(i.Rail))))
	t.directions(i.Sent, i.Received)
}

// Footer prints the notes at the end of a run, whether or not it has failed.
func (t Table) Footer(res *engine.Result, _ error) {
	if t.Only != "" {
		return
	}
	if s := res.Partial; s != nil {
		t.Size(*s)
		fmt.Fprintln(t.W, "partial: the run ended early, and the last figures are of what this end did until then")
	}
	if n := len(res.Sizes); n > 0 && res.Sizes[n-1].ByPeer {
		fmt.Fprintln(t.W, "as the client measured it"+
			lists.When(t.Plan.Sweep(), "; of all sizes it reports the last one"))
	}
	if c := t.Plan; c.Verb.Fetches() && c.Metric == wire.Latency && !c.Client() && res.Setup.Local.Device != "" {
		fmt.Fprintln(t.W, "the client measures, and does not report")
	}
	t.usage(&res.Used)
	if res.Verified {
		fmt.Fprintln(t.W, "payload checked: right")
	}
	if len(res.Sizes) > 0 || res.Partial != nil {
		for _, n := range Notes(res) {
			fmt.Fprintln(t.W, "note: "+n)
		}
	}
}

// usage prints what the test cost this end.
func (t Table) usage(u *measure.Usage) {
	if p := u.CPUPercent(); t.Plan.Report.CPUUtil && p > 0 {
		fmt.Fprintf(t.W, "processor: %.1f %% of one\n", p)
	}
	if u.Counters == nil {
		return
	}
	if len(u.Counters) == 0 {
		fmt.Fprintln(t.W, "counters: none of the port rose")
		return
	}
	asked := t.Plan.Report.CounterNames != nil
	fmt.Fprintln(t.W, cmp.Or(lists.When(asked, "counters rose by:"), "counters that rose:"))
	for _, name := range slices.Sorted(maps.Keys(u.Counters)) {
		fmt.Fprintf(t.W, "  %-34s %d\n", printable.Name(name), u.Counters[name])
	}
}

// Notes lists what a reader of the figures has to know.
func Notes(res *engine.Result) []string {
	notes := words(res.Setup.Local.Software, res.Setup.Place.Note, lists.When(res.Ahead > 0, "the first message of "+
		"each size is not in the latencies: a peer of perftest first measures its processor's clock"))
	return append(notes, res.Used.Notes()...)
}

// micros prints nanoseconds as microseconds, in a column of nine.
func micros(ns float64) string {
	us := ns / 1000
	switch {
	case us < 1000:
		return fmt.Sprintf("%.3f", us)
	case us < 100000:
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.0f", us)
}

// percentile is micros for one that may not be known.
func percentile(p measure.Percentile) string {
	if !p.Known() {
		return "-"
	}
	return micros(float64(p))
}

// rate prints a rate, small ones with more digits, unknown ones as a dash.
func rate(v float64, digits int) string {
	if v <= 0 {
		return "-"
	}
	if v < 1 {
		digits = 6
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
