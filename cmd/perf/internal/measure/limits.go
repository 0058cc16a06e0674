package measure

import "fmt"

// Limits are the limits for the figures of a run; 0 is none.
type Limits struct {
	MinBits  float64 // bits per second, on average
	MinRate  float64 // messages per second
	MaxP50Ns float64
	MaxP99Ns float64
}

// A LimitMissed is a figure that does not keep to its limit.
type LimitMissed struct {
	Bytes  uint64 // the size of the messages
	Figure string
	Got    float64
	Limit  float64
	Unit   string
	Needs  uint64 // samples, of a figure that is not known
	Has    uint64
}

// Error returns one line.
func (e *LimitMissed) Error() string {
	if e.Needs > 0 {
		return fmt.Sprintf("%d bytes: %s needs %d samples and has %d, the limit is %.6g %s", e.Bytes, e.Figure, e.Needs,
			e.Has, e.Limit, e.Unit)
	}
	return fmt.Sprintf("%d bytes: %s is %.6g %s, the limit is %.6g", e.Bytes, e.Figure, e.Got, e.Unit, e.Limit)
}

// Missed lists the limits that a size does not keep to. A figure that is not known misses all limits.
func (l *Limits) Missed(s *Size) []error {
	var errs []error
	miss := func(bad bool, figure string, got, limit, unit float64, name string) {
		if limit > 0 && bad {
			errs = append(errs, &LimitMissed{Bytes: s.Bytes, Figure: figure, Got: got / unit, Limit: limit / unit,
				Unit: name})
		}
	}
	late := func(p Percentile, needs uint64, limit float64, figure string) {
		if limit > 0 && !p.Known() {
			errs = append(errs, &LimitMissed{Bytes: s.Bytes, Figure: figure, Limit: limit / 1e3, Unit: "us",
				Needs: needs, Has: s.Lat.Count})
			return
		}
		miss(float64(p) > limit, figure, float64(p), limit, 1e3, "us")
	}
	if s.BW != nil {
		miss(s.BW.BitsPerSecond < l.MinBits, "bandwidth", s.BW.BitsPerSecond, l.MinBits, 1e9, "Gb/s")
		miss(s.BW.MessagesPerSecond < l.MinRate, "message rate", s.BW.MessagesPerSecond, l.MinRate, 1e6,
			"million per second")
	}
	if s.Lat != nil {
		late(s.Lat.P50, 2, l.MaxP50Ns, "median latency")
		late(s.Lat.P99, 100, l.MaxP99Ns, "p99 latency")
	}
	return errs
}
