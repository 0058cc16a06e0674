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
			over = s.Tick(now, uint64(i))
		}
		if n, d := s.Sample(); !over || n != tt.count || d != tt.len {
			t.Errorf("%s: over is %v, %d messages in %d; want %d in %d", tt.name, over, n, d, tt.count, tt.len)
		}
	}
}
