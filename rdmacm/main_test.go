package rdmacm

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
)

// TestMain fails when a test leaves an object open.
func TestMain(m *testing.M) { emulated.Run(func() int { return runTests(m) }) }

func runTests(m *testing.M) int {
	if addr := os.Getenv(dialerEnv); addr != "" {
		return dialer(addr)
	}
	if arg := os.Getenv(stopEnv); arg != "" {
		return stopAt(arg)
	}
	if addr := os.Getenv(serverEnv); addr != "" {
		return serveUntilEOF(addr)
	}
	if os.Getenv("PUREVERBS_FIGURES") == "" { // stacks take time
		leak.Enable()
	}
	code := m.Run()
	left := func() bool { return idle() || code == 0 && len(leak.Open()) > 0 }
	for end := time.Now().Add(testutil.Patience); left() && time.Now().Before(end); { // they are being closed
		time.Sleep(time.Millisecond)
	}
	devices.Lock()
	defer devices.Unlock()
	for _, d := range devices.m {
		fmt.Fprintf(os.Stderr, "%s is in use by %d IDs or lists: %v\n", d.dev.Name(), d.refs, d.dev.Close())
		code = max(code, 1)
	}
	if open := leak.Open(); code == 0 && len(open) > 0 {
		fmt.Fprintf(os.Stderr, "%d objects were not closed:\n%s\n", len(open), strings.Join(open, "\n"))
		return 1
	}
	return code
}

// idle reports whether there are devices without users.
func idle() bool {
	devices.Lock()
	defer devices.Unlock()
	for _, d := range devices.m {
		if d.refs == 0 {
			return true
		}
	}
	return false
}
