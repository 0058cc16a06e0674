package report

import (
	"encoding/csv"
	"io"
	"strconv"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// CSV writes a head and a line for each size. A figure that is not known is empty.
func (o *Outcome) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	num := func(v float64) string {
		if v <= 0 {
			return ""
		}
		return strconv.FormatFloat(v, 'g', 9, 64)
	}
	head := []string{"bytes", "messages", "bandwidth_bits_per_second", "bandwidth_peak_bits_per_second",
		"messages_per_second"}
	if o.Plan.Metric == wire.Latency {
		head = []string{"bytes", "messages", "latency_min_ns", "latency_p50_ns", "latency_p90_ns", "latency_p99_ns",
			"latency_p99_9_ns", "latency_p99_99_ns", "latency_max_ns", "latency_mean_ns", "latency_stdev_ns"}
	}
	c.Write(head)
	for _, s := range o.Result.Sizes {
		line := []string{strconv.FormatUint(s.Bytes, 10), strconv.FormatUint(s.Messages, 10)}
		if l := s.Lat; l != nil {
			for _, v := range []float64{l.Min, l.P50, l.P90, l.P99, l.P999, l.P9999, l.Max, l.Mean, l.Stdev} {
				line = append(line, num(v))
			}
		} else {
			line = append(line, num(s.BW.BitsPerSecond), num(s.BW.PeakBitsPerSecond), num(s.BW.MessagesPerSecond))
		}
		c.Write(line)
	}
	c.Flush()
	return c.Error()
}
