// Package await bounds how long tests wait.
package await

import (
	"testing"
	"time"
)

// Limit is how long a test waits for an event that must happen. It only ends tests that hang: busy machines are slow.
// It is shorter than the silence that test/tiers allows a test binary, so a test that hangs can print what it was
// waiting for.
const Limit = 4 * time.Minute

// Eventually waits until ok returns true, and fails the test after Limit.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end, pause := time.Now().Add(Limit), time.Millisecond; !ok(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", Limit, what)
		}
		time.Sleep(pause)
	}
}
