package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// CSV writes a head and a line for each size, and for each thread and rail if there are several. A figure that is not
// known is empty.
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
	both := o.Plan.Load.Bidirectional && o.Plan.Metric == wire.Bandwidth
	head = append(head, lists.When(both, []string{"sent_bits_per_second", "received_bits_per_second"})...)
	summed := func(s measure.Size) bool { return s.Threads != nil || s.Rails != nil }
	parts := slices.ContainsFunc(o.Result.Sizes, summed)
	head = append(head, lists.When(parts, []string{"part"})...)
	failed := slices.ContainsFunc(o.Result.Sizes, func(s measure.Size) bool {
		return slices.ContainsFunc(s.Rails, func(r measure.Rail) bool { return r.Err != nil })
	})
	head = append(head, lists.When(failed, []string{"error"})...)
	c.Write(head)
	write := func(s *measure.Size, part string) {
		line := []string{strconv.FormatUint(s.Bytes, 10), strconv.FormatUint(s.Messages, 10)}
		if l := s.Lat; l != nil {
			for _, v := range []float64{l.Min, float64(l.P50), float64(l.P90), float64(l.P99), float64(l.P999),
				float64(l.P9999), l.Max, l.Mean, l.Stdev} {
				line = append(line, num(v))
			}
		} else {
			line = append(line, num(s.BW.BitsPerSecond), num(s.BW.PeakBitsPerSecond), num(s.BW.MessagesPerSecond))
		}
		if both {
			for _, b := range []*measure.Bandwidth{s.Sent, s.Received} {
				line = append(line, num(cmp.Or(b, &measure.Bandwidth{}).BitsPerSecond))
			}
		}
		line = append(line, lists.When(parts, []string{part})...)
		c.Write(append(line, lists.When(failed, []string{""})...))
	}
	threads := func(s *measure.Size, of string) {
		for i := range s.Threads {
			write(&s.Threads[i], fmt.Sprintf("%sthread %d", of, i+1))
		}
	}
	for s := range lists.Each(o.Result.Sizes) {
		write(s, "all")
		threads(s, "")
		for rail := range lists.Each(s.Rails) {
			if rail.Err != nil {
				line := make([]string, len(head))
				line[0], line[len(head)-2] = strconv.FormatUint(s.Bytes, 10), printable.Name(rail.Name)
				line[len(head)-1] = printable.Message(rail.Err.Error())
				c.Write(line)
				continue
			}
			write(&rail.Size, printable.Name(rail.Name))
			threads(&rail.Size, printable.Name(rail.Name)+" ")
		}
	}
	c.Flush()
	return c.Error()
}
