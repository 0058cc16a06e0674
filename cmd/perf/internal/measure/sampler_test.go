package measure

import "testing"

// The sample has its length whenever the loop gets its processor.
func TestSampler(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ticks []int64 // when the loop looks
		count uint64  // messages of the sample, one at each look
		len   int64
	}{
		{"in time", []int64{10, 20, 50, 79, 80, 90, 100}, 3, 60},
		{"away at the beginning", []int64{5, 70, 85, 129, 130, 150}, 3, 60},
		{"away all the time", []int64{500, 600}, 1, 100},
		{"away at the end", []int64{20, 50, 300}, 2, 280},
	} {
		s := &Sampler{margin: 20, length: 100}
		s.Start(0)
		over := false
		for i, now := range tt.ticks {
			if over {
				t.Errorf("%s: over before %d", tt.name, now)
			}
			over = s.Tick(now, Count{Sent: uint64(i)})
		}
		if n, from, to := s.Sample(); !over || n.Sent != tt.count || to-from != tt.len {
			t.Errorf("%s: over is %v, %d messages in %d; want %d in %d", tt.name, over, n.Sent, to-from, tt.count,
				tt.len)
		}
	}
}

// Loops that share a window count what all of them did between the same two moments.
func TestWindow(t *testing.T) {
	w := &Window{}
	a, b := &Sampler{margin: 20, length: 100}, &Sampler{margin: 20, length: 100}
	w.Add(a)
	w.Add(b)
	a.Start(0)
	a.Tick(10, Count{Sent: 1, Got: 2 * 1})
	b.Start(9) // later, yet its sample begins with that of a
	b.Tick(15, Count{Sent: 100, Got: 2 * 100})
	a.Tick(30, Count{Sent: 2, Got: 2 * 2}) // late by 10, so that all goes on for longer
	b.Tick(31, Count{Sent: 150, Got: 2 * 150})
	b.Tick(80, Count{Sent: 300, Got: 2 * 300})
	a.Tick(85, Count{Sent: 5, Got: 2 * 5})
	b.Tick(90, Count{Sent: 400, Got: 2 * 400}) // the end of both
	if over := a.Tick(111, Count{Sent: 8, Got: 2 * 8}); !over {
		t.Error("a goes on")
	}
	if over := b.Tick(112, Count{Sent: 600, Got: 2 * 600}); !over {
		t.Error("b goes on")
	}
	for _, tt := range []struct {
		s *Sampler
		n uint64
	}{{a, 5 - 2}, {b, 400 - 100}} {
		if n, from, to := tt.s.Sample(); n != (Count{tt.n, 2 * tt.n}) || from != 30 || to != 90 {
			t.Errorf("%d messages from %d to %d, want %d from 30 to 90", n, from, to, tt.n)
		}
	}
}
