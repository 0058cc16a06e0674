package measure

// Rail is one of several connections, between devices or servers of their own.
type Rail struct {
	Name string
	Err  error // why it failed, or nil
	Size
}

// Waited returns the outcome of a test of latency.
func Waited(size, messages uint64, dist *Latency) Size {
	sum := dist.Summary()
	return Size{Bytes: size, Messages: messages, Lat: &sum, Buckets: dist.Buckets(), dist: dist}
}

// Sum returns what several loops did of one size, side by side: their messages in the time from the first one's
// beginning to the last one's end, or all their samples. A tick has perTick seconds. There is no peak: it is none of
// the sum.
func Sum(parts []Size, perTick float64) Size {
	if parts[0].Lat != nil {
		all := NewLatency()
		messages := uint64(0)
		for _, p := range parts {
			all.Merge(p.dist)
			messages += p.Messages
		}
		return Waited(parts[0].Bytes, messages, all)
	}
	if parts[0].ByPeer {
		return reported(parts)
	}
	flow, lost := parts[0].flow, parts[0].Lost
	for _, p := range parts[1:] {
		flow, lost = flow.plus(p.flow), lost+p.Lost
	}
	s := Moved(parts[0].Bytes, flow, perTick, 0)
	s.Start, s.Lost = parts[0].Start, lost
	for _, p := range parts {
		s.LostThere += p.LostThere
	}
	if parts[0].Sent == nil {
		return s
	}
	s.OneOfTwo()
	s.receive(parts, perTick)
	s.addUp()
	return s
}

// receive sums up what was received, if it is known of all parts.
func (s *Size) receive(parts []Size, perTick float64) {
	for _, p := range parts {
		switch {
		case p.Received == nil || p.Received.MessagesPerSecond == 0:
			s.Received, s.came = nil, nil
			return
		case p.came == nil && s.Received == nil:
			s.Received = &Bandwidth{}
			fallthrough
		case p.came == nil:
			s.Received.add(p.Received)
		case s.came == nil:
			f := *p.came
			s.came = &f
		default:
			*s.came = s.came.plus(*p.came)
		}
	}
	if s.came != nil {
		s.Received = s.came.bandwidth(s.Bytes, perTick)
	}
}

// reported sums up the figures of the peers.
func reported(parts []Size) Size {
	s := Size{Bytes: parts[0].Bytes, BW: &Bandwidth{}, ByPeer: true}
	for _, p := range parts {
		s.Messages += p.Messages
		s.Seconds = max(s.Seconds, p.Seconds)
		s.BW.add(p.BW)
	}
	return s
}

func (b *Bandwidth) add(o *Bandwidth) {
	b.BitsPerSecond += o.BitsPerSecond
	b.MessagesPerSecond += o.MessagesPerSecond
	b.Messages += o.Messages
}

// Unknown returns a size without known figures.
func (s *Size) Unknown() Size {
	if s.Lat != nil {
		return Waited(s.Bytes, 0, NewLatency())
	}
	return Size{Bytes: s.Bytes, BW: &Bandwidth{}}
}
