package measure

import "fmt"

// Limits are the limits for the figures of a run; 0 is none.
type Limits struct {
	MinBits  float64 // bits per second, on average, of one size at least
	MinRate  float64 // messages per second, of one size at least
	MiB      bool    // MinBits was given in MiB/s, not in Gb/s
	EachBits float64 // as MinBits, of each size
	EachOf   uint64  // only of this size; 0: of all
	MaxP50Ns float64 // of each size
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
	Sizes  int // of these, Bytes is the one that comes nearest
}

// Error returns one line.
func (e *LimitMissed) Error() string {
	if e.Needs > 0 {
		return fmt.Sprintf("%d bytes: %s needs %d samples and has %d, the limit is %.6g %s", e.Bytes, e.Figure, e.Needs,
			e.Has, e.Limit, e.Unit)
	}
	best := ""
	if e.Sizes > 1 {
		best = fmt.Sprintf("best of %d sizes, ", e.Sizes)
	}
	return fmt.Sprintf("%s%d bytes: %s is %.6g %s, the limit is %.6g", best, e.Bytes, e.Figure, e.Got, e.Unit, e.Limit)
}

// MissedBy lists the limits that a run does not keep to. As in perftest, MinBits and MinRate are kept if one size does.
func (l *Limits) MissedBy(sizes []Size) (errs []error) {
	each := *l
	each.MinBits, each.MinRate = 0, 0
	for i := range sizes {
		errs = append(errs, each.Missed(&sizes[i])...)
	}
	errs = append(errs, nearest(Limits{MinBits: l.MinBits, MiB: l.MiB}, sizes)...)
	return append(errs, nearest(Limits{MinRate: l.MinRate}, sizes)...)
}

// nearest returns the miss of the size that comes nearest to a limit, none if a size keeps to it.
func nearest(l Limits, sizes []Size) (best []error) {
	most := -1.0
	for i := range sizes {
		missed := l.Missed(&sizes[i])
		if len(missed) == 0 {
			return nil
		}
		if m := missed[0].(*LimitMissed); m.Got > most {
			m.Sizes, most, best = len(sizes), m.Got, missed
		}
	}
	return best
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
		unit, name := 1e9, "Gb/s"
		if l.MiB {
			unit, name = Units(false), "MiB/s"
		}
		miss(s.BW.BitsPerSecond < l.MinBits, "bandwidth", s.BW.BitsPerSecond, l.MinBits, unit, name)
		if l.EachOf == 0 || l.EachOf == s.Bytes {
			miss(s.BW.BitsPerSecond < l.EachBits, "bandwidth", s.BW.BitsPerSecond, l.EachBits, 1e9, "Gb/s")
		}
		miss(s.BW.MessagesPerSecond < l.MinRate, "message rate", s.BW.MessagesPerSecond, l.MinRate, 1e6,
			"million per second")
	}
	if s.Lat != nil {
		late(s.Lat.P50, 2, l.MaxP50Ns, "median latency")
		late(s.Lat.P99, 100, l.MaxP99Ns, "p99 latency")
	}
	return errs
}
