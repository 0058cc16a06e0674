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
	from, to := parts[0].from, parts[0].to
	messages, lost := uint64(0), uint64(0)
	for _, p := range parts {
		messages += p.Messages
		lost += p.Lost
		from, to = min(from, p.from), max(to, p.to)
	}
	s := Moved(parts[0].Bytes, messages, from, to, perTick, 0)
	s.Lost = lost
	if parts[0].Received == nil {
		return s
	}
	own, peer, known := *s.BW, Bandwidth{}, true
	for _, p := range parts {
		peer.add(p.Received)
		known = known && p.Received.MessagesPerSecond > 0
	}
	s.Sent, s.Received, s.BW = &own, &peer, &Bandwidth{}
	if known {
		s.BW.add(&own)
		s.BW.add(&peer)
	}
	return s
}

// reported sums up the figures of the peers.
func reported(parts []Size) Size {
	s := Size{Bytes: parts[0].Bytes, BW: &Bandwidth{}, ByPeer: true}
	for _, p := range parts {
		s.Messages += p.Messages
		s.BW.add(p.BW)
	}
	return s
}

func (b *Bandwidth) add(o *Bandwidth) {
	b.BitsPerSecond += o.BitsPerSecond
	b.MessagesPerSecond += o.MessagesPerSecond
}

// Unknown returns a size without known figures.
func (s *Size) Unknown() Size {
	if s.Lat != nil {
		return Waited(s.Bytes, 0, NewLatency())
	}
	return Size{Bytes: s.Bytes, BW: &Bandwidth{}}
}
