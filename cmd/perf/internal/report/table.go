package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Table prints for people.
type Table struct {
	W    io.Writer
	Plan *plan.Plan
}

// Header prints what is about to run, and the head of the columns.
func (t Table) Header(s session.Setup) {
	c := t.Plan
	role := "server"
	if c.Client() {
		role = "client"
	}
	kind := fmt.Sprintf("%s %s", c.Verb, c.Metric)
	if c.Bidirectional {
		kind += ", both directions"
	}
	l := s.Local
	where := fmt.Sprintf("%s port %d, %s, mtu %d", printable.Name(l.Device), l.Port, l.LinkLayer, l.MTU)
	if l.RateGbps > 0 {
		where += fmt.Sprintf(", %g Gb/s", l.RateGbps)
	}
	if l.DataPath != "" {
		where += ", data path " + strings.ToLower(l.DataPath)
	}
	peer := "perftest " + printable.Name(s.PeerVersion)
	if s.PeerOurs {
		peer = "pureverbs perf"
	}
	if s.RDMACM {
		peer += ", by rdma_cm"
	}
	fmt.Fprintf(t.W, "%s, %s, %s\n", kind, c.Transport, role)
	fmt.Fprintf(t.W, "  device   %s\n", where)
	if l.GID != "" {
		fmt.Fprintf(t.W, "  address  gid %d %s, peer %s\n", l.GIDIndex, l.GID, s.PeerGID)
	} else {
		fmt.Fprintf(t.W, "  address  lid %d, peer %d\n", l.LID, s.PeerLID)
	}
	fmt.Fprintf(t.W, "  peer     %s, %s\n", printable.Name(s.PeerAddress), peer)
	opts := fmt.Sprintf("qps %d, send depth %d", c.QPs, c.TxDepth)
	if c.RxDepth > 0 {
		opts += fmt.Sprintf(", receive depth %d", c.RxDepth)
	}
	if c.PostList > 1 {
		opts += fmt.Sprintf(", post list %d", c.PostList)
	}
	if c.Metric == wire.Bandwidth {
		opts += fmt.Sprintf(", cq moderation %d", c.CQMod)
	}
	if l.Inline > 0 {
		opts += fmt.Sprintf(", inline up to %d", l.Inline)
	}
	if c.Verb == wire.Read {
		opts += fmt.Sprintf(", outstanding reads %d", s.OutReads)
	}
	if c.Events {
		opts += ", events"
	}
	if c.Metric == wire.Latency {
		opts += ", latency as " + map[plan.LatencyDef]string{
			plan.RoundTrip:    "perftest (" + map[bool]string{true: "whole", false: "half"}[c.Verb == wire.Read] + " round trip)",
			plan.ToCompletion: "post to completion"}[c.LatencyDef]
	}
	fmt.Fprintf(t.W, "  options  %s\n", opts)
	t.columns()
}

func (t Table) columns() {
	if t.Plan.Metric == wire.Latency {
		fmt.Fprintf(t.W, "%10s %12s %9s %9s %9s %9s %9s %9s %9s %9s %9s  [usec]\n",
			"#bytes", "#iterations", "min", "p50", "p90", "p99", "p99.9", "p99.99", "max", "mean", "stdev")
		return
	}
	unit := "MiB/sec"
	if t.Plan.Gbits {
		unit = "Gb/sec"
	}
	fmt.Fprintf(t.W, "%10s %12s %18s %20s %15s\n", "#bytes", "#iterations", "BW peak["+unit+"]", "BW average["+unit+"]", "MsgRate[Mpps]")
}

// Size prints one line.
func (t Table) Size(r measure.Size) {
	if l := r.Lat; l != nil {
		fmt.Fprintf(t.W, "%10d %12d", r.Bytes, r.Messages)
		for _, v := range []float64{l.Min, l.P50, l.P90, l.P99, l.P999, l.P9999, l.Max, l.Mean, l.Stdev} {
			fmt.Fprintf(t.W, " %9s", micros(v))
		}
		fmt.Fprintln(t.W)
		return
	}
	unit := measure.Units(t.Plan.Gbits)
	fmt.Fprintf(t.W, "%10d %12d %18s %20s %15s\n", r.Bytes, r.Messages, rate(r.BW.PeakBitsPerSecond/unit, 2),
		rate(r.BW.BitsPerSecond/unit, 2), rate(r.BW.MessagesPerSecond/1e6, 6))
}

// Footer prints what there is to say at the end.
func (t Table) Footer(res *engine.Result) {
	if n := len(res.Sizes); n > 0 && res.Sizes[n-1].ByPeer {
		what := "as the client measured it"
		if t.Plan.All {
			what += "; of all sizes it reports the last one"
		}
		fmt.Fprintln(t.W, what)
	}
	if c := t.Plan; c.Verb == wire.Read && c.Metric == wire.Latency && !c.Client() && res.Setup.Local.Device != "" {
		fmt.Fprintln(t.W, "the client measures, and does not report")
	}
	if res.Verified {
		fmt.Fprintln(t.W, "payload checked: right")
	}
	if len(res.Sizes) > 0 {
		for _, n := range Notes(res) {
			fmt.Fprintln(t.W, "note: "+n)
		}
	}
}

// Notes lists what a reader of the figures has to know.
func Notes(res *engine.Result) []string {
	if n := res.Setup.Local.Software; n != "" {
		return []string{n}
	}
	return nil
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
