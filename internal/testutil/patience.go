package testutil

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Patience is how long a test waits for an event that must happen. It only ends tests that hang: busy machines are
// slow, and the VM's processors are emulated. It is shorter than the silence that test/tiers allows a test binary, so a
// test that hangs can report what it was waiting for.
const Patience = 4 * time.Minute

// Eventually waits until ok returns true, and fails the test after Patience.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end, pause := time.Now().Add(Patience), time.Millisecond; !ok(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", Patience, what)
		}
		time.Sleep(pause)
	}
}

// FullEnv names the environment variable that makes the long tests run every row in each place, as make test-full does.
// Without it each kind of row runs in one place.
const FullEnv = "PUREVERBS_FULL"

// Full reports whether every row is to run.
func Full() bool { return os.Getenv(FullEnv) != "" }

// TurnEnv names the environment variable with the number of a short run: of long lists each commit has other rows.
// Where it is not set, every row runs.
const TurnEnv = "PUREVERBS_TURN"

// Turn reports whether row n of a long list runs now: one in so many of a short run, each row in a full one.
func Turn(n, of int) bool {
	turn, err := strconv.ParseUint(os.Getenv(TurnEnv), 10, 64)
	return err != nil || (uint64(n)+turn)%uint64(of) == 0
}

// LibrariesEnv names the Debian release in whose root tier emu runs tests, with its libraries and stock programs.
const LibrariesEnv = "PUREVERBS_LIBRARIES"

// Libraries returns the Debian release whose libraries and stock programs the tests have, "" for this system's.
func Libraries() string { return os.Getenv(LibrariesEnv) }
