package report

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Perftest writes the object of perftest's --out_json, with the last size's figures. perftest before 6.13 writes no
// quotes and extra commas, which parsers of JSON refuse.
func (o *Outcome) Perftest(w io.Writer) error {
	doc := struct {
		Info    stockInfo `json:"test_info"`
		Results any       `json:"results"`
		Error   string    `json:"error,omitempty"` // perftest writes no file then
	}{Info: o.stockInfo(), Results: struct{}{}}
	if n := len(o.Result.Sizes); n > 0 {
		doc.Results = o.stockResults(&o.Result.Sizes[n-1])
	}
	if o.Failure != nil {
		doc.Error = o.Failure.Error()
	}
	b, err := json.MarshalIndent(doc, "", "  ")
	if err == nil {
		_, err = w.Write(append(printable.JSON(b), '\n'))
	}
	return err
}

type stockInfo struct {
	Test      string `json:"test"`
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
	RxDepth   int    `json:"RX_depth,omitempty"`
	CQMod     int    `json:"CQ_Moderation,omitempty"`
	MTU       int    `json:"Mtu"`
	Link      string `json:"Link_type"`
	GIDIndex  *int   `json:"GID_index,omitempty"`
	Inline    int    `json:"Max_inline_data"`
	OutReads  int    `json:"Outstand_reads,omitempty"`
	CM        onOff  `json:"rdma_cm_QPs"`
	Exchange  string `json:"Data_ex_method"`
}

// onOff is a bool as perftest writes it.
type onOff bool

func (b onOff) MarshalText() ([]byte, error) {
	if b {
		return []byte("ON"), nil
	}
	return []byte("OFF"), nil
}

func (o *Outcome) stockInfo() stockInfo {
	p, s := o.Plan, &o.Result.Setup
	i := stockInfo{Test: stockTest(o), DualPort: onOff(p.DualPort), Device: s.Local.Device, QPs: p.QPs, Transport: "IB",
		Conn: p.Transport.String(), SRQ: onOff(p.UseSRQ), Relaxed: onOff(p.Relaxed()), MTU: s.Local.MTU,
		Link: s.Local.LinkLayer, Inline: max(s.Local.Inline, 0), CM: onOff(p.RDMACM), Exchange: "Ethernet"}
	if p.Sends() {
		i.TxDepth = p.TxDepth
	}
	if p.Receives() {
		i.RxDepth = p.RxDepth
	}
	if p.PostList > 1 {
		i.PostList = p.PostList
	}
	if p.Bandwidth() {
		i.CQMod = p.CQMod
	}
	if s.Local.GIDIndex >= 0 {
		i.GIDIndex = &s.Local.GIDIndex
	}
	if p.Verb.Fetches() {
		i.OutReads = s.OutReads
	}
	if p.ByCM() {
		i.Exchange = "rdma_cm"
	}
	return i
}

func stockTest(o *Outcome) string {
	p := o.Plan
	words := []string{"Send"}
	switch p.Verb {
	case wire.Write, wire.WriteImm:
		words = []string{"RDMA_Write"}
	case wire.Read:
		words = []string{"RDMA_Read"}
	case wire.Atomic:
		words = []string{"Atomic"}
	}
	if p.Bidirectional {
		words = append(words, "Bidirectional")
	}
	if p.PostList > 1 {
		words = append(words, "Post_List")
	}
	if p.Bandwidth() {
		return strings.Join(append(words, "BW_Test"), "_")
	}
	return strings.Join(append(words, "Latency_Test"), "_")
}

func (o *Outcome) stockResults(s *measure.Size) any {
	num := func(v float64, digits int) json.Number {
		return json.Number(strconv.FormatFloat(max(v, 0), 'f', digits, 64))
	}
	us := func(ns float64) json.Number { return num(ns/1000, 2) }
	known := func(p measure.Percentile) any { // null: too few samples; perftest writes the largest one
		if !p.Known() {
			return nil
		}
		return us(float64(p))
	}
	var cpu json.Number
	if o.Plan.CPUUtil {
		cpu = num(o.Result.Used.CPUPercent(), 2)
	}
	if l := s.Lat; l != nil {
		return struct {
			Bytes    uint64      `json:"MsgSize"`
			Messages uint64      `json:"n_iterations"`
			Min      json.Number `json:"t_min"`
			Max      json.Number `json:"t_max"`
			Typical  any         `json:"t_typical"`
			Mean     json.Number `json:"t_avg"`
			Stdev    json.Number `json:"t_stdev"`
			P99      any         `json:"percentile_99"`
			P999     any         `json:"percentile_99.9"`
			CPU      json.Number `json:"CPU_util,omitempty"`
		}{s.Bytes, s.Messages, us(l.Min), us(l.Max), known(l.P50), us(l.Mean), us(l.Stdev), known(l.P99),
			known(l.P999), cpu}
	}
	unit, digits := measure.Units(o.Plan.Gbits), 2
	if o.Plan.Gbits {
		digits = 6
	}
	return struct {
		Bytes    uint64      `json:"MsgSize"`
		Messages uint64      `json:"n_iterations"`
		Peak     json.Number `json:"BW_peak"`
		Average  json.Number `json:"BW_average"`
		Rate     json.Number `json:"MsgRate"`
		CPU      json.Number `json:"CPU_util,omitempty"`
	}{s.Bytes, s.Messages, num(s.BW.PeakBitsPerSecond/unit, digits), num(s.BW.BitsPerSecond/unit, digits),
		num(s.BW.MessagesPerSecond/1e6, 6), cpu}
}
