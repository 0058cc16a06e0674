package rdma

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestReference compares the defaults and limits with those in the package's reference.
func TestReference(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "docs", "rdma.md"))
	ok(t, err)
	page := string(b)
	thousands := func(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
	for _, s := range []string{
		fmt.Sprintf("| `MaxMessage` | %d MiB | %d GiB − 1 |", defaultMaxMessage>>20, (longestMessage+1)>>30),
		fmt.Sprintf("| `KeepAlive` | %d s |", defaultKeepAlive/time.Second),
		fmt.Sprintf("| `PrivateData` | none | %d bytes |", wire.AppDataLen),
		fmt.Sprintf("| `Timeout` | `Dial` %d s, a listener's handshakes %d s |", dialTime/time.Second,
			handshakeTime/time.Second),
		fmt.Sprintf("| `AckTimeout`, `RetryCount` | the path's, %d | %d |", maxRetry, maxRetry),
		fmt.Sprintf("| `Backlog` | %s | %s |", thousands(defaultBacklog), thousands(maxBacklog)),
		fmt.Sprintf("| `Block` | %d KiB; streams %d KiB | %d KiB to %d MiB, multiple of 64 |", defaultBlock>>10,
			largeBlock>>10, wire.MinBlock>>10, wire.MaxBlock>>20),
		fmt.Sprintf("| `Memory` | %d MiB | %d MiB or more for each poller |", defaultMemory>>20, slabSize>>20),
		fmt.Sprintf("| `Spin` | %d µs |", defaultSpin/time.Microsecond),
		fmt.Sprintf("| `MaxConns` | %d |", defaultMaxConns),
		fmt.Sprintf("| `Pollers` | 1 | %d |", maxPollers),
		fmt.Sprintf("| `Most`: bytes lent to the peer at a time | %d GiB |", defaultLeaseMost>>30),
		fmt.Sprintf("| `Count`: leases of the peer at a time | %d | %d |", defaultLeaseCount, leasesMost),
		fmt.Sprintf("| `Longest`: longest duration | %.0f hour | %.0f days |", defaultLeaseLongest.Hours(),
			longestMost.Hours()/24),
		fmt.Sprintf("access ends by force | %d s |", defaultGrace/time.Second),
		fmt.Sprintf("at most %s queue pairs", thousands(handshakesMost)),
		fmt.Sprintf("ends after %d s. If other peers wait, it ends after %.1f s", handshakeTime/time.Second,
			handshakeGrace.Seconds()),
		fmt.Sprintf("also tries TCP when RDMA has failed, or after %d ms", fallbackAfter/time.Millisecond),
	} {
		if !strings.Contains(page, s) {
			t.Errorf("docs/rdma.md does not contain %q", s)
		}
	}
}
