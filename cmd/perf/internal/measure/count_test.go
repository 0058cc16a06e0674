package measure

import (
	"math"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tsc"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// What an end sent and what arrived there are counted once each, whatever the peer reports.
func TestBothDirections(t *testing.T) {
	sent, came := FlowOf(1000, 0, 1000), FlowOf(500, 0, 1000)
	s := Moved(8, sent, 1e-3, 0)
	s.AddArrived(came, 1e-3)
	check := func(when string) {
		t.Helper()
		if s.Sent.MessagesPerSecond != 1000 || s.Received.MessagesPerSecond != 500 || s.BW.MessagesPerSecond != 1500 ||
			s.BW.BitsPerSecond != 1500*64 || s.Messages != 1000 || s.Received.Messages != 500 {
			t.Errorf("%s: sent %+v, received %+v, both %+v", when, s.Sent, s.Received, s.BW)
		}
	}
	check("by itself")
	rep := s.Report(false)
	if rep.Iters != 1000 || rep.MsgRate != 1000/1e6 {
		t.Errorf("the report is %+v, want what was sent", rep)
	}
	// An older rdmaperf reports both directions together.
	older := wire.Report{Size: 8, Iters: 1500, MsgRate: 1500 / 1e6, AvgBW: 1, PeakBW: 2}
	if err := s.AddPeer(older, false); err != nil {
		t.Fatal(err)
	}
	check("with the peer's report")

	// If as many arrived here as the peer has sent, its figure counts.
	whole := s
	if err := whole.AddPeer(wire.Report{Size: 8, Iters: 500, MsgRate: 400 / 1e6, AvgBW: 1}, false); err != nil ||
		whole.Received.MessagesPerSecond != 400 || whole.BW.MessagesPerSecond != 1400 {
		t.Errorf("all has arrived: received %+v, both %+v, %v", whole.Received, whole.BW, err)
	}

	// Where this end has no completions of what arrives, that is what the peer says; without it there is no sum.
	s = Moved(8, sent, 1e-3, 0)
	s.OneOfTwo()
	if s.BW.MessagesPerSecond != 0 || s.Sent.MessagesPerSecond != 1000 || s.Received != nil {
		t.Errorf("one direction alone: %+v, %+v", s.Sent, s.BW)
	}
	if err := s.AddPeer(wire.Report{Size: 8, Iters: 500, MsgRate: 500 / 1e6, AvgBW: 1}, false); err != nil {
		t.Fatal(err)
	}
	check("one-sided")

	// Threads: both directions of each, and their sum.
	a, b := Moved(8, FlowOf(400, 0, 800), 1e-3, 0), Moved(8, FlowOf(600, 200, 1000), 1e-3, 0)
	a.AddArrived(FlowOf(200, 0, 900), 1e-3)
	b.AddArrived(FlowOf(300, 100, 1000), 1e-3)
	s = Sum([]Size{a, b}, 1e-3)
	check("threads")
	a.OneOfTwo()
	s = Sum([]Size{a, b}, 1e-3)
	if s.BW.MessagesPerSecond != 0 || s.Received != nil || s.Sent.MessagesPerSecond != 1000 {
		t.Errorf("one of two tells nothing: %+v, %+v, %+v", s.Sent, s.Received, s.BW)
	}
}

// A receiver gets 300 messages. Its first poll returns 100 and starts the clock, so 200 came in the timed second.
func TestFlowAfterFirst(t *testing.T) {
	s := Moved(64, Flow{Messages: 300, Timed: 200, From: 5000, To: 6000}, 1e-3, 0)
	if s.Messages != 300 || s.BW.MessagesPerSecond != 200 || s.Seconds != 1 {
		t.Errorf("%+v, %+v", s, s.BW)
	}
	if s = Moved(64, Flow{Messages: 10, Timed: 0, From: 5000, To: 5000}, 1e-3, 0); s.BW.MessagesPerSecond != 0 {
		t.Errorf("all in one look: %v messages a second", s.BW.MessagesPerSecond)
	}
}

// Intervals add up to the figures of the run, whenever the looks were, and what is before and after is marked.
func TestParts(t *testing.T) {
	at := func(ms int64) Look { return Look{ms, Count{Sent: uint64(10 * ms), Got: uint64(ms)}} }
	for _, tc := range []struct {
		name     string
		margin   [2]int64
		looks    []int64
		from, to int64
		lengths  []float64
		margins  int // at each end
	}{
		{"by count, the last piece", [2]int64{}, []int64{0, 1000, 2000}, 0, 2500, []float64{1, 1, 0.5}, 0},
		{"by count, a look at the end", [2]int64{}, []int64{0, 1000, 2001}, 0, 2000, []float64{1, 1}, 0},
		{"by count, no look", [2]int64{}, []int64{0}, 0, 300, []float64{0.3}, 0},
		{"by count, a look after the end", [2]int64{}, []int64{0, 1000, 2000}, 0, 1500, []float64{1, 0.5}, 0},
		{"by time", [2]int64{1000, 3000}, []int64{0, 1003, 2001, 3004, 4000}, 1000, 3000,
			[]float64{1, 1.001, 0.999, 1}, 1},
		{"by time, between looks", [2]int64{1500, 3500}, []int64{0, 1000, 2000, 3000, 4000, 5000}, 1500, 3500,
			[]float64{1, 0.5, 0.5, 1, 0.5, 0.5, 1}, 2},
	} {
		p := Parts{Size: 8, PerTick: 1e-3, Both: true, Counted: true, Near: 100, Margin: tc.margin}
		for _, ms := range tc.looks {
			l := at(ms)
			l.Count.Sent += 5 // what a look reads is not of the moment of its tick
			if ms == 0 {
				l.Count = Count{}
			}
			p.Add(l)
		}
		list := p.Between(at(tc.from), at(tc.to))
		if len(list) != len(tc.lengths) {
			t.Errorf("%s: %+v, want lengths %v", tc.name, list, tc.lengths)
			continue
		}
		var n, got uint64
		seconds, start := 0.0, 0.0
		for i, part := range list {
			margin := i < tc.margins || i >= len(list)-tc.margins
			off := math.Abs(part.Seconds-tc.lengths[i]) + math.Abs(part.Start-start)
			if part.Margin != margin || off > 1e-9 {
				t.Errorf("%s: part %d is %+v, want %v s from %v, margin %v", tc.name, i, part, tc.lengths[i], start,
					margin)
			}
			start += part.Seconds
			if !margin {
				n, got, seconds = n+part.Sent.Messages, got+part.Received.Messages, seconds+part.Seconds
			}
		}
		ms := tc.to - tc.from
		if n != uint64(10*ms) || got != uint64(ms) || math.Abs(seconds-float64(ms)/1000) > 1e-9 {
			t.Errorf("%s: the parts have %d and %d messages in %v s, the run %d and %d in %d ms", tc.name, n, got,
				seconds, 10*ms, ms, ms)
		}
	}
}

// An interval of both directions has both; where this end counts only what it sends, there is no sum.
func TestPartsDirections(t *testing.T) {
	for _, counted := range []bool{true, false} {
		p := Parts{Size: 8, PerTick: 1e-3, Both: true, Counted: counted}
		p.Add(Look{0, Count{}})
		i := p.Add(Look{1000, Count{Sent: 100, Got: 40}})
		want := 0.0
		if counted {
			want = 140
		}
		if i.Sent.MessagesPerSecond != 100 || (i.Received != nil) != counted || i.MessagesPerSecond != want {
			t.Errorf("counted %v: %+v", counted, i)
		}
	}
	p := Parts{Size: 8, PerTick: 1e-3}
	p.Add(Look{0, Count{}})
	if i := p.Add(Look{1000, Count{Got: 40}}); i.MessagesPerSecond != 40 || i.Messages != 40 || i.Sent != nil {
		t.Errorf("a receiver: %+v", i)
	}
}

// TestPacerRate: no number of messages is faster than the rate, from the moment at which the first might have gone.
func TestPacerRate(t *testing.T) {
	const rate = 1000.0
	clk := tsc.New()
	ms := clk.Ticks(time.Millisecond)
	for _, burst := range []int{1, 16, 128} {
		for _, n := range []int{5, 1000, 1231} {
			p := NewPacer(clk, rate, burst)
			now := 50 * ms
			begun := now
			for sent := 0; sent < n; {
				if p.Admit(now, 1) {
					sent++
					continue
				}
				now += ms
			}
			seconds := float64(now-begun) * clk.Rate() / 1e9
			if got := float64(n) / seconds; got > rate*1.005 {
				t.Errorf("burst %d: %d messages in %.4f s are %.0f per second, the limit is %v", burst, n, seconds, got,
					rate)
			}
		}
	}
}
