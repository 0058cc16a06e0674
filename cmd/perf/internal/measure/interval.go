package measure

import "slices"

// Interval is the traffic of a part of a run. The figures are those of Size.
type Interval struct {
	Start             float64 // seconds since the run began
	Seconds           float64 // its length
	Messages          uint64
	BitsPerSecond     float64    // 0: not known
	MessagesPerSecond float64    // 0: not known
	Sent, Received    *Bandwidth // bidirectional: nil is not known
	Margin            bool       // it is before or after the sample
	Rail              string     // which of several did it; empty: all there is
}

// Look has the messages that had moved at a moment.
type Look struct {
	At    int64 // ticks
	Count Count
}

// Parts makes the intervals of a run. The first look is its beginning.
type Parts struct {
	Size    uint64
	PerTick float64  // seconds
	Both    bool     // there are two directions
	Counted bool     // of both, this end counts what arrives
	Near    int64    // ticks by which a look may be off the beginning or end of the sample, and counts as it
	Margin  [2]int64 // ticks: when the sample is expected to begin and end, since the run began; 0: there is no margin
	looks   []Look
}

// Begun reports whether there was a look.
func (p *Parts) Begun() bool { return len(p.looks) > 0 }

// Add adds a look, and returns the interval since the one before.
func (p *Parts) Add(l Look) (i Interval) {
	if p.Begun() {
		last := p.looks[len(p.looks)-1]
		i = p.interval(last, l)
		middle := last.At + (l.At-last.At)/2 - p.looks[0].At
		i.Margin = p.Margin[1] != 0 && (middle < p.Margin[0] || middle >= p.Margin[1])
	}
	p.looks = append(p.looks, l)
	return i
}

// interval returns what moved between two looks.
func (p *Parts) interval(a, b Look) Interval {
	n := b.Count.Minus(a.Count)
	s := Moved(p.Size, FlowOf(max(n.Sent, n.Got), a.At, b.At), p.PerTick, 0)
	if p.Both {
		s = Moved(p.Size, FlowOf(n.Sent, a.At, b.At), p.PerTick, 0)
		s.OneOfTwo()
		if p.Counted {
			s.Received = FlowOf(n.Got, a.At, b.At).bandwidth(p.Size, p.PerTick)
			s.BW.add(s.Sent)
			s.BW.add(s.Received)
		}
	}
	return Interval{Start: float64(a.At-p.looks[0].At) * p.PerTick, Seconds: float64(b.At-a.At) * p.PerTick,
		Messages: s.Messages, BitsPerSecond: s.BW.BitsPerSecond, MessagesPerSecond: s.BW.MessagesPerSecond,
		Sent: s.Sent, Received: s.Received}
}

// Between returns the intervals. Those between from and to add up to exactly what moved there, and the others are
// margins.
func (p *Parts) Between(from, to Look) []Interval {
	if !p.Begun() {
		return nil
	}
	looks := p.mark(p.mark(slices.Clone(p.looks), from), to)
	list := []Interval{}
	for i := 1; i < len(looks) && (looks[i].At <= to.At || p.Margin[1] != 0); i++ {
		a, b := looks[i-1], looks[i]
		// A look near the ends of the sample may have read a count of a moment before or after.
		a.Count, b.Count = a.limit(from, to), b.limit(from, to)
		part := p.interval(a, b)
		part.Margin = a.At < from.At || b.At > to.At
		list = append(list, part)
	}
	return list
}

// mark makes an end of the sample one of the looks.
func (p *Parts) mark(looks []Look, end Look) []Look {
	i := slices.IndexFunc(looks, func(l Look) bool { return l.At >= end.At-p.Near })
	switch {
	case i < 0:
		return append(looks, end)
	case looks[i].At <= end.At+p.Near && i > 0 || looks[i].At == end.At:
		looks[i] = end
		return looks
	case i == 0:
		i = 1
	}
	return slices.Insert(looks, i, end)
}

// limit returns the count of a look, on its side of the ends of the sample.
func (l Look) limit(from, to Look) Count {
	least, most := Count{}, Count{^uint64(0), ^uint64(0)}
	switch {
	case l.At < from.At:
		most = from.Count
	case l.At <= to.At:
		least, most = from.Count, to.Count
	default:
		least = to.Count
	}
	return Count{min(max(l.Count.Sent, least.Sent), most.Sent), min(max(l.Count.Got, least.Got), most.Got)}
}
