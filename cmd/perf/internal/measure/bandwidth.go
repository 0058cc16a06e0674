package measure

import (
	"fmt"
	"math"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Bandwidth is the traffic of one direction, or the sum of both. Zero is not known: a peer may have no idea of its
// clock.
type Bandwidth struct {
	BitsPerSecond     float64
	PeakBitsPerSecond float64 // 0: not measured
	MessagesPerSecond float64
}

// Size is the outcome for one message size.
type Size struct {
	Bytes    uint64
	Messages uint64 // of all queue pairs
	Lost     uint64 // of those that were sent to this end
	BW       *Bandwidth
	Sent     *Bandwidth // bidirectional: this end's part of BW
	Received *Bandwidth // bidirectional: the peer's part, as it reported
	ByPeer   bool       // BW is the peer's figure
	Lat      *Summary
	Parts    []Interval // if they were asked for
	Buckets  []Bucket
	Samples  []float64   // of Lat, in order, in nanoseconds, if they were asked for
	Threads  []Size      // what each thread did of it, if there are several
	Rails    []Rail      // and each rail
	Ports    []Bandwidth // what each port did of BW, or of Sent, if it was asked for

	SendSpacing, RecvSpacing *SpacingSummary // of the completions of this end, if they were asked for

	dist     *Latency // of Lat and Buckets
	from, to int64    // ticks in which what was sent here moved
}

// Moved returns what messages of a size come to, between two ticks. A tick has perTick seconds; peak is
// the smallest number of ticks a message took, or 0.
func Moved(size, messages uint64, from, to int64, perTick, peak float64) Size {
	var bw Bandwidth
	if secs := float64(to-from) * perTick; secs > 0 {
		bw.MessagesPerSecond = float64(messages) / secs
		bw.BitsPerSecond = bw.MessagesPerSecond * float64(size) * 8
	}
	s := Size{Bytes: size, Messages: messages, BW: &bw, from: from, to: to}
	s.SetPeak(peak, perTick)
	return s
}

// SetPeak sets the peak to a message in so many ticks, of perTick seconds.
func (s *Size) SetPeak(ticks, perTick float64) {
	if ticks > 0 {
		s.BW.PeakBitsPerSecond = float64(s.Bytes) * 8 / (ticks * perTick)
	}
}

// Units is perftest's unit of bandwidth, in bits per second.
func Units(gbits bool) float64 {
	if gbits {
		return 1e9
	}
	return 8 << 20
}

// Report puts a size into perftest's words.
func (s *Size) Report(gbits bool) wire.Report {
	unit := Units(gbits)
	rep := wire.Report{
		Size: s.Bytes, Iters: s.Messages,
		PeakBW: s.BW.PeakBitsPerSecond / unit, AvgBW: s.BW.BitsPerSecond / unit, MsgRate: s.BW.MessagesPerSecond / 1e6,
	}
	for i, p := range s.Ports {
		rep.PerPort = true
		rep.Ports[i] = wire.PortReport{AvgBW: p.BitsPerSecond / unit, MsgRate: p.MessagesPerSecond / 1e6}
	}
	return rep
}

// FromPeer reads the peer's report. Its unit is not sent, but follows from the message rate, whose unit is fixed;
// without one it is taken for this end's.
func FromPeer(p wire.Report, gbits bool) Bandwidth {
	p.MsgRate, p.AvgBW, p.PeakBW = known(p.MsgRate), known(p.AvgBW), known(p.PeakBW)
	bw := Bandwidth{MessagesPerSecond: p.MsgRate * 1e6, BitsPerSecond: p.MsgRate * 1e6 * float64(p.Size) * 8}
	unit := Units(gbits)
	if p.AvgBW > 0 && p.MsgRate > 0 {
		unit = bw.BitsPerSecond / p.AvgBW
	}
	bw.PeakBitsPerSecond = p.PeakBW * unit
	// Large numbers become infinite, which JSON does not have.
	return Bandwidth{known(bw.BitsPerSecond), known(bw.PeakBitsPerSecond), known(bw.MessagesPerSecond)}
}

// AddReceived adds the traffic that arrived to the traffic that was sent, until some ticks.
func (s *Size) AddReceived(messages uint64, last int64, perTick float64) {
	own := *s.BW
	s.Sent, s.Received = &own, Moved(s.Bytes, messages, s.from, last, perTick, 0).BW
	s.BW = &Bandwidth{}
	s.BW.add(s.Sent)
	s.BW.add(s.Received)
}

// PortsFromPeer takes the peer's figures of its ports, if it sent any.
func (s *Size) PortsFromPeer(rep wire.Report, gbits bool) {
	if !rep.PerPort {
		return
	}
	for _, p := range rep.Ports {
		s.Ports = append(s.Ports, FromPeer(wire.Report{Size: rep.Size, AvgBW: p.AvgBW, MsgRate: p.MsgRate}, gbits))
	}
}

// known returns v where it is a rate, or 0.
func known(v float64) float64 {
	if v > 0 && !math.IsInf(v, 0) {
		return v
	}
	return 0
}

// AddPeer adds the peer's part of a bidirectional run.
func (s *Size) AddPeer(rep wire.Report, gbits bool) error {
	if rep.Size != s.Bytes {
		return fmt.Errorf("the peer reports messages of %d bytes, this end sent %d: give both ends the same -s",
			rep.Size, s.Bytes)
	}
	own, peer := *s.BW, FromPeer(rep, gbits)
	s.Sent, s.Received = &own, &peer
	s.BW = &Bandwidth{}
	if peer.MessagesPerSecond > 0 {
		s.BW.BitsPerSecond = own.BitsPerSecond + peer.BitsPerSecond
		s.BW.MessagesPerSecond = own.MessagesPerSecond + peer.MessagesPerSecond
	}
	if own.PeakBitsPerSecond > 0 && peer.PeakBitsPerSecond > 0 {
		s.BW.PeakBitsPerSecond = own.PeakBitsPerSecond + peer.PeakBitsPerSecond
	}
	return nil
}
