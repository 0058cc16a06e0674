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
}

// Error returns one line.
func (e *LimitMissed) Error() string {
	return fmt.Sprintf("%d bytes: %s is %.6g %s, the limit is %.6g", e.Bytes, e.Figure, e.Got, e.Unit, e.Limit)
}

// Missed lists the limits that a size does not keep to. A figure that is not known misses all limits.
func (l *Limits) Missed(s *Size) []error {
	var errs []error
	miss := func(bad bool, figure string, got, limit, unit float64, name string) {
		if limit > 0 && bad {
			errs = append(errs, &LimitMissed{s.Bytes, figure, got / unit, limit / unit, name})
		}
	}
	if s.BW != nil {
		miss(s.BW.BitsPerSecond < l.MinBits, "bandwidth", s.BW.BitsPerSecond, l.MinBits, 1e9, "Gb/s")
		miss(s.BW.MessagesPerSecond < l.MinRate, "message rate", s.BW.MessagesPerSecond, l.MinRate, 1e6,
			"million per second")
	}
	if s.Lat != nil {
		none := s.Lat.Count == 0
		miss(none || s.Lat.P50 > l.MaxP50Ns, "median latency", s.Lat.P50, l.MaxP50Ns, 1e3, "us")
		miss(none || s.Lat.P99 > l.MaxP99Ns, "p99 latency", s.Lat.P99, l.MaxP99Ns, 1e3, "us")
	}
	return errs
}
