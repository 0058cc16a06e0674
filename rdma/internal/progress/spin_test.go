package progress

import "testing"

// TestPatience has waits be long and short in turn.
func TestPatience(t *testing.T) {
	var p Patience
	polled := func(waits int, came bool) (n int) {
		for range waits {
			if p.spins() {
				n++
				p.learn(came)
			}
		}
		return n
	}
	for _, tt := range []struct {
		what  string
		waits int
		came  bool
		want  int
	}{
		{"long ones: a try each time", 10 * trialEach, false, 10},
		{"short ones: after a try all", trialEach + 99, true, 100},
		{"long ones after short ones", luckMost / 2, false, luckMost / 2},
		{"long ones", 10 * trialEach, false, 10},
	} {
		if got := polled(tt.waits, tt.came); got != tt.want {
			t.Errorf("%s: %d of %d polled, want %d", tt.what, got, tt.waits, tt.want)
		}
	}
}
