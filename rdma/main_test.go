package rdma

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
)

// TestMain fails when a test leaves an object open.
func TestMain(m *testing.M) { emulated.Run(func() int { return runTests(m) }) }

func runTests(m *testing.M) int {
	if addr := os.Getenv(childEnv); addr != "" {
		return child(addr)
	}
	ownQueues = os.Getenv("PUREVERBS_TEST_NOSRQ") != ""
	lingerTime = time.Second // many tests close connections whose peers do not read
	leak.Enable()
	code := m.Run()
	if err := CloseIdle(); err != nil {
		fmt.Fprintln(os.Stderr, "CloseIdle:", err)
		code = max(code, 1)
	}
	if open := leak.Open(); code == 0 && len(open) > 0 {
		fmt.Fprintf(os.Stderr, "%d objects were not closed:\n%s\n", len(open), strings.Join(open, "\n"))
		code = 1
	}
	return code
}
