package testutil

import (
	"os"
	"testing"
	"time"
)

// Patience is how long a test waits for what has to come. It bounds hangs and measures nothing: machines are slow when
// they are busy, and the VM's processors are emulated. It is shorter than the silence that test/tiers grants a test
// binary, so that a test that hangs says at what.
const Patience = 4 * time.Minute

// Eventually waits until ok reports true, and fails the test after Patience.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end, pause := time.Now().Add(Patience), time.Millisecond; !ok(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", Patience, what)
		}
		time.Sleep(pause)
	}
}

// FullEnv asks for every row of the long tests everywhere: make test-full. Without it each kind of row runs somewhere.
const FullEnv = "PUREVERBS_FULL"

// Full reports whether every row is to run.
func Full() bool { return os.Getenv(FullEnv) != "" }
