package report

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/doctor"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Schema names the JSON object and its version, which changes whenever a key
// changes its meaning or goes away.
const (
	Schema        = "pureverbs.perf"
	SchemaVersion = 2
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
	Rails    []connDoc         `json:"rails,omitempty"` // if there are several; local and peer are the first one's
	Results  []any             `json:"results"`
	Parts    []partDoc         `json:"intervals_before_error,omitempty"`
	Partial  any               `json:"partial_result,omitempty"` // also for that size
	Verified bool              `json:"payload_verified"`
	CPU      float64           `json:"cpu_percent,omitempty"` // of one processor, of this end
	Counters map[string]uint64 `json:"counters,omitempty"`
	Notes    []string          `json:"notes,omitempty"`
	Warnings []doctor.Finding  `json:"warnings,omitempty"` // what spoils the figures
	Missed   []string          `json:"limits_missed,omitempty"`
	Error    string            `json:"error,omitempty"`
	Posted   []string          `json:"posted_around_error,omitempty"` // a line for each work request
}

type testDoc struct {
	Verb          string  `json:"verb"`
	Metric        string  `json:"metric"`
	Atomic        string  `json:"atomic_type,omitempty"`
	Role          string  `json:"role"`
	Connection    string  `json:"connection"`
	RDMACM        bool    `json:"rdma_cm"`
	CMExchange    bool    `json:"exchange_by_rdma_cm,omitempty"` // and the queue pairs are not
	Bidirectional bool    `json:"bidirectional"`
	Reversed      bool    `json:"reversed,omitempty"` // the server has the client's part
	AllSizes      bool    `json:"all_sizes"`
	Rounds        int     `json:"rounds,omitempty"` // if there are several
	Iterations    uint64  `json:"iterations,omitempty"`
	Duration      float64 `json:"duration_seconds,omitempty"`
	Margin        float64 `json:"margin_seconds,omitempty"`
	QPs           int     `json:"queue_pairs"`
	DualPort      bool    `json:"dual_port,omitempty"` // half of the queue pairs are on port 2
	Threads       int     `json:"threads,omitempty"`   // if there are several
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
	Hardware      bool    `json:"rate_limit_by_adapter,omitempty"`
	MRPerQP       bool    `json:"mr_per_qp,omitempty"`
	WarmUp        bool    `json:"warm_up,omitempty"`
	LatencyDef    string  `json:"latency_definition,omitempty"`
	Gap           float64 `json:"latency_gap_ns,omitempty"` // before each message, not in the figures
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
	Native    bool    `json:"native_control_path,omitempty"`
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

// flowDoc is one direction of two.
type flowDoc struct {
	Messages uint64 `json:"messages"`
	bwDoc
}

type bwSize struct {
	Bytes    uint64   `json:"bytes"`
	Start    *float64 `json:"start"`                  // seconds since the run began, at which what counts began
	Seconds  *float64 `json:"seconds"`                // for how long
	Messages uint64   `json:"messages"`               // that this end sent or, if it sends none, that arrived
	Lost     uint64   `json:"lost,omitempty"`         // of those that the peer sent
	There    uint64   `json:"lost_at_peer,omitempty"` // of those that this end sent, as the peer reported
	bwDoc
	Sent     *flowDoc  `json:"sent,omitempty"`
	Received *flowDoc  `json:"received,omitempty"`
	ByPeer   bool      `json:"reported_by_peer,omitempty"`
	Ports    []*bwDoc  `json:"ports,omitempty"` // of a device with two
	Parts    []partDoc `json:"intervals,omitempty"`
	// between completions of this end, by the adapter's clock
	SendSpacing *spacingDoc `json:"send_spacing,omitempty"`
	RecvSpacing *spacingDoc `json:"receive_spacing,omitempty"`
	shares
}

// spacingDoc is the distribution of the times between completions.
type spacingDoc struct {
	Count  uint64             `json:"samples"`
	Behind uint64             `json:"out_of_order,omitempty"`
	Min    float64            `json:"min_ns"`
	Mean   float64            `json:"mean_ns"`
	P50    measure.Percentile `json:"p50_ns"`
	P99    measure.Percentile `json:"p99_ns"`
	P999   measure.Percentile `json:"p99_9_ns"`
	Max    float64            `json:"max_ns"`
}

func spacingOf(s *measure.SpacingSummary) *spacingDoc {
	if s == nil || s.Count == 0 {
		return nil
	}
	return &spacingDoc{s.Count, s.Behind, s.Min, s.Mean, s.P50, s.P99, s.P999, s.Max}
}

// shares are the parts of a result that is a sum.
type shares struct {
	Threads []any     `json:"threads,omitempty"`
	Rails   []railDoc `json:"rails,omitempty"`
}

// railDoc has the figures of one of several connections for a size; error is why it did not.
type railDoc struct {
	Name   string `json:"rail"`
	Error  string `json:"error,omitempty"`
	Result any    `json:"result,omitempty"`
}

// partDoc is a part of a run, with the figures of a size.
type partDoc struct {
	Start    float64  `json:"start"` // seconds since the run began
	Seconds  float64  `json:"seconds"`
	Margin   bool     `json:"margin,omitempty"` // not in the figures of the size
	Messages uint64   `json:"messages"`
	Bits     *float64 `json:"bandwidth_bits_per_second"` // null: that of one direction is not known
	Rate     *float64 `json:"messages_per_second"`
	Sent     *flowDoc `json:"sent,omitempty"`
	Received *flowDoc `json:"received,omitempty"`
}

func partsOf(parts []measure.Interval) (docs []partDoc) {
	for p := range lists.Each(parts) {
		known := p.Sent == nil || p.Received != nil
		docs = append(docs, partDoc{Start: p.Start, Seconds: p.Seconds, Margin: p.Margin, Messages: p.Messages,
			Sent: flowOf(p.Sent), Received: flowOf(p.Received), Bits: lists.When(known, &p.BitsPerSecond),
			Rate: lists.When(known, &p.MessagesPerSecond)})
	}
	return docs
}

type latSize struct {
	Bytes    uint64 `json:"bytes"`
	Messages uint64 `json:"messages"`
	measure.Summary
	Histogram []measure.Bucket `json:"histogram,omitempty"`
	Samples   []float64        `json:"samples_ns,omitempty"` // in order
	shares
}

// size returns the figures of one size, or of a part of it.
func (o *Outcome) size(r *measure.Size) any {
	var parts shares
	for i := range r.Threads {
		parts.Threads = append(parts.Threads, o.size(&r.Threads[i]))
	}
	for rail := range lists.Each(r.Rails) {
		d := railDoc{Name: rail.Name, Error: text(rail.Err)}
		if rail.Err == nil {
			d.Result = o.size(&rail.Size)
		}
		parts.Rails = append(parts.Rails, d)
	}
	if r.Lat != nil {
		return latSize{Bytes: r.Bytes, Messages: r.Messages, Summary: *r.Lat, Samples: r.Samples, shares: parts,
			Histogram: lists.When(o.Histogram, r.Buckets)}
	}
	s := bwSize{Bytes: r.Bytes, Messages: r.Messages, Lost: r.Lost,
		There: r.LostThere, bwDoc: *bwOf(r.BW), Sent: flowOf(r.Sent), Received: flowOf(r.Received), ByPeer: r.ByPeer,
		Parts:       partsOf(r.Parts),
		SendSpacing: spacingOf(r.SendSpacing), RecvSpacing: spacingOf(r.RecvSpacing), shares: parts,
		Start:   lists.When(!r.ByPeer, &r.Start), // a peer does not send when it began
		Seconds: lists.When(r.Seconds > 0 || !r.ByPeer, &r.Seconds)}
	for i := range r.Ports {
		s.Ports = append(s.Ports, bwOf(&r.Ports[i]))
	}
	return s
}

func flowOf(b *measure.Bandwidth) *flowDoc {
	if b == nil {
		return nil
	}
	return &flowDoc{b.Messages, *bwOf(b)}
}

func bwOf(b *measure.Bandwidth) *bwDoc {
	if b == nil {
		return nil
	}
	known := func(v *float64) *float64 { return lists.When(*v > 0, v) }
	return &bwDoc{known(&b.BitsPerSecond), known(&b.PeakBitsPerSecond), known(&b.MessagesPerSecond)}
}

// connDoc is one of several connections.
type connDoc struct {
	Name  string   `json:"rail"`
	Local *sideDoc `json:"local,omitempty"`
	Peer  *peerDoc `json:"peer,omitempty"`
	Error string   `json:"error,omitempty"`
}

// ends returns both ends of a connection, nil before it is established.
func ends(s *session.Setup) (local *sideDoc, peer *peerDoc) {
	l, pl := &s.Local, &s.Place
	if l.Device == "" {
		return nil, nil
	}
	return &sideDoc{Device: l.Device, Firmware: l.Firmware, Port: l.Port, LinkLayer: l.LinkLayer,
			Rate: l.RateGbps * 1e9, DataPath: l.DataPath, Native: l.Native, MTU: l.MTU, LID: l.LID, GID: l.GID,
			GIDIndex: lists.When(l.GIDIndex >= 0, &l.GIDIndex), Software: l.Software != "", NUMANodes: pl.Nodes,
			NUMANode: lists.When(pl.Node >= 0 && pl.Nodes > 0, &pl.Node), CPUs: hostfacts.FormatCPUs(pl.CPUs),
			Pinned: pl.Pinned},
		&peerDoc{Address: s.PeerAddress, Version: s.PeerVersion, Ours: s.PeerOurs, LID: s.PeerLID, GID: s.PeerGID}
}

// Outcome has all results of a run.
type Outcome struct {
	Plan      *plan.Plan
	Result    *engine.Result
	Program   string // and its version
	Command   []string
	Host      *Host
	Histogram bool   // with the distribution of latencies
	Only      string // the one figure that perftest's object has; "": all
	Failure   error  // what ended the run, or nil
	Warnings  []doctor.Finding
	Missed    []error // limits
}

// JSON writes the whole outcome as one object, with an error if there was one.
func (o *Outcome) JSON(w io.Writer) error {
	c, res := o.Plan, o.Result
	rate := c.Load.Rate
	d := document{
		Schema: Schema, Version: SchemaVersion,
		Started: res.Started.UTC().Format(time.RFC3339), Elapsed: res.Elapsed.Seconds(), Clock: res.Clock,
		Program: o.Program, Command: o.Command, Host: o.Host,
		Test: testDoc{
			Verb: c.Verb.String(), Metric: c.Metric.String(), Role: role(c.Connects()).String(),
			Connection: c.Transport.String(), RDMACM: c.Peer.RDMACM, CMExchange: c.Peer.CMExchange,
			Bidirectional: c.Load.Bidirectional, Reversed: c.Load.Reversed, AllSizes: c.Load.All,
			Rounds:     lists.When(c.Load.Rounds > 1, c.Load.Rounds),
			Iterations: lists.When(!c.Load.Infinite, c.Load.Iters),
			Duration:   c.Load.Duration.Seconds(), Margin: max(c.Load.Margin, 0).Seconds(),
			QPs: c.Queues.QPs, DualPort: c.Link.DualPort, Threads: lists.When(c.Queues.Threads > 1, c.Queues.Threads),
			TxDepth: c.Queues.TxDepth, RxDepth: c.Queues.RxDepth, PostList: c.Queues.PostList,
			CQMod: c.Queues.CQMod, Inline: max(res.Setup.Local.Inline, 0), Events: c.Queues.Events,
			Infinite: c.Load.Infinite, Hardware: rate.Hardware, MRPerQP: c.Queues.MRPerQP, WarmUp: c.Load.WarmUp,
			Gap: float64(c.Load.Gap), Memory: c.Memory.Kind.String(), OnDemand: c.Memory.OnDemand,
			NullMR: c.Memory.Null, Relaxed: c.Relaxed(), Atomic: lists.When(c.Verb == wire.Atomic, c.Atomic.String()),
			OutReads:   lists.When(c.Verb.Fetches(), res.Setup.OutReads),
			LatencyDef: lists.When(c.Metric == wire.Latency, c.Report.LatencyDef.String()),
		},
		Results: []any{}, Parts: partsOf(res.Parts), Verified: res.Verified,
		CPU: res.Used.CPUPercent(), Counters: res.Used.Counters, Notes: Notes(res), Warnings: o.Warnings,
		Missed: lists.Map(o.Missed, error.Error), Error: text(o.Failure),
	}
	if rate.Limit > 0 {
		d.Test.RateLimit, d.Test.RateUnit, d.Test.Burst = rate.Limit, rate.Unit.String(), rate.Burst
	}
	d.Local, d.Peer = ends(&res.Setup)
	for r := range lists.Each(res.Rails) {
		c := connDoc{Name: r.Name, Error: text(r.Err)}
		c.Local, c.Peer = ends(&r.Setup)
		d.Rails = append(d.Rails, c)
	}
	for s := range lists.Each(res.Sizes) {
		d.Results = append(d.Results, o.size(s))
	}
	if res.Partial != nil {
		d.Partial = o.size(res.Partial)
	}
	if wc := (*ibv.WCError)(nil); errors.As(o.Failure, &wc) && wc.Posted != nil {
		d.Posted = strings.Split(wc.Posted.String(), "\n")[1:]
	}
	return printable.WriteJSON(w, d, "  ")
}
