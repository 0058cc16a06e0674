package pace

import "testing"

// TestSilence counts beats of a CQ: it is stuck if nothing completes although the canary was asked, and not earlier.
func TestSilence(t *testing.T) {
	var s Silence
	n := uint64(0)
	beat := func(used bool, want Verdict) {
		t.Helper()
		if got := s.Beat(n, used); got != want {
			t.Fatalf("%d completions, %+v: %d, want %d", n, s, got, want)
		}
	}
	for range 100 { // not used
		beat(false, Wait)
	}
	for range 100 { // busy
		n++
		beat(true, Wait)
	}
	ask := func() {
		t.Helper()
		for range SilentBeats - 1 {
			beat(true, Wait)
		}
		beat(true, Ask)
	}
	for range 100 { // idle: the canary replies, at the last moment
		ask()
		for range StuckBeats - 1 {
			beat(true, Wait)
		}
		n++
		beat(true, Wait)
	}
	ask()
	beat(false, Wait) // the last connection has gone
	ask()
	for range StuckBeats - 1 {
		beat(true, Wait)
	}
	beat(true, Stuck)
}
