package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Perftest writes the object of perftest's --out_json, with the last size's figures. perftest before 6.13 writes no
// quotes and extra commas, which parsers of JSON refuse.
func (o *Outcome) Perftest(w io.Writer) error {
	doc := struct {
		Info    stockInfo `json:"test_info"`
		Results any       `json:"results"`
		Error   string    `json:"error,omitempty"` // perftest writes no file then
	}{stockInfoOf(o.Plan, &o.Result.Setup), struct{}{}, text(o.Failure)}
	if n := len(o.Result.Sizes); n > 0 {
		doc.Results = o.stockResults(&o.Result.Sizes[n-1])
	}
	return printable.WriteJSON(w, doc, "") // a key on each line, at its beginning
}

// stockInfo describes a test as perftest does, before it begins and in its object.
type stockInfo struct {
	Test      string `json:"test"`
	Events    string `json:"Test with events,omitempty"`
	Multicast string `json:"MultiCast_runs,omitempty"`
	DualPort  onOff  `json:"Dual_port"`
	Device    string `json:"Device"`
	QPs       int    `json:"Number_of_qps"`
	Transport string `json:"Transport_type"`
	Conn      string `json:"Connection_type"`
	SRQ       onOff  `json:"Using_SRQ"`
	Relaxed   onOff  `json:"PCIe_relax_order"`
	WR        onOff  `json:"ibv_wr_API"`
	TxDepth   int    `json:"TX_depth,omitempty"`
	PostList  int    `json:"Post_List,omitempty"`
	RecvList  int    `json:"Recv_Post_List,omitempty"`
	RxDepth   int    `json:"RX_depth,omitempty"`
	CQMod     int    `json:"CQ_Moderation,omitempty"`
	MTU       int    `json:"Mtu"`
	Link      string `json:"Link_type"`
	GIDIndex  *int   `json:"GID_index,omitempty"`
	Inline    *int   `json:"Max_inline_data,omitempty"`
	OutReads  int    `json:"Outstand_reads,omitempty"`
	CM        onOff  `json:"rdma_cm_QPs"`
	ROCm      onOff  `json:"Use_ROCm_memory"`
	Exchange  string `json:"Data_ex_method"`
	TOS       *uint8 `json:"TOS,omitempty"`
}

// onOff is a bool as perftest writes it.
type onOff bool

func (b onOff) String() string {
	if b {
		return "ON"
	}
	return "OFF"
}

func (b onOff) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

func stockInfoOf(p *plan.Plan, s *session.Setup) stockInfo {
	l, q, both := &s.Local, &p.Queues, p.Load.Bidirectional
	inline := max(l.Inline, 0)
	return stockInfo{Test: strings.Join(stockWords(p), "_"),
		Events:    lists.When(q.Events, fmt.Sprintf("Using_%s_comp%d", l.Device, q.Vector)),
		Multicast: lists.When(p.Multicast, "on_UD"), DualPort: onOff(p.Link.DualPort), Device: l.Device, QPs: p.Ends(),
		Transport: cmp.Or(lists.When(l.IWARP, "IW"), "IB"), Conn: p.Transport.String(),
		SRQ: onOff(q.UseSRQ || p.Transport.OneWay()), Relaxed: onOff(p.Relaxed()),
		TxDepth:  lists.When(p.Client() || both, q.TxDepth),
		PostList: lists.When(q.PostList > 1, q.PostList), RecvList: lists.When(q.RecvList > 1, q.RecvList),
		RxDepth: lists.When(p.Verb.Consumes() && (!p.Client() || both), q.RxDepth),
		CQMod:   lists.When(p.Bandwidth(), q.CQMod), MTU: l.MTU,
		Link:     cmp.Or(lists.When(l.LinkLayer == ibv.LinkInfiniBand.String(), "IB"), l.LinkLayer),
		GIDIndex: lists.When(l.GIDIndex >= 0, &l.GIDIndex), Inline: lists.When(!p.Verb.Fetches(), &inline),
		OutReads: lists.When(p.Verb.Fetches(), s.OutReads), CM: onOff(p.Peer.RDMACM),
		Exchange: cmp.Or(lists.When(p.ByCM(), "rdma_cm"), "Ethernet"),
		TOS:      lists.When(p.Peer.RDMACM && p.Link.TClass != 0, &p.Link.TClass)}
}

// stockWords is perftest's name of a test.
func stockWords(p *plan.Plan) []string {
	verb := map[wire.Verb]string{wire.Send: "Send" + lists.When(p.Queues.SendImm, "_imm"), wire.Write: "RDMA_Write",
		wire.WriteImm: "RDMA_Write_imm", wire.Read: "RDMA_Read", wire.Atomic: "Atomic"}[p.Verb]
	return words(cmp.Or(verb, "Send"), lists.When(p.Verb == wire.Atomic, p.Atomic.String()),
		lists.When(p.Load.Bidirectional, "Bidirectional"), lists.When(p.Queues.PostList > 1, "Post_List"),
		cmp.Or(lists.When(p.Bandwidth(), "BW"), "Latency"), lists.When(p.Multicast, "Multicast"), "Test")
}

// figure is a number of perftest's object, or null.
type figure string

// MarshalJSON returns it. json.Number cannot be null.
func (f figure) MarshalJSON() ([]byte, error) {
	if f == "" {
		return []byte("0"), nil
	}
	return []byte(f), nil
}

// stockResults has the figures of a size, as perftest rounds them. One that is not known is null.
func (o *Outcome) stockResults(s *measure.Size) any {
	num := func(v float64, digits int) figure {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "null"
		}
		return figure(strconv.FormatFloat(v, 'f', digits, 64))
	}
	us := func(ns float64) figure { return num(ns/1000, 2) }
	cpu := lists.When(o.Plan.Report.CPUUtil && !o.Plan.ByCount(), num(s.Used.CPUPercent(), 2))
	if l := s.Lat; l != nil {
		switch {
		case o.Only != "" && o.Plan.ByCount():
			return map[string]figure{"avg_lat": num(l.Mean/1000, 6)}
		case o.Only != "":
			return map[string]figure{"t_avg": num(l.Mean/1000, 6)}
		case !o.Plan.ByCount():
			return struct {
				Bytes    uint64 `json:"MsgSize"`
				Messages uint64 `json:"n_iterations"`
				Mean     figure `json:"t_avg"`
				Trips    figure `json:"tps_average"`
				CPU      figure `json:"CPU_util,omitempty"`
			}{s.Bytes, s.Messages, us(l.Mean), num(trips(o.Plan, l), 2), cpu}
		}
		return struct {
			Bytes    uint64 `json:"MsgSize"`
			Messages uint64 `json:"n_iterations"`
			Min      figure `json:"t_min"`
			Max      figure `json:"t_max"`
			Typical  figure `json:"t_typical"`
			Mean     figure `json:"t_avg"`
			Stdev    figure `json:"t_stdev"`
			P99      figure `json:"percentile_99"`
			P999     figure `json:"percentile_99.9"`
		}{s.Bytes, s.Messages, us(l.Min), us(l.Max), us(atMost(l.P50, l)), us(l.Mean), us(l.Stdev),
			us(atMost(l.P99, l)), us(atMost(l.P999, l))}
	}
	unit, digits := measure.Units(o.Plan.Report.Gbits), 2
	average, rate := orNaN(s.BW.BitsPerSecond)/unit, orNaN(s.BW.MessagesPerSecond)/1e6
	if o.Plan.Report.Gbits && average < 0.1 {
		digits = 6
	}
	switch o.Only {
	case OnlyBandwidth:
		return map[string]figure{"bw_avg": num(average, 6)}
	case OnlyRate:
		return map[string]figure{"msgRate_avg": num(rate, 6)}
	}
	return struct {
		Bytes    uint64 `json:"MsgSize"`
		Messages uint64 `json:"n_iterations"`
		Peak     figure `json:"BW_peak"`
		Average  figure `json:"BW_average"`
		Rate     figure `json:"MsgRate"`
		CPU      figure `json:"CPU_util,omitempty"`
	}{s.Bytes, s.Messages, num(s.BW.PeakBitsPerSecond/unit, digits), num(average, digits), num(rate, 6), cpu}
}
