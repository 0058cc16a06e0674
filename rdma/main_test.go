package rdma

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/friend"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// TestMain fails when a test leaves an object open.
func TestMain(m *testing.M) { emulated.Run(func() int { return runTests(m) }) }

// least is what the tests with PUREVERBS_TEST_LEAST are granted, next to no SRQ.
var least = ibv.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}

func grantLeast(c *ibv.QPCap) {
	*c = ibv.QPCap{MaxSendWR: min(c.MaxSendWR, least.MaxSendWR), MaxRecvWR: min(c.MaxRecvWR, least.MaxRecvWR),
		MaxSendSGE: min(c.MaxSendSGE, least.MaxSendSGE), MaxRecvSGE: min(c.MaxRecvSGE, least.MaxRecvSGE)}
}

func runTests(m *testing.M) int {
	if addr := os.Getenv(childEnv); addr != "" {
		return child(addr)
	}
	if os.Getenv("PUREVERBS_TEST_LEAST") != "" {
		link.OwnQueues = true
		ibv.Internal.Show(friend.Mine).GrantLess(grantLeast)
	}
	link.LingerTime = time.Second // many tests close connections whose peers do not read
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
