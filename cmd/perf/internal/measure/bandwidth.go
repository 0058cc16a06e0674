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
	Messages          uint64
}

// Size is the outcome for one message size.
type Size struct {
	Bytes     uint64
	Start     float64    // seconds since the run began, at which what counts began
	Seconds   float64    // for how long
	Messages  uint64     // of all queue pairs: those that this end sent or, if it sends none, those that arrived
	Lost      uint64     // of those that were sent to this end
	LostThere uint64     // of those that this end sent, as the peer reported
	BW        *Bandwidth // bidirectional: of both directions, not known if that of one is not
	Sent      *Bandwidth // bidirectional: what this end sent
	Received  *Bandwidth // bidirectional: what arrived here or, without completions of it, what the peer sent
	ByPeer    bool       // BW is the peer's figure
	Used      Usage      // the cost of this size
	Lat       *Summary
	Parts     []Interval // if they were asked for
	Buckets   []Bucket
	Samples   []float64   // of Lat, in order, in nanoseconds, if they were asked for
	Threads   []Size      // what each thread did of it, if there are several
	Rails     []Rail      // and each rail
	Ports     []Bandwidth // what each port did of BW, or of Sent, if it was asked for

	SendSpacing, RecvSpacing *SpacingSummary // of the completions of this end, if they were asked for

	dist *Latency // of Lat and Buckets
	flow Flow     // of BW or, bidirectional, of Sent
	came *Flow    // of Received, if this end has measured it
}

// Moved returns the figures of one direction. A tick has perTick seconds; peak is the smallest number of ticks a
// message took, or 0.
func Moved(size uint64, f Flow, perTick, peak float64) Size {
	s := Size{Bytes: size, Messages: f.Messages, BW: f.bandwidth(size, perTick), flow: f,
		Seconds: float64(max(f.To-f.From, 0)) * perTick}
	s.SetPeak(peak, perTick)
	return s
}

// OneOfTwo makes what was sent one direction of two. The other is not known yet, nor is their sum.
func (s *Size) OneOfTwo() {
	s.Sent, s.Received, s.BW = s.BW, nil, &Bandwidth{}
}

// AddArrived adds what arrived here to what was sent.
func (s *Size) AddArrived(f Flow, perTick float64) {
	s.OneOfTwo()
	s.came = &f
	s.Received = f.bandwidth(s.Bytes, perTick)
	s.addUp()
}

// addUp makes the sum of both directions, if both are known.
func (s *Size) addUp() {
	s.BW = &Bandwidth{}
	if s.Received == nil {
		return
	}
	if s.Sent.MessagesPerSecond > 0 && s.Received.MessagesPerSecond > 0 {
		s.BW.add(s.Sent)
		s.BW.add(s.Received)
	}
	if s.Sent.PeakBitsPerSecond > 0 && s.Received.PeakBitsPerSecond > 0 {
		s.BW.PeakBitsPerSecond = s.Sent.PeakBitsPerSecond + s.Received.PeakBitsPerSecond
	}
}

// SetPeak sets the peak of what was sent to a message in so many ticks, of perTick seconds.
func (s *Size) SetPeak(ticks, perTick float64) {
	if ticks > 0 {
		s.own().PeakBitsPerSecond = float64(s.Bytes) * 8 / (ticks * perTick)
	}
}

// own returns the figures of what this end sent or, if it sends nothing, of what arrived.
func (s *Size) own() *Bandwidth {
	if s.Sent != nil {
		return s.Sent
	}
	return s.BW
}

// Units is perftest's unit of bandwidth, in bits per second.
func Units(gbits bool) float64 {
	if gbits {
		return 1e9
	}
	return 8 << 20
}

// Report puts what this end sent into perftest's words.
func (s *Size) Report(gbits bool) wire.Report {
	unit, own := Units(gbits), s.own()
	rep := wire.Report{
		Size: s.Bytes, Iters: s.Messages,
		PeakBW: own.PeakBitsPerSecond / unit, AvgBW: own.BitsPerSecond / unit, MsgRate: own.MessagesPerSecond / 1e6,
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
	bw := Bandwidth{Messages: p.Iters, MessagesPerSecond: p.MsgRate * 1e6,
		BitsPerSecond: p.MsgRate * 1e6 * float64(p.Size) * 8}
	unit := Units(gbits)
	if p.AvgBW > 0 && p.MsgRate > 0 {
		unit = bw.BitsPerSecond / p.AvgBW
	}
	bw.PeakBitsPerSecond = p.PeakBW * unit
	// Large numbers become infinite, which JSON does not have.
	return Bandwidth{known(bw.BitsPerSecond), known(bw.PeakBitsPerSecond), known(bw.MessagesPerSecond), bw.Messages}
}

// ByPeer returns the figures of an end that only waits. How long the peer measured follows from its message rate.
func ByPeer(rep wire.Report, gbits bool) Size {
	bw := FromPeer(rep, gbits)
	s := Size{Bytes: rep.Size, Messages: rep.Iters, BW: &bw, ByPeer: true}
	if bw.MessagesPerSecond > 0 {
		s.Seconds = known(float64(rep.Iters) / bw.MessagesPerSecond)
	}
	if !rep.PerPort {
		return s
	}
	for _, p := range rep.Ports {
		s.Ports = append(s.Ports, FromPeer(wire.Report{Size: rep.Size, AvgBW: p.AvgBW, MsgRate: p.MsgRate}, gbits))
	}
	return s
}

// known returns v where it is a rate, or 0.
func known(v float64) float64 {
	if v > 0 && !math.IsInf(v, 0) {
		return v
	}
	return 0
}

// AddPeer takes the peer's report of a bidirectional run. What this end has measured itself stays, unless all that the
// peer sent has arrived: then the peer knows better how fast, because this end counts from its first look.
func (s *Size) AddPeer(rep wire.Report, gbits bool) error {
	if rep.Size != s.Bytes {
		return fmt.Errorf("the peer reports messages of %d bytes, this end sent %d: give both ends the same -s",
			rep.Size, s.Bytes)
	}
	peer := FromPeer(rep, gbits)
	if s.came != nil && s.came.Messages == rep.Iters {
		s.came = nil
	}
	if s.came != nil { // its peak is that of the other end's completions
		s.Received.PeakBitsPerSecond = peer.PeakBitsPerSecond
	} else {
		s.Received = &peer
	}
	s.addUp()
	return nil
}
