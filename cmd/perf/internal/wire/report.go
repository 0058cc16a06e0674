package wire

import (
	"encoding/binary"
	"math"
	"time"
)

// Report is what ends of a bandwidth test tell each other about a run. The
// unit of PeakBW and AvgBW is that of the end that sends them (MiB/s, or Gb/s),
// and is not told; MsgRate is in millions per second.
type Report struct {
	Size    uint64
	Iters   uint64
	PeakBW  float64
	AvgBW   float64
	MsgRate float64
}

// Reports exchanges the reports.
func (w *Conn) Reports(own Report, limit time.Duration) (Report, error) {
	var peer Report
	f := math.Float64bits
	for _, x := range []struct {
		name string
		own  uint64
		set  func(uint64)
	}{
		{"size", own.Size, func(v uint64) { peer.Size = v }},
		{"messages", own.Iters, func(v uint64) { peer.Iters = v }},
		{"peak", f(own.PeakBW), func(v uint64) { peer.PeakBW = math.Float64frombits(v) }},
		{"average", f(own.AvgBW), func(v uint64) { peer.AvgBW = math.Float64frombits(v) }},
		{"rate", f(own.MsgRate), func(v uint64) { peer.MsgRate = math.Float64frombits(v) }},
	} {
		out, in := make([]byte, 8), make([]byte, 8)
		binary.BigEndian.PutUint64(out, x.own)
		if err := w.exchange("report of "+x.name, out, in, limit); err != nil {
			return peer, err
		}
		x.set(binary.BigEndian.Uint64(in))
	}
	return peer, nil
}
