package rsocket

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/leak"
)

// TestMain fails when a test leaves a socket or a poller open.
func TestMain(m *testing.M) {
	leak.Enable()
	code := m.Run()
	if open := leak.Open(); code == 0 && len(open) > 0 {
		fmt.Fprintf(os.Stderr, "%d objects were not closed:\n%s\n", len(open), strings.Join(open, "\n"))
		code = 1
	}
	os.Exit(code)
}
