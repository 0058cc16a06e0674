package report

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/doctor"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/place"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Schema names the JSON object and its version, which changes whenever a key
// changes its meaning or goes away.
const (
	Schema        = "pureverbs.perf"
	SchemaVersion = 1
)

type document struct {
	Schema   string            `json:"schema"`
	Version  int               `json:"version"`
	Started  string            `json:"started"`
	Elapsed  float64           `json:"elapsed_seconds"`
	Clock    string            `json:"clock"`
	Program  string            `json:"program"`
	Command  []string          `json:"command,omitempty"`
	Host     *Host             `json:"host,omitempty"`
	Test     testDoc           `json:"test"`
	Local    *sideDoc          `json:"local,omitempty"`
	Peer     *peerDoc          `json:"peer,omitempty"`
	Results  []any             `json:"results"`
	Parts    []partDoc         `json:"intervals_before_error,omitempty"`
	Verified bool              `json:"payload_verified"`
	CPU      float64           `json:"cpu_percent,omitempty"` // of one processor, of this end
	Counters map[string]uint64 `json:"counters,omitempty"`
	Notes    []string          `json:"notes,omitempty"`
	Warnings []doctor.Finding  `json:"warnings,omitempty"` // what spoils the figures
	Missed   []string          `json:"limits_missed,omitempty"`
	Error    string            `json:"error,omitempty"`
}

type testDoc struct {
	Verb          string  `json:"verb"`
	Metric        string  `json:"metric"`
	Atomic        string  `json:"atomic_type,omitempty"`
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
	Infinite      bool    `json:"endless,omitempty"`
	RateLimit     float64 `json:"rate_limit,omitempty"`
	RateUnit      string  `json:"rate_limit_unit,omitempty"`
	Burst         int     `json:"burst_messages,omitempty"`
	LatencyDef    string  `json:"latency_definition,omitempty"`
	Memory        string  `json:"memory"`
	OnDemand      bool    `json:"on_demand,omitempty"`
	NullMR        bool    `json:"null_mr,omitempty"`
	Relaxed       bool    `json:"relaxed_ordering"`
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
	NUMANode  *int    `json:"numa_node,omitempty"`  // of the device, if it is known
	NUMANodes int     `json:"numa_nodes,omitempty"` // of the machine
	CPUs      string  `json:"cpus,omitempty"`       // that the test might run on
	Pinned    bool    `json:"pinned"`
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
	Lost     uint64 `json:"lost,omitempty"`
	bwDoc
	Sent     *bwDoc    `json:"sent,omitempty"`
	Received *bwDoc    `json:"received,omitempty"`
	ByPeer   bool      `json:"reported_by_peer,omitempty"`
	Parts    []partDoc `json:"intervals,omitempty"`
}

// partDoc is a part of a run; seconds is its length.
type partDoc struct {
	Seconds float64 `json:"seconds"`
	Bits    float64 `json:"bandwidth_bits_per_second"`
	Rate    float64 `json:"messages_per_second"`
}

func partsOf(parts []measure.Interval) (docs []partDoc) {
	for _, i := range parts {
		docs = append(docs, partDoc{i.Seconds, i.BitsPerSecond, i.MessagesPerSecond})
	}
	return docs
}

type latSize struct {
	Bytes    uint64 `json:"bytes"`
	Messages uint64 `json:"messages"`
	measure.Summary
	Histogram []measure.Bucket `json:"histogram,omitempty"`
}

func bwOf(b *measure.Bandwidth) *bwDoc {
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

// Outcome is all there is to tell of a run.
type Outcome struct {
	Plan      *plan.Plan
	Result    *engine.Result
	Program   string // and its version
	Command   []string
	Host      *Host
	Histogram bool  // with the distribution of latencies
	Failure   error // what ended the run, or nil
	Warnings  []doctor.Finding
	Missed    []error // limits
}

// JSON writes the whole outcome as one object, with an error if there was one.
func (o *Outcome) JSON(w io.Writer) error {
	c, res := o.Plan, o.Result
	role := wire.Server
	if c.Client() {
		role = wire.Client
	}
	d := document{
		Schema: Schema, Version: SchemaVersion,
		Started: res.Started.UTC().Format(time.RFC3339), Elapsed: res.Elapsed.Seconds(), Clock: res.Clock,
		Program: o.Program, Command: o.Command, Host: o.Host,
		Test: testDoc{
			Verb: c.Verb.String(), Metric: c.Metric.String(), Role: role.String(),
			Connection: c.Transport.String(), RDMACM: c.RDMACM,
			Bidirectional: c.Bidirectional, AllSizes: c.All, Iterations: c.Iters,
			Duration: c.Duration.Seconds(), Margin: max(c.Margin, 0).Seconds(),
			QPs: c.QPs, TxDepth: c.TxDepth, RxDepth: c.RxDepth, PostList: c.PostList, CQMod: c.CQMod,
			Inline: max(res.Setup.Local.Inline, 0), Events: c.Events,
		},
		Results: []any{}, Parts: partsOf(res.Parts), Verified: res.Verified,
		CPU: res.Used.CPUPercent(), Counters: res.Used.Counters, Notes: Notes(res), Warnings: o.Warnings,
	}
	d.Test.Memory, d.Test.OnDemand, d.Test.NullMR, d.Test.Relaxed = c.Memory.Kind.String(), c.Memory.OnDemand,
		c.Memory.Null, c.Relaxed()
	d.Test.Infinite = c.Infinite
	if c.Infinite {
		d.Test.Iterations = 0
	}
	if r := c.Rate; r.Limit > 0 {
		d.Test.RateLimit, d.Test.RateUnit, d.Test.Burst = r.Limit, r.Unit.String(), r.Burst
	}
	if c.Verb == wire.Atomic {
		d.Test.Atomic = c.Atomic.String()
	}
	if c.Verb.Fetches() {
		d.Test.OutReads = res.Setup.OutReads
	}
	if c.Metric == wire.Latency {
		d.Test.LatencyDef = c.LatencyDef.String()
	}
	if l := res.Setup.Local; l.Device != "" {
		d.Local = &sideDoc{Device: l.Device, Firmware: l.Firmware, Port: l.Port, LinkLayer: l.LinkLayer,
			Rate:     l.RateGbps * 1e9,
			DataPath: l.DataPath, MTU: l.MTU, LID: l.LID, GID: l.GID, Software: l.Software != ""}
		pl := &res.Setup.Place
		d.Local.NUMANodes, d.Local.CPUs, d.Local.Pinned = pl.Nodes, place.FormatList(pl.CPUs), pl.Pinned
		if pl.Node >= 0 && pl.Nodes > 0 {
			d.Local.NUMANode = &pl.Node
		}
		if l.GIDIndex >= 0 {
			d.Local.GIDIndex = &l.GIDIndex
		}
		d.Peer = &peerDoc{Address: res.Setup.PeerAddress, Version: res.Setup.PeerVersion, Ours: res.Setup.PeerOurs,
			LID: res.Setup.PeerLID, GID: res.Setup.PeerGID}
	}
	for _, r := range res.Sizes {
		if r.Lat != nil {
			s := latSize{Bytes: r.Bytes, Messages: r.Messages, Summary: *r.Lat}
			if o.Histogram {
				s.Histogram = r.Buckets
			}
			d.Results = append(d.Results, s)
			continue
		}
		d.Results = append(d.Results, bwSize{Bytes: r.Bytes, Messages: r.Messages, Lost: r.Lost, bwDoc: *bwOf(r.BW),
			Sent: bwOf(r.Sent), Received: bwOf(r.Received), ByPeer: r.ByPeer,
			Parts: partsOf(r.Parts)})
	}
	for _, err := range o.Missed {
		d.Missed = append(d.Missed, err.Error())
	}
	if o.Failure != nil {
		d.Error = o.Failure.Error()
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
