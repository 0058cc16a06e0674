// Package report prints the outcome of a test: as a table, line by line while
// it runs, or as one JSON object at the end.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/stats"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Table prints for people.
type Table struct {
	W   io.Writer
	Cfg *engine.Config
}

// Header prints what is about to run, and the head of the columns.
func (t Table) Header(s engine.Setup) {
	c := t.Cfg
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
	fmt.Fprintf(t.W, "%s, RC, %s\n", kind, role)
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
		opts += fmt.Sprintf(", outstanding reads %d", c.OutReads)
	}
	if c.Events {
		opts += ", events"
	}
	if c.Metric == wire.Latency {
		opts += ", latency as " + map[engine.LatencyDef]string{
			engine.RoundTrip:    "perftest (" + map[bool]string{true: "whole", false: "half"}[c.Verb == wire.Read] + " round trip)",
			engine.ToCompletion: "post to completion"}[c.LatencyDef]
	}
	fmt.Fprintf(t.W, "  options  %s\n", opts)
	t.columns()
}

func (t Table) columns() {
	if t.Cfg.Metric == wire.Latency {
		fmt.Fprintf(t.W, "%10s %12s %9s %9s %9s %9s %9s %9s %9s %9s %9s  [usec]\n",
			"#bytes", "#iterations", "min", "p50", "p90", "p99", "p99.9", "p99.99", "max", "mean", "stdev")
		return
	}
	unit := "MiB/sec"
	if t.Cfg.Gbits {
		unit = "Gb/sec"
	}
	fmt.Fprintf(t.W, "%10s %12s %18s %20s %15s\n", "#bytes", "#iterations", "BW peak["+unit+"]", "BW average["+unit+"]", "MsgRate[Mpps]")
}

// Size prints one line.
func (t Table) Size(r engine.SizeResult) {
	if l := r.Lat; l != nil {
		fmt.Fprintf(t.W, "%10d %12d", r.Bytes, r.Messages)
		for _, v := range []float64{l.Min, l.P50, l.P90, l.P99, l.P999, l.P9999, l.Max, l.Mean, l.Stdev} {
			fmt.Fprintf(t.W, " %9s", micros(v))
		}
		fmt.Fprintln(t.W)
		return
	}
	unit := float64(8 << 20)
	if t.Cfg.Gbits {
		unit = 1e9
	}
	fmt.Fprintf(t.W, "%10d %12d %18s %20s %15s\n", r.Bytes, r.Messages, rate(r.BW.PeakBitsPerSecond/unit, 2),
		rate(r.BW.BitsPerSecond/unit, 2), rate(r.BW.MessagesPerSecond/1e6, 6))
}

// Footer prints what there is to say at the end.
func (t Table) Footer(res *engine.Result) {
	if n := len(res.Sizes); n > 0 && res.Sizes[n-1].ByPeer {
		what := "as the client measured it"
		if t.Cfg.All {
			what += "; of all sizes it reports the last one"
		}
		fmt.Fprintln(t.W, what)
	}
	if c := t.Cfg; c.Verb == wire.Read && c.Metric == wire.Latency && !c.Client() && res.Setup.Local.Device != "" {
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

// Schema names the JSON object and its version, which changes whenever a key
// changes its meaning or goes away.
const (
	Schema        = "pureverbs.perf"
	SchemaVersion = 1
)

type document struct {
	Schema   string   `json:"schema"`
	Version  int      `json:"version"`
	Started  string   `json:"started"`
	Elapsed  float64  `json:"elapsed_seconds"`
	Clock    string   `json:"clock"`
	Test     testDoc  `json:"test"`
	Local    *sideDoc `json:"local,omitempty"`
	Peer     *peerDoc `json:"peer,omitempty"`
	Results  []any    `json:"results"`
	Verified bool     `json:"payload_verified"`
	Notes    []string `json:"notes,omitempty"`
	Error    string   `json:"error,omitempty"`
}

type testDoc struct {
	Verb          string  `json:"verb"`
	Metric        string  `json:"metric"`
	Role          string  `json:"role"`
	Connection    string  `json:"connection"`
	RDMACM        bool    `json:"rdma_cm"`
	Bidirectional bool    `json:"bidirectional"`
	AllSizes      bool    `json:"all_sizes"`
	Iterations    uint64  `json:"iterations,omitempty"`
	Duration      float64 `json:"duration_seconds,omitempty"`
	Margin        float64 `json:"margin_seconds,omitempty"`
	QPs           int     `json:"queue_pairs"`
	TxDepth       int     `json:"send_depth"`
	RxDepth       int     `json:"receive_depth,omitempty"`
	PostList      int     `json:"post_list"`
	CQMod         int     `json:"cq_moderation"`
	Inline        int     `json:"inline_bytes"`
	OutReads      int     `json:"outstanding_reads,omitempty"`
	Events        bool    `json:"events"`
	LatencyDef    string  `json:"latency_definition,omitempty"`
}

type sideDoc struct {
	Device    string  `json:"device"`
	Firmware  string  `json:"firmware,omitempty"`
	Port      uint8   `json:"port"`
	LinkLayer string  `json:"link_layer"`
	Rate      float64 `json:"rate_bits_per_second,omitempty"`
	DataPath  string  `json:"data_path,omitempty"`
	MTU       int     `json:"path_mtu_bytes"`
	LID       uint16  `json:"lid"`
	GIDIndex  *int    `json:"gid_index,omitempty"`
	GID       string  `json:"gid,omitempty"`
	Software  bool    `json:"software_device"`
}

type peerDoc struct {
	Address string `json:"address"`
	Version string `json:"perftest_version"`
	Ours    bool   `json:"pureverbs"`
	LID     uint16 `json:"lid"`
	GID     string `json:"gid,omitempty"`
}

type bwDoc struct {
	// null: not measured, or not known to the peer that reported it
	Bits *float64 `json:"bandwidth_bits_per_second"`
	Peak *float64 `json:"bandwidth_peak_bits_per_second"`
	Rate *float64 `json:"messages_per_second"`
}

type bwSize struct {
	Bytes    uint64 `json:"bytes"`
	Messages uint64 `json:"messages"`
	bwDoc
	Sent     *bwDoc `json:"sent,omitempty"`
	Received *bwDoc `json:"received,omitempty"`
	ByPeer   bool   `json:"reported_by_peer,omitempty"`
}

type latSize struct {
	Bytes    uint64 `json:"bytes"`
	Messages uint64 `json:"messages"`
	stats.Summary
	Histogram []stats.Bucket `json:"histogram,omitempty"`
}

func bwOf(b *engine.Bandwidth) *bwDoc {
	if b == nil {
		return nil
	}
	known := func(v *float64) *float64 {
		if *v > 0 {
			return v
		}
		return nil
	}
	return &bwDoc{known(&b.BitsPerSecond), known(&b.PeakBitsPerSecond), known(&b.MessagesPerSecond)}
}

// JSON writes the whole outcome as one object, with an error if there was one.
func JSON(w io.Writer, c *engine.Config, res *engine.Result, histogram bool, failure error) error {
	role := wire.Server
	if c.Client() {
		role = wire.Client
	}
	d := document{
		Schema: Schema, Version: SchemaVersion,
		Started: res.Started.UTC().Format(time.RFC3339), Elapsed: res.Elapsed.Seconds(), Clock: res.Clock,
		Test: testDoc{
			Verb: c.Verb.String(), Metric: c.Metric.String(), Role: role.String(), Connection: "RC", RDMACM: c.RDMACM,
			Bidirectional: c.Bidirectional, AllSizes: c.All, Iterations: c.Iters,
			Duration: c.Duration.Seconds(), Margin: max(c.Margin, 0).Seconds(), QPs: c.QPs, TxDepth: c.TxDepth, RxDepth: c.RxDepth,
			PostList: c.PostList, CQMod: c.CQMod, Inline: max(c.Inline, 0), Events: c.Events,
		},
		Results: []any{}, Verified: res.Verified, Notes: Notes(res),
	}
	if c.Verb == wire.Read {
		d.Test.OutReads = c.OutReads
	}
	if c.Metric == wire.Latency {
		d.Test.LatencyDef = c.LatencyDef.String()
	}
	if l := res.Setup.Local; l.Device != "" {
		d.Local = &sideDoc{Device: l.Device, Firmware: l.Firmware, Port: l.Port, LinkLayer: l.LinkLayer, Rate: l.RateGbps * 1e9,
			DataPath: l.DataPath, MTU: l.MTU, LID: l.LID, GID: l.GID, Software: l.Software != ""}
		if l.GIDIndex >= 0 {
			d.Local.GIDIndex = &l.GIDIndex
		}
		d.Peer = &peerDoc{Address: res.Setup.PeerAddress, Version: res.Setup.PeerVersion, Ours: res.Setup.PeerOurs,
			LID: res.Setup.PeerLID, GID: res.Setup.PeerGID}
	}
	for _, r := range res.Sizes {
		if r.Lat != nil {
			s := latSize{Bytes: r.Bytes, Messages: r.Messages, Summary: *r.Lat}
			if histogram {
				s.Histogram = r.Buckets
			}
			d.Results = append(d.Results, s)
			continue
		}
		d.Results = append(d.Results, bwSize{Bytes: r.Bytes, Messages: r.Messages, bwDoc: *bwOf(r.BW),
			Sent: bwOf(r.Sent), Received: bwOf(r.Received), ByPeer: r.ByPeer})
	}
	if failure != nil {
		d.Error = failure.Error()
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		return err
	}
	_, err := w.Write(printable.JSON(b.Bytes()))
	return err
}

// Progress is a line on a terminal that is written over and over.
type Progress struct {
	W     io.Writer
	width int
}

// Update shows how far a size is.
func (p *Progress) Update(size, done, want uint64) {
	s := fmt.Sprintf("%d bytes: %d messages", size, done)
	if want > 0 {
		s = fmt.Sprintf("%d bytes: %d of %d messages, %d %%", size, done, want, done*100/want)
	}
	pad := max(p.width-len(s), 0)
	p.width = len(s)
	fmt.Fprintf(p.W, "\r%s%s", s, strings.Repeat(" ", pad))
}

// Clear removes the line.
func (p *Progress) Clear() {
	if p.width > 0 {
		fmt.Fprintf(p.W, "\r%s\r", strings.Repeat(" ", p.width))
		p.width = 0
	}
}
