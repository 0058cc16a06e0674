package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSum(t *testing.T) {
	parts := []Size{Moved(100, FlowOf(1000, 5, 105), 1e-3, 0), Moved(100, FlowOf(500, 55, 205), 1e-3, 0)}
	parts[1].Lost = 7
	s := Sum(parts, 1e-3)
	if s.Messages != 1500 || s.Lost != 7 || math.Abs(s.BW.MessagesPerSecond-1500/0.2) > 1e-6 ||
		math.Abs(s.BW.BitsPerSecond-1500/0.2*800) > 1e-3 {
		t.Errorf("sum of 1500 messages in 0.2 s is %+v, %+v", s, s.BW)
	}
	for i := range parts {
		own := *parts[i].BW
		parts[i].Sent, parts[i].Received = &own, &Bandwidth{MessagesPerSecond: 10, BitsPerSecond: 8000}
	}
	if s = Sum(parts, 1e-3); s.Received.BitsPerSecond != 16000 || s.Sent.MessagesPerSecond != 1500/0.2 ||
		s.BW.MessagesPerSecond != 1500/0.2+20 {
		t.Errorf("both directions are %+v, %+v, %+v", s.Sent, s.Received, s.BW)
	}
	parts[1].Received = &Bandwidth{}
	if s = Sum(parts, 1e-3); s.BW.BitsPerSecond != 0 {
		t.Errorf("a peer tells nothing, and the sum of both directions is %v", s.BW.BitsPerSecond)
	}
	told := []Size{{Bytes: 8, Messages: 5, ByPeer: true, BW: &Bandwidth{1, 2, 3, 4}},
		{Bytes: 8, Messages: 6, ByPeer: true, BW: &Bandwidth{1, 2, 3, 4}}}
	if s = Sum(told, 1); !s.ByPeer || s.Messages != 11 || *s.BW != (Bandwidth{2, 0, 6, 8}) {
		t.Errorf("sum of reports is %+v, %+v", s, s.BW)
	}
}

// Distributions that are merged have the figures of all their samples.
func TestMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	whole := NewLatency()
	var parts []Size
	for i, n := range []int{0, 1000, 1, 5000} {
		l := NewLatency()
		for range n {
			v := float64(1000*(i+1)) + 500*rng.Float64()
			l.Record(v)
			whole.Record(v)
		}
		parts = append(parts, Waited(8, uint64(n), l))
	}
	got, want := Sum(parts, 1), whole.Summary()
	if d := math.Abs(got.Lat.Stdev-want.Stdev) + math.Abs(got.Lat.Mean-want.Mean); d > 1e-6 {
		t.Errorf("mean and deviation are %v and %v, want %v and %v", got.Lat.Mean, got.Lat.Stdev, want.Mean, want.Stdev)
	}
	got.Lat.Mean, got.Lat.Stdev = want.Mean, want.Stdev
	if *got.Lat != want || got.Messages != 6001 {
		t.Errorf("merged: %+v of %d messages, want %+v", *got.Lat, got.Messages, want)
	}
}

// The peak of several streams is that of one which posted and completed the same.
func TestMergeStamps(t *testing.T) {
	one, a, b := NewStamps(100, 100, 1), NewStamps(50, 50, 1), NewStamps(50, 50, 1)
	for i := range int64(100) {
		at := i*10 - i*i/20
		s := a
		if i%2 == 1 {
			s = b
		}
		one.Post(at)
		s.Post(at)
		one.Done(i+1, at+7)
		s.Done(i/2+1, at+7)
	}
	if got, want := MergeStamps([]*Stamps{a, b}).PeakTicks(), one.PeakTicks(); got != want || want == 0 {
		t.Errorf("peak %v, want %v", got, want)
	}
}
