package rdma

import "testing"

// TestSilence counts beats of a CQ: it is stuck if nothing completes although the canary was asked, and not earlier.
func TestSilence(t *testing.T) {
	var s silence
	n := uint64(0)
	beat := func(used bool, want verdict) {
		t.Helper()
		if got := s.beat(n, used); got != want {
			t.Fatalf("%d completions, %+v: %d, want %d", n, s, got, want)
		}
	}
	for range 100 { // not used
		beat(false, verdictWait)
	}
	for range 100 { // busy
		n++
		beat(true, verdictWait)
	}
	ask := func() {
		t.Helper()
		for range silentBeats - 1 {
			beat(true, verdictWait)
		}
		beat(true, verdictAsk)
	}
	for range 100 { // idle: the canary replies, at the last moment
		ask()
		for range stuckBeats - 1 {
			beat(true, verdictWait)
		}
		n++
		beat(true, verdictWait)
	}
	ask()
	beat(false, verdictWait) // the last connection has gone
	ask()
	for range stuckBeats - 1 {
		beat(true, verdictWait)
	}
	beat(true, verdictStuck)
}
